"""A run as a folder: what was asked, what was paid for, what came out.

::

    run.toml            the settings
    run.json            schema version, identity, status, progress, result
    journal.sqlite      model answers, evaluations, retrievals, candidates, plans, experiences
    checkpoints.sqlite  where the graph stands
    events.jsonl        what happened, in order
    kernels/<id>.py     every candidate
    best.py             the result
    prices.json         what the models cost when the run was started or resumed
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from accelopt.config import RunConfig
from accelopt.errors import AcceloptError, StoreError
from accelopt.files import locked, write_atomic
from accelopt.prices import Price, PriceTable
from accelopt.run_file import (
    SCHEMA_VERSION,
    RunFile,
    RunStatus,
    RunSummary,
    read_config,
    read_run_file,
)
from accelopt.run_records import RunRecords

__all__ = ["SCHEMA_VERSION", "RunStatus", "RunStore", "RunSummary"]


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str)


class RunStore(RunRecords):
    """One run folder. Make it with `create` or `open`; close it when done.

    Attributes:
        path: the folder.
        run_id: its name.
        config: what was asked for.
    """

    def __init__(self, path: Path, config: RunConfig, file: RunFile) -> None:
        super().__init__(path, file.run)
        self.config = config
        self._file = file
        self._lock = threading.Lock()
        self._events_lock = threading.Lock()
        self._events_file: TextIO | None = None

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        config: RunConfig,
        task_name: str,
        *,
        run_id: str = "",
        forked_from: str = "",
        forked_at: int | None = None,
    ) -> RunStore:
        """Make a new run folder in `runs_dir`.

        Args:
            runs_dir: where.
            config: what is asked for.
            task_name: name of the task.
            run_id: name of the folder; by default a new one, of the date and the task.
            forked_from, forked_at: of a fork: its parent, and the last common iteration.

        Raises:
            StoreError: the folder can't be made.
        """
        now = datetime.now(UTC)
        short = re.sub(r"[^a-z0-9_]+", "-", task_name.rsplit("/", 1)[-1].lower()).strip("-")[:40]
        stem = f"{now:%Y%m%d-%H%M%S}-{short or 'kernel'}"
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            if run_id:
                path = runs_dir / run_id
                path.mkdir()
            else:
                path = _new_folder(runs_dir, stem)
            (path / "kernels").mkdir()
            write_atomic(path / "run.toml", config.to_toml())
        except OSError as error:
            raise StoreError(f"can't make a run folder in {runs_dir}: {error.strerror}") from error
        file = RunFile(
            schema_version=SCHEMA_VERSION,
            run=path.name,
            task=task_name,
            backend=config.backend,
            status="created",
            created=now.isoformat(timespec="seconds"),
            forked_from=forked_from,
            forked_at=forked_at,
        )
        store = cls(path, config, file)
        store._save()
        return store

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open an existing run folder.

        Raises:
            StoreError: it is not a run folder, or is damaged.
            SchemaVersionError: a newer version of accelopt wrote it.
        """
        file = read_run_file(path)
        return cls(path, read_config(path), file)

    @staticmethod
    def list_runs(runs_dir: Path) -> tuple[list[RunSummary], dict[Path, str]]:
        """All runs in `runs_dir`, newest first, and what is wrong with the broken folders."""
        summaries: list[RunSummary] = []
        broken: dict[Path, str] = {}
        folders = sorted(runs_dir.iterdir()) if runs_dir.is_dir() else []
        for path in folders:
            if not path.is_dir() or path.name.startswith("."):
                continue
            try:
                with RunStore.open(path) as store:
                    summaries.append(store.summary())
            except AcceloptError as error:
                broken[path] = error.message
        summaries.sort(key=lambda summary: (summary.created, summary.run), reverse=True)
        return summaries, broken

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def checkpoints_path(self) -> Path:
        """File of the graph library's checkpoints; kept apart, its format is not ours."""
        return self.path / "checkpoints.sqlite"

    @property
    def events_path(self) -> Path:
        """The file of events, one JSON object a line."""
        return self.path / "events.jsonl"

    @property
    def best_path(self) -> Path:
        """The file of the best kernel; there once the run has ended."""
        return self.path / "best.py"

    @property
    def task_name(self) -> str:
        """Name of the task."""
        return self._file.task

    @property
    def status(self) -> RunStatus:
        """How the run stands; `interrupted` when its process died."""
        status = self._file.status
        if status == "running":
            with locked(self.path / ".lock", wait=False) as free:
                return "interrupted" if free else "running"
        return status

    @property
    def elapsed_s(self) -> float:
        """Wall time of its sessions so far, as far as it was written down."""
        return self._file.elapsed_s

    @property
    def forked_from(self) -> str:
        """The run that this one began as a copy of; empty for none."""
        return self._file.forked_from

    @property
    def forked_at(self) -> int | None:
        """The iteration after which it went its own way; None when it is no fork."""
        return self._file.forked_at

    @property
    def result(self) -> dict[str, Any] | None:
        """The run's result as it was saved; None before it has one."""
        return self._file.result

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes from running this run at the same time.

        Raises:
            StoreError: another process is running it.
        """
        with locked(self.path / ".lock", wait=False) as got:
            if not got:
                raise StoreError(
                    f"run {self.run_id} is being run by another process",
                    hint="wait for it, or stop it first",
                )
            yield

    def update(self, **changes: Any) -> None:
        """Change fields of run.json (`status`, `iterations_done`, `best`, `result`, ...)."""
        with self._lock:
            known = self._file.model_dump() | {"schema_version": SCHEMA_VERSION}
            self._file = RunFile.model_validate(known | changes)
            self._save()

    def _save(self) -> None:
        text = self._file.model_dump_json(indent=2)
        try:
            write_atomic(self.path / "run.json", text + "\n")
        except OSError as error:
            raise StoreError(f"can't write to {self.path}: {error.strerror}") from error

    def summary(self) -> RunSummary:
        """The run in a line."""
        counts = self.journal.counts()
        file = self._file
        speedup = None
        if file.baseline_latency_us is not None and file.best_latency_us:
            speedup = file.baseline_latency_us / file.best_latency_us
        return RunSummary(
            run=file.run,
            task=file.task,
            backend=file.backend,
            status=self.status,
            created=file.created,
            iterations=file.iterations_done,
            baseline_latency_us=file.baseline_latency_us,
            best_latency_us=file.best_latency_us,
            speedup=speedup,
            evaluations=counts.evaluations,
            model_calls=counts.model_calls,
            message=file.message,
        )

    def reconfigure(self, config: RunConfig) -> None:
        """Go on with other settings.

        Raises:
            StoreError: they can't be written.
        """
        try:
            write_atomic(self.path / "run.toml", config.to_toml())
        except OSError as error:
            raise StoreError(f"can't write to {self.path}: {error.strerror}") from error
        self.config = config

    def save_prices(self, table: PriceTable, prices: Mapping[str, Price | None]) -> None:
        """Keep the prices that the run is counted with, as `prices.json`."""
        data = {
            "as_of": table.as_of,
            "source": table.source,
            "usd_per_million_tokens": {
                label: None if price is None else price.model_dump()
                for label, price in prices.items()
            },
        }
        write_atomic(self.path / "prices.json", json.dumps(data, indent=2) + "\n")

    def write_best(self, text: str) -> None:
        """Write `best.py`."""
        write_atomic(self.best_path, text)

    def append_event(self, event: Any) -> None:
        """Append one event to `events.jsonl`."""
        line = _ENCODER.encode(event)
        with self._events_lock:
            if self._events_file is None:
                self._events_file = self.events_path.open("a", encoding="utf-8")
            # One write per line, so that a reader never sees a part of one.
            self._events_file.write(line + "\n")
            self._events_file.flush()

    def close(self) -> None:
        """Close all files; safe to call twice. The next use opens them again."""
        with self._events_lock:
            if self._events_file is not None:
                self._events_file.close()
                self._events_file = None
        super().close()

    def events(self) -> list[dict[str, Any]]:
        """All events so far; a line that was cut off by a crash is left out."""
        if not self.events_path.exists():
            return []
        events: list[dict[str, Any]] = []
        for line in self.events_path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events


def _new_folder(runs_dir: Path, stem: str) -> Path:
    for _ in range(100):
        path = runs_dir / f"{stem}-{secrets.token_hex(2)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise StoreError(f"can't find a free name for a run in {runs_dir}")
