"""The optimization memory as one run uses it: opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from accelopt.candidate import Candidate, Experience
from accelopt.embedder import Embedder
from accelopt.journal import Journal
from accelopt.memory import OptimizationMemory, relevance_text
from accelopt.requests import OfferedExperience


class RunMemory:
    """Retrieves for planners and keeps new lessons. Close it when done.

    Args:
        path: folder of the memory.
        embedder: of the memory.
        journal: retrievals are journalled, so that a resumed run sees what it saw before.
        device: device name.
        dialect: dialect name.
        capacity: ExpN: lessons a planner is offered at most.
    """

    def __init__(
        self,
        *,
        path: Path,
        embedder: Embedder,
        journal: Journal,
        device: str,
        dialect: str,
        capacity: int,
    ) -> None:
        self._path = path
        self._embedder = embedder
        self._journal = journal
        self._device = device
        self._dialect = dialect
        self._capacity = capacity
        self._lock = threading.Lock()
        self._store: OptimizationMemory | None = None

    def close(self) -> None:
        """Release the store; safe to call twice."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def retrieve(
        self, slot: str, candidate: Candidate, forgotten: Iterable[str]
    ) -> list[OfferedExperience]:
        """Ask the memory for the lessons most relevant to a candidate; asked once per slot.

        Args:
            slot: of the retrieval.
            candidate: what the planner is to improve.
            forgotten: lessons of this run that its queue has dropped; not offered again.
        """
        known = self._journal.retrieval(slot)
        if known is None:
            known = self._journal.record_retrieval(slot, self._search(candidate, set(forgotten)))
        return [OfferedExperience.model_validate(item) for item in known]

    def offered(self, slot: str) -> tuple[OfferedExperience, ...]:
        """What was retrieved in a slot."""
        known = self._journal.retrieval(slot) or []
        return tuple(OfferedExperience.model_validate(item) for item in known)

    def add(self, *experiences: Experience) -> None:
        """Keep lessons; adding one again changes nothing."""
        if experiences:
            self._opened().add(*experiences)

    def _search(self, candidate: Candidate, forgotten: set[str]) -> list[dict[str, object]]:
        if self._capacity <= 0:
            return []
        query = relevance_text(candidate.source.text, candidate.evaluation.bound)
        found = self._opened().retrieve(
            query, self._device, self._dialect, self._capacity, leave_out=forgotten
        )
        offered = [
            OfferedExperience(
                id=lesson.id, title=lesson.title, strategy=lesson.strategy, speedup=lesson.speedup
            )
            for lesson in found
        ]
        return [lesson.model_dump(mode="json") for lesson in offered]

    def _opened(self) -> OptimizationMemory:
        with self._lock:
            if self._store is None:
                self._store = OptimizationMemory(self._path, self._embedder)
            return self._store
