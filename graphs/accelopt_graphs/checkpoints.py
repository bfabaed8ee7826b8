"""The graph's checkpoints in the run folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver


@contextmanager
def open_saver(path: Path) -> Iterator[SqliteSaver]:
    """A checkpointer on a file.

    A damaged file is moved aside: the journal holds everything that was paid for, so starting the
    graph anew costs nothing.
    """
    try:
        connection = _connect(path)
    except sqlite3.DatabaseError:
        path.replace(path.with_suffix(".damaged"))
        connection = _connect(path)
    with closing(connection):
        yield SqliteSaver(connection)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=30.0)
    try:
        SqliteSaver(connection).setup()
        connection.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection
