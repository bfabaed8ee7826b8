"""The journal of a run: everything paid for, written down before it is used."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from accelopt import slots
from accelopt.errors import StoreError
from accelopt.evaluation import Evaluation
from accelopt.sqlite_file import SqliteFile

SCHEMA_VERSION = 2
_RECENT_RECORDS = 256
_RECENT_CHARACTERS = 4_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    slot TEXT NOT NULL, prompt_hash TEXT NOT NULL, data TEXT NOT NULL, created_s REAL NOT NULL,
    own INTEGER NOT NULL DEFAULT 1, PRIMARY KEY (slot, prompt_hash)
);
CREATE TABLE IF NOT EXISTS evaluations (
    key TEXT PRIMARY KEY, source TEXT NOT NULL, data TEXT NOT NULL, created_s REAL NOT NULL,
    own INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE IF NOT EXISTS sources (hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS retrievals (
    slot TEXT PRIMARY KEY, data TEXT NOT NULL, created_s REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, id TEXT NOT NULL, data TEXT NOT NULL, created_s REAL NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE TABLE IF NOT EXISTS failures (
    id TEXT PRIMARY KEY, slot TEXT NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL,
    created_s REAL NOT NULL
);
"""


class Answer(BaseModel):
    """One reply of a language model.

    Attributes:
        reply: the text.
        reasoning: what the model showed of its reasoning; usually empty.
        model: the name the server gave itself.
        role: of the agent that asked.
        label: the name the model was asked for under, as in the settings and the price table.
        finish_reason: why the model stopped, in its own words; empty when it did not say.
        input_tokens, output_tokens: as reported; worked out from the texts when not reported.
        tokens_estimated: whether the tokens were not reported.
        cost_usd: by the run's price table; None when the price is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reply: str
    reasoning: str = ""
    model: str = ""
    role: str = ""
    label: str = ""
    finish_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_estimated: bool = False
    cost_usd: float | None = None


class JournalledEvaluation(BaseModel):
    """An evaluation and the text that was evaluated (line numbers refer to that text)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    evaluation: Evaluation


