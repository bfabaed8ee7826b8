"""Whether the optimization memory works: opened, read and asked, in a copy.

The vector store writes when it is opened, and doctor changes nothing: the folder is only read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from accelopt.config import NONE, RunConfig
from accelopt.doctor import Check, nearest_existing
from accelopt.errors import AcceloptError
from accelopt.files import locked
from accelopt.memory import LOCK_FILE, OptimizationMemory, relevance_text
from accelopt.plugins import installed
from accelopt_graphs.services import memory_path

if TYPE_CHECKING:
    from accelopt.embedder import Embedder

DATABASE = "chroma.sqlite3"
"""What Chroma calls its database."""


def memory_checks() -> list[Check]:
    """Look at the memory that runs here would use.

    Raises:
        AcceloptError: a setting of the environment can't be used.
    """
    config = RunConfig.load(None)
    if config.memory == NONE:
        return [Check(name="store", state="ok", detail="none: each run keeps its own lessons")]
    folder = memory_path(config.memory, Path())
    try:
        return list(_checks(folder, installed().embedder(config.embedder)))
    except OSError as error:
        detail = f"{folder} can't be looked at: {error.strerror or type(error).__name__}"
        fix = "make its files readable, and see that there is room for temporary files"
        return [Check(name="store", state="fail", detail=detail, fix=fix)]


def _checks(folder: Path, embedder: Embedder) -> Iterator[Check]:
    """The findings, up to the first that makes the next ones meaningless."""
    if folder.exists() and not folder.is_dir():
        fix = "move that file away, or name a folder with ACCELOPT_MEMORY"
        yield Check(name="store", state="fail", detail=f"{folder} is no folder", fix=fix)
        return
    if not (folder / DATABASE).exists():
        above = nearest_existing(folder)
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            detail = f"{folder} can't be made: {above} can't be written"
            fix = "make that writable, or name another folder with ACCELOPT_MEMORY"
            yield Check(name="store", state="fail", detail=detail, fix=fix)
            return
        detail = f"{folder}, made when it is first needed"
        yield Check(name="store", state="ok", detail=detail)
        return
    closed = [
        path for path in (folder, *folder.rglob("*")) if not os.access(path, os.R_OK | os.W_OK)
    ]
    if closed:
        fix = "make it yours (chown, chmod u+rw), or name another folder with ACCELOPT_MEMORY"
        detail = f"{closed[0]} can't be read and written"
        yield Check(name="store", state="fail", detail=detail, fix=fix)
        return
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield Check(name="store", state="ok", detail=f"{folder}, {size / (1 << 20):.1f} MiB")
    lock = folder / LOCK_FILE
    with tempfile.TemporaryDirectory(prefix="accelopt-doctor-") as place:
        copy = Path(place) / "memory"
        # A writer's half-done files would look like damage.
        with locked(lock, wait=False) if lock.exists() else nullcontext(True) as free:
            if free:
                shutil.copytree(folder, copy)
        if not free:
            yield Check(
                name="lock",
                state="warn",
                detail="a run writes to it just now: not looked at further",
                fix="ask again when the run is over",
            )
            return
        yield from _trial(folder, copy, embedder)


def _trial(folder: Path, copy: Path, embedder: Embedder) -> Iterator[Check]:
    """Open and ask the copy."""
    move_away = f"move {folder} away to start a new one; runs keep their own lessons"
    damage = _damage(copy / DATABASE)
    if damage:
        yield Check(name="database", state="fail", detail=f"damaged: {damage}", fix=move_away)
        return
    yield Check(name="database", state="ok", detail="sound")
    try:
        with OptimizationMemory(copy, embedder) as memory:
            version = memory.schema_version
            lessons = memory.all()
            asked = lessons[0] if lessons else None
            found = []
            if asked is not None:
                text = relevance_text(asked.slow_source, asked.bottleneck)
                found = memory.retrieve(text, asked.device, asked.dialect, len(lessons))
    except AcceloptError as error:
        message = error.message.replace(str(copy), str(folder))
        yield Check(name="opens", state="fail", detail=message, fix=error.hint or move_away)
        return
    except Exception as error:  # noqa: BLE001 - whatever Chroma raises, the store does not work
        detail = f"can't be read: {type(error).__name__}"
        yield Check(name="opens", state="fail", detail=detail, fix=move_away)
        return
    yield Check(name="opens", state="ok", detail=f"schema version {version}")
    yield Check(name="lessons", state="ok", detail=f"{len(lessons)}, all readable")
    if asked is not None and asked.id not in {lesson.id for lesson in found}:
        detail = f"lesson {asked.id} is not found by its own kernel"
        yield Check(name="query", state="fail", detail=detail, fix=move_away)
        return
    yield Check(
        name="query", state="ok", detail="answered" if lessons else "nothing to ask for yet"
    )


def _damage(database: Path) -> str:
    """What SQLite finds wrong with its file; empty when nothing is."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if verdict == "ok" else str(verdict)[:200]
