"""The journal of a run: everything paid for, written down before it is used.

One SQLite file in WAL mode with synchronous NORMAL: it survives the death of the process at any
point. A loss of power may cost the last second.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from accelopt.errors import SchemaVersionError, StoreError
from accelopt.evaluation import Evaluation

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    slot TEXT NOT NULL, prompt_hash TEXT NOT NULL, data TEXT NOT NULL, created_s REAL NOT NULL,
    PRIMARY KEY (slot, prompt_hash)
);
CREATE TABLE IF NOT EXISTS evaluations (
    key TEXT PRIMARY KEY, source TEXT NOT NULL, data TEXT NOT NULL, created_s REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS retrievals (
    slot TEXT PRIMARY KEY, data TEXT NOT NULL, created_s REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, id TEXT NOT NULL, data TEXT NOT NULL, created_s REAL NOT NULL,
    PRIMARY KEY (kind, id)
);
"""


class Answer(BaseModel):
    """One reply of a language model.

    Attributes:
        reply: the text.
        reasoning: what the model showed of its reasoning; usually empty.
        model: the name the model goes by.
        input_tokens: as reported; 0 when not reported.
        output_tokens: as reported; 0 when not reported.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reply: str
    reasoning: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class JournalledEvaluation(BaseModel):
    """An evaluation and the text that was evaluated (line numbers refer to that text)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    evaluation: Evaluation


class JournalCounts(BaseModel):
    """What a run has cost so far."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_calls: int = 0
    evaluations: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Journal:
    """One connection to a journal file. Safe to use from several threads.

    Whatever is recorded twice under one key keeps its first value, and the recording call returns
    that value, so every user of a key sees the same thing.

    Args:
        path: the file; made when it does not exist.

    Raises:
        SchemaVersionError: a newer version of accelopt wrote it.
        StoreError: the file is not a journal, or can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None, timeout=30.0
            )
        except sqlite3.Error as error:
            raise StoreError(f"can't open the journal {path}: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._check_version()
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreError(f"{path} is not a journal: {error}") from error
        except StoreError:
            self._connection.close()
            raise

    def _check_version(self) -> None:
        self._connection.executescript(_SCHEMA)
        self._connection.execute(
            "INSERT OR IGNORE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),)
        )
        row = self._connection.execute(
            "SELECT value FROM meta WHERE key = 'schema_version'"
        ).fetchone()
        found = int(row[0])
        if found > SCHEMA_VERSION:
            raise SchemaVersionError(str(self.path), found=found, supported=SCHEMA_VERSION)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    def answer(self, slot: str, prompt_hash: str) -> Answer | None:
        """The reply that was given in `slot` to the prompt with that hash; None if none was."""
        row = self._one(
            "SELECT data FROM answers WHERE slot = ? AND prompt_hash = ?", slot, prompt_hash
        )
        return None if row is None else Answer.model_validate_json(row[0])

    def record_answer(self, slot: str, prompt_hash: str, answer: Answer) -> Answer:
        """Write a reply down; returns what the journal holds for that slot and prompt."""
        self._write(
            "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)",
            slot,
            prompt_hash,
            answer.model_dump_json(),
        )
        stored = self.answer(slot, prompt_hash)
        return answer if stored is None else stored

    def evaluation(self, key: str) -> JournalledEvaluation | None:
        """The evaluation under a content key; None if there is none."""
        row = self._one("SELECT source, data FROM evaluations WHERE key = ?", key)
        if row is None:
            return None
        return JournalledEvaluation(
            source=row[0], evaluation=Evaluation.model_validate_json(row[1])
        )

    def record_evaluation(self, key: str, source: str, evaluation: Evaluation) -> None:
        """Write an evaluation down under its content key."""
        self._write(
            "INSERT OR IGNORE INTO evaluations VALUES (?, ?, ?, ?)",
            key,
            source,
            evaluation.model_dump_json(),
        )

    def retrieval(self, slot: str) -> list[dict[str, Any]] | None:
        """What the memory gave in `slot`; None if it was not asked yet."""
        row = self._one("SELECT data FROM retrievals WHERE slot = ?", slot)
        return None if row is None else list(json.loads(row[0]))

    def record_retrieval(self, slot: str, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write down what the memory gave; returns what the journal holds for the slot."""
        given = list(items)
        self._write("INSERT OR IGNORE INTO retrievals VALUES (?, ?, ?)", slot, json.dumps(given))
        stored = self.retrieval(slot)
        return given if stored is None else stored

    def record(self, kind: str, id_: str) -> str | None:
        """The JSON text kept under (kind, id); None if there is none."""
        row = self._one("SELECT data FROM records WHERE kind = ? AND id = ?", kind, id_)
        return None if row is None else str(row[0])

    def put_record(self, kind: str, id_: str, data: str) -> None:
        """Keep a JSON text under (kind, id), in place of what was there.

        Records are worked out from answers and evaluations, so a later one may replace an earlier.
        """
        self._write("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", kind, id_, data)

    def records(self, kind: str) -> dict[str, str]:
        """All JSON texts of one kind by id, in the order of their ids."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT id, data FROM records WHERE kind = ? ORDER BY id", (kind,)
            ).fetchall()
        return {str(id_): str(data) for id_, data in rows}

    def counts(self) -> JournalCounts:
        """What was paid for so far; each journalled thing counts once."""
        calls, sent, received = self._one(
            "SELECT count(*), coalesce(sum(json_extract(data, '$.input_tokens')), 0),"
            " coalesce(sum(json_extract(data, '$.output_tokens')), 0) FROM answers"
        ) or (0, 0, 0)
        evaluations = self._one("SELECT count(*) FROM evaluations") or (0,)
        return JournalCounts(
            model_calls=calls,
            evaluations=evaluations[0],
            input_tokens=sent,
            output_tokens=received,
        )

    def _one(self, statement: str, *values: str) -> tuple[Any, ...] | None:
        with self._lock:
            row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        return row

    def _write(self, statement: str, *values: str) -> None:
        try:
            with self._lock:
                self._connection.execute(statement, (*values, time.time()))
        except sqlite3.OperationalError as error:
            raise StoreError(f"can't write to {self.path}: {error}") from error
