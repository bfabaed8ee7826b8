"""What a run has made: candidates, plans, lessons. Kept in the journal, as JSON."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from functools import cached_property
from pathlib import Path

from accelopt.candidate import Candidate, Experience, Plan
from accelopt.errors import StoreError
from accelopt.files import write_atomic
from accelopt.journal import Journal
from accelopt.slots import slot_key

_REMEMBERED = 64
"""Candidates kept in memory; a kernel with its evaluation takes some 50 KB."""
_REMEMBERED_PLANS = 512


class RunRecords:
    """The records of one run folder.

    Attributes:
        path: the folder.
        run_id: its name.
    """

    def __init__(self, path: Path, run_id: str) -> None:
        self.path = path
        self.run_id = run_id
        self._cache: OrderedDict[str, Candidate] = OrderedDict()
        self._cache_lock = threading.Lock()
        self._plans: dict[str, Plan] = {}

    @cached_property
    def journal(self) -> Journal:
        """The journal; opened on first use."""
        return Journal(self.path / "journal.sqlite")

    def close(self) -> None:
        """Close the journal; safe to call twice. The next use opens it again."""
        journal = self.__dict__.pop("journal", None)
        if journal is not None:
            journal.close()

    def save_candidate(self, candidate: Candidate) -> None:
        """Keep a candidate, and its source as `kernels/<id>.py` for people."""
        self.journal.put_record("candidate", candidate.id, self._packed(candidate))
        self._remember(candidate)
        try:
            # The journal has it for good; this copy is for people.
            path = self.path / "kernels" / f"{candidate.id}.py"
            write_atomic(path, candidate.source.text, durable=False)
        except OSError as error:
            raise StoreError(f"can't write to {self.path}: {error.strerror}") from error

    def candidate(self, id_: str) -> Candidate:
        """The candidate with that id.

        Raises:
            StoreError: the run has none.
        """
        with self._cache_lock:
            known = self._cache.get(id_)
        if known is None:
            known = self._unpacked(self._need("candidate", id_))
            self._remember(known)
        return known

    def _remember(self, candidate: Candidate) -> None:
        """A parent is read for each of its children."""
        with self._cache_lock:
            self._cache[candidate.id] = candidate
            self._cache.move_to_end(candidate.id)
            while len(self._cache) > _REMEMBERED:
                self._cache.popitem(last=False)

    def _packed(self, candidate: Candidate) -> str:
        """A candidate as JSON; its text stands among the journal's sources, where it is already
        as a draft and as what was evaluated."""
        hash_ = self.journal.put_source(candidate.source.text)
        kept = candidate.model_dump_json(exclude={"source": {"text"}})
        return f'{{"source_hash":"{hash_}","candidate":{kept}}}'

    def _unpacked(self, text: str) -> Candidate:
        data = json.loads(text)
        if "source_hash" not in data:
            # Written by an older version.
            return Candidate.model_validate(data)
        data["candidate"]["source"]["text"] = self.journal.source(data["source_hash"])
        return Candidate.model_validate(data["candidate"])

    def candidates(self) -> list[Candidate]:
        """All candidates, the baseline first, then in the order of their slots."""
        found = [self._unpacked(text) for text in self.journal.records("candidate").values()]
        return sorted(found, key=lambda candidate: slot_key(candidate.id))

    def save_failed_attempt(self, candidate: Candidate) -> None:
        """Keep one try of a candidate, the executor's (round 0) or a fixer's, before the next one
        takes its place."""
        id_ = f"{candidate.id}-f{candidate.fixer_rounds}"
        self.journal.put_record("attempt", id_, self._packed(candidate))

    def attempts(self) -> list[Candidate]:
        """All tries that were evaluated, failed ones too, by slot and round."""
        texts = self.journal.records("attempt").values()
        found = [self._unpacked(text) for text in texts]
        found += [made for made in self.candidates() if made.plan and made.source.text]
        return sorted(found, key=lambda tried: (slot_key(tried.id), tried.fixer_rounds))

    def save_plan(self, plan: Plan) -> None:
        """Keep a plan."""
        self.journal.put_record("plan", plan.id, plan.model_dump_json())

    def plan(self, id_: str) -> Plan:
        """The plan with that id.

        Raises:
            StoreError: the run has none.
        """
        with self._cache_lock:
            known = self._plans.get(id_)
        if known is None:
            known = Plan.model_validate_json(self._need("plan", id_))
            with self._cache_lock:
                # The next planners of a candidate read the first lines of all its plans.
                if len(self._plans) >= _REMEMBERED_PLANS:
                    self._plans.clear()
                self._plans[id_] = known
        return known

    def plans(self) -> list[Plan]:
        """All plans in the order of their slots."""
        found = [Plan.model_validate_json(text) for text in self.journal.records("plan").values()]
        return sorted(found, key=lambda plan: slot_key(plan.id))

    def save_experience(self, experience: Experience) -> None:
        """Keep a lesson of this run."""
        self.journal.put_record("experience", experience.id, experience.model_dump_json())

    def experience(self, id_: str) -> Experience:
        """The lesson of this run with that id.

        Raises:
            StoreError: the run has none.
        """
        return Experience.model_validate_json(self._need("experience", id_))

    def experiences(self) -> list[Experience]:
        """All lessons of this run, in the order of their ids."""
        texts = self.journal.records("experience").values()
        return [Experience.model_validate_json(text) for text in texts]

    def _need(self, kind: str, id_: str) -> str:
        text = self.journal.record(kind, id_)
        if text is None:
            raise StoreError(f"run {self.run_id} has no {kind} {id_!r}")
        return text
