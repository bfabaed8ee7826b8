"""One SQLite file: opened the same way everywhere, with a schema version.

WAL mode with synchronous NORMAL: a file survives the death of its process at any point. A loss of
power may cost the last second.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelopt.errors import SchemaVersionError, StoreError


class SqliteFile:
    """One connection, safe to use from several threads.

    Args:
        path: the file; made when it does not exist.
        what: what the file is, for messages: `journal`.
        version: schema version this code reads and writes.
        schema: statements that make what is missing.
        migrate: brings a file of the given older version up to date.

    Raises:
        SchemaVersionError: a newer version of accelopt wrote it.
        StoreError: the file is something else, or can't be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        what: str,
        version: int,
        schema: str,
        migrate: Callable[[sqlite3.Connection, int], None],
    ) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None, timeout=30.0
            )
        except sqlite3.Error as error:
            raise StoreError(f"can't open the {what} {path}: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            # Pages: 16 MiB. Pages that change all the time are copied back less often.
            self._connection.execute("PRAGMA wal_autocheckpoint = 4096")
            self._prepare(version, schema, migrate)
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreError(f"{path} is not a {what}: {error}") from error
        except StoreError:
            self._connection.close()
            raise

    def _prepare(
        self, version: int, schema: str, migrate: Callable[[sqlite3.Connection, int], None]
    ) -> None:
        connection = self._connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
        )
        row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        found = version if row is None else int(row[0])
        if found > version:
            raise SchemaVersionError(str(self.path), found=found, supported=version)
        if found < version:
            migrate(connection, found)
        connection.executescript(schema)
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('schema_version', ?)", (str(version),)
        )

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    def one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query; None if there is none."""
        with self._lock:
            row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        return row

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def write(self, statement: str, *values: Any) -> int:
        """Run a statement that writes; gives how many rows it changed.

        Raises:
            StoreError: it can't be written (the disk is full, the file is read-only).
        """
        try:
            with self._lock:
                return self._connection.execute(statement, values).rowcount
        except sqlite3.OperationalError as error:
            raise StoreError(f"can't write to {self.path}: {error}") from error

    def copy_to(self, path: Path) -> None:
        """Write a complete copy, as it is at this moment, to another file."""
        with self._lock:
            target = sqlite3.connect(path)
            try:
                self._connection.backup(target)
            finally:
                target.close()
