"""Files that are whole or not there: atomic writes, and a lock that dies with its process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - only where the system has no POSIX locks
    fcntl = None  # type: ignore[assignment]


def write_atomic(path: Path, text: str, *, durable: bool = True) -> None:
    """Write `text` so that a reader sees the old file or the new one, never a part.

    Args:
        path: the file.
        text: its content.
        durable: wait until it would survive a loss of power.
    """
    if not durable:
        # Whoever writes such a file is the only one who does.
        passing = path.with_name(f".{path.name}.tmp")
        passing.write_text(text, encoding="utf-8", newline="\n")
        os.replace(passing, path)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a result is meant to be read like any other file.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock file `path`; gives whether it could be had.

    The system drops the lock when its process dies, so a killed run never stays locked.

    Args:
        path: the lock file; made when it does not exist.
        wait: wait for the lock; else give up at once.
    """
    with path.open("a") as file:
        if fcntl is None:  # pragma: no cover
            yield True
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