class JournalCounts(BaseModel):
    """What a run has cost so far; what it took over from another run does not count.

    Attributes:
        model_calls: answers.
        evaluations: programs that were judged.
        reused_evaluations: programs that had been judged before, by other runs.
        input_tokens, output_tokens: of all answers.
        cost_usd: of all answers with a known price.
        unpriced_calls: answers without a known price.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_calls: int = 0
    evaluations: int = 0
    reused_evaluations: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0


class Journal:
    """One journal file. Safe to use from several threads.

    An answer or a retrieval that is recorded twice under one key keeps its first value, and the
    recording call returns that value, so every user of a key sees the same thing.

    Args:
        path: the file; made when it does not exist.

    Raises:
        SchemaVersionError: a newer version of accelopt wrote it.
        StoreError: the file is not a journal, or can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._recent: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._recent_lock = threading.Lock()
        self._stored: set[str] = set()
        self._file = SqliteFile(
            path, what="journal", version=SCHEMA_VERSION, schema=_SCHEMA, migrate=_migrate
        )

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()

    def copy_to(self, path: Path) -> None:
        """Write a complete copy to another file."""
        self._file.copy_to(path)

    def answer(self, slot: str, prompt_hash: str) -> Answer | None:
        """The reply that was given in `slot` to the prompt with that hash; None if none was."""
        row = self._file.one(
            "SELECT data FROM answers WHERE slot = ? AND prompt_hash = ?", slot, prompt_hash
        )
        return None if row is None else Answer.model_validate_json(row[0])

    def answers_in(self, slot: str) -> list[Answer]:
        """The replies that were given in `slot` to any prompt, the oldest first."""
        rows = self._file.all("SELECT data FROM answers WHERE slot = ? ORDER BY created_s", slot)
        return [Answer.model_validate_json(row[0]) for row in rows]

    def record_answer(self, slot: str, prompt_hash: str, answer: Answer) -> Answer:
        """Write a reply down; returns what the journal holds for that slot and prompt."""
        written = self._file.write(
            "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, 1)",
            slot,
            prompt_hash,
            answer.model_dump_json(),
            time.time(),
        )
        stored = None if written else self.answer(slot, prompt_hash)
        return answer if stored is None else stored

    def usage(self) -> dict[str, tuple[int, int]]:
        """`role/label` -> (answers, output tokens): what the budget expects of the next call."""
        rows = self._file.all(
            "SELECT json_extract(data, '$.role') || '/' || json_extract(data, '$.label'), count(*),"
            " coalesce(sum(json_extract(data, '$.output_tokens')), 0) FROM answers GROUP BY 1"
        )
        return {str(key or ""): (int(count), int(tokens)) for key, count, tokens in rows}

    def evaluation(self, key: str) -> JournalledEvaluation | None:
        """The evaluation under a content key; None if there is none."""
        row = self._file.one(
            "SELECT coalesce(text, source), data FROM evaluations LEFT JOIN sources"
            " ON hash = source WHERE key = ?",
            key,
        )
        if row is None:
            return None
        return JournalledEvaluation(
            source=row[0], evaluation=Evaluation.model_validate_json(row[1])
        )

    def put_source(self, text: str) -> str:
        """Keep a kernel's text, once however often it is used; gives its hash (hex)."""
        hash_ = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        with self._recent_lock:
            known = hash_ in self._stored
        if not known:
            self._file.write("INSERT OR IGNORE INTO sources VALUES (?, ?)", hash_, text)
            # Only now: whoever finds it here relies on its being in the file.
            with self._recent_lock:
                self._stored.add(hash_)
        return hash_

    def source(self, hash_: str) -> str:
        """The text with that hash.

        Raises:
            StoreError: there is none.
        """
        row = self._file.one("SELECT text FROM sources WHERE hash = ?", hash_)
        if row is None:
            raise StoreError(f"{self.path} is damaged: it has no source {hash_[:12]}")
        return str(row[0])

    def record_evaluation(
        self, key: str, source: str, evaluation: Evaluation, *, own: bool = True
    ) -> None:
        """Write an evaluation down under its content key; a later one goes further and replaces it.

        Args:
            key: content key.
            source: the text that was evaluated.
            evaluation: the result.
            own: this run had it judged; else it was known and costs nothing.
        """
        self._file.write(
            "INSERT INTO evaluations VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
            " source = excluded.source, data = excluded.data, own = max(own, excluded.own)",
            key,
            self.put_source(source) if source else "",
            evaluation.model_dump_json(),
            time.time(),
            int(own),
        )

    def retrieval(self, slot: str) -> list[dict[str, Any]] | None:
        """What the memory gave in `slot`; None if it was not asked yet."""
        row = self._file.one("SELECT data FROM retrievals WHERE slot = ?", slot)
        return None if row is None else list(json.loads(row[0]))

    def record_retrieval(self, slot: str, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write down what the memory gave; returns what the journal holds for the slot."""
        given = list(items)
        self._file.write(
            "INSERT OR IGNORE INTO retrievals VALUES (?, ?, ?)",
            slot,
            json.dumps(given),
            time.time(),
        )
        stored = self.retrieval(slot)
        return given if stored is None else stored

    def record(self, kind: str, id_: str) -> str | None:
        """The JSON text kept under (kind, id); None if there is none."""
        with self._recent_lock:
            recent = self._recent.get((kind, id_))
        if recent is not None:
            return recent
        row = self._file.one("SELECT data FROM records WHERE kind = ? AND id = ?", kind, id_)
        if row is None:
            return None
        data = str(row[0])
        if len(data) <= _RECENT_CHARACTERS:
            self._remember(kind, id_, data)
        return data

    def _remember(self, kind: str, id_: str, data: str) -> None:
        """Plans and drafts are read as soon as they are written, some of them many times."""
        with self._recent_lock:
            self._recent[kind, id_] = data
            self._recent.move_to_end((kind, id_))
            while len(self._recent) > _RECENT_RECORDS:
                self._recent.popitem(last=False)

    def put_record(self, kind: str, id_: str, data: str) -> None:
        """Keep a JSON text under (kind, id), in place of what was there.

        Records are worked out from answers and evaluations, so a later one may replace an earlier.
        """
        self._file.write(
            "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", kind, id_, data, time.time()
        )
        if len(data) <= _RECENT_CHARACTERS:
            self._remember(kind, id_, data)
        else:
            with self._recent_lock:
                self._recent.pop((kind, id_), None)

    def records(self, kind: str) -> dict[str, str]:
        """All JSON texts of one kind by id, in the order of their ids."""
        rows = self._file.all("SELECT id, data FROM records WHERE kind = ? ORDER BY id", kind)
        return {str(id_): str(data) for id_, data in rows}

    def record_failure(self, slot: str, kind: str, message: str, *, once: bool = False) -> None:
        """Count something that went wrong with a model call.

        Args:
            slot: of the call.
            kind: failure kind, such as `rate_limit`.
            message: one line.
            once: it follows from a journalled answer, so it counts once per slot however often the
                answer is read.
        """
        id_ = f"{slot}#{kind}" if once else f"{slot}#{uuid.uuid4().hex}"
        self._file.write(
            "INSERT OR IGNORE INTO failures VALUES (?, ?, ?, ?, ?)",
            id_,
            slot,
            kind,
            message,
            time.time(),
        )

    def failure_counts(self) -> dict[str, int]:
        """Failure kind -> how often, the most frequent first."""
        rows = self._file.all(
            "SELECT kind, count(*) FROM failures GROUP BY kind ORDER BY count(*) DESC, kind"
        )
        return {str(kind): int(count) for kind, count in rows}

    def counts(self) -> JournalCounts:
        """What was paid for so far; each journalled thing counts once."""
        calls, sent, received, cost, unpriced = self._file.one(
            "SELECT count(*), coalesce(sum(json_extract(data, '$.input_tokens')), 0),"
            " coalesce(sum(json_extract(data, '$.output_tokens')), 0),"
            " coalesce(sum(json_extract(data, '$.cost_usd')), 0.0),"
            " coalesce(sum(json_extract(data, '$.cost_usd') IS NULL), 0)"
            " FROM answers WHERE own = 1"
        ) or (0, 0, 0, 0.0, 0)
        # What is kept by trace has no source and is no program of its own.
        own, known = self._file.one(
            "SELECT coalesce(sum(own = 1), 0), coalesce(sum(own = 0 AND source <> ''), 0)"
            " FROM evaluations"
        ) or (0, 0)
        return JournalCounts(
            model_calls=calls,
            evaluations=own,
            reused_evaluations=known,
            input_tokens=sent,
            output_tokens=received,
            cost_usd=cost,
            unpriced_calls=unpriced,
        )

    def _forget_recent(self) -> None:
        with self._recent_lock:
            self._recent.clear()

    def disown(self) -> None:
        """Everything in here was paid for by another run."""
        self._file.write("UPDATE answers SET own = 0")
        self._file.write("UPDATE evaluations SET own = 0")
        self._file.write("DELETE FROM failures")

    def drop_iterations_after(self, iteration: int) -> None:
        """Forget what a search did in later iterations; evaluations go by content and stay."""
        self._forget_recent()
        for table, column in (("answers", "slot"), ("retrievals", "slot"), ("records", "id")):
            names = self._file.all(f"SELECT DISTINCT {column} FROM {table}")
            for (name,) in names:
                if slots.iteration_of(name) > iteration:
                    self._file.write(f"DELETE FROM {table} WHERE {column} = ?", name)

    def drop_records(self, keep: str, *, up_to: int | None = None) -> None:
        """Forget what was worked out; what was paid for stays.

        Args:
            keep: kind of records that stay.
            up_to: records of iterations up to this one stay, too: those of a fork's parent.
        """
        self._forget_recent()
        for kind, id_ in self._file.all("SELECT kind, id FROM records WHERE kind <> ?", keep):
            if up_to is None or slots.iteration_of(id_) > up_to:
                self._file.write("DELETE FROM records WHERE kind = ? AND id = ?", kind, id_)

    def answer_count(self) -> int:
        """How many answers there are, whoever paid for them."""
        row = self._file.one("SELECT count(*) FROM answers")
        return int(row[0]) if row else 0


def _migrate(connection: sqlite3.Connection, found: int) -> None:
    """Version 2 knows whose an answer is, and counts failures."""
    if found < 2:
        for table in ("answers", "evaluations"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN own INTEGER NOT NULL DEFAULT 1")
