"""Evaluations in a bounded pool: however wide a search fans out, the machine is not overrun."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from accelopt.backend import Backend, Capability
from accelopt.evaluation import Evaluation
from accelopt.evaluation_key import evaluation_key
from accelopt.journal import Journal, JournalledEvaluation
from accelopt.kernel import KernelSource, KernelTask
from accelopt.known_evaluations import KnownEvaluations, for_text
from accelopt.tiers import Matters, TieredJudge, always, as_needed, is_enough

__all__ = ["EvaluationPool", "Judgement", "evaluation_key", "usable_cores"]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """An evaluation, and whether it was already there.

    Attributes:
        evaluation: what the backend said.
        cached: nothing was evaluated for it: it came from the journal, from the cache that runs
            share, or from an equal attempt.
    """

    evaluation: Evaluation
    cached: bool


class EvaluationPool:
    """Evaluates kernels of one task on one backend. Close it when done.

    Each distinct program is evaluated once, also when two attempts with it arrive at the same time.
    A broken backend's exception comes out of `evaluate`; limiting a slow evaluation is the
    backend's own job.

    Args:
        backend: the judge.
        task: the task.
        journal: where evaluations are written down before they are used.
        workers: evaluations at once; 0 means one per core.
        shared: file of the cache of evaluations that runs share; None for none.
        admit: gives a context that a program's first evaluation runs in; may refuse by raising.

    Attributes:
        known: what is known already, and whether the shared cache can be used.
        workers: evaluations at once.
    """

    def __init__(
        self,
        backend: Backend,
        task: KernelTask,
        journal: Journal,
        workers: int = 0,
        *,
        shared: Path | None = None,
        admit: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._backend = backend
        self._task = task
        self.known = KnownEvaluations(journal, shared)
        self._judge = TieredJudge(backend, task, self.known)
        self._admit = admit
        self._has_tiers = Capability.ESTIMATE in backend.capabilities
        self._lock = threading.Lock()
        self._flights: dict[str, Future[JournalledEvaluation]] = {}
        self.workers = workers or usable_cores()
        self._places = threading.BoundedSemaphore(self.workers)

    def __enter__(self) -> EvaluationPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the shared cache; safe to call twice. Evaluations run in their callers' threads."""
        self.known.close()

    def evaluate(
        self,
        source: KernelSource,
        *,
        matters: Matters = always,
        on_start: Callable[[], None] | None = None,
        admitted: bool = False,
    ) -> Judgement:
        """Judge a kernel in this thread; waits while too many others do.

        Args:
            source: the kernel.
            matters: latency in microseconds -> whether anything depends on the kernel. One that
                does not matter is compared on one seed, and is not found correct.
            on_start: called when a real evaluation begins.
            admitted: it is owed to the caller, whatever else the run may have judged.

        Raises:
            BudgetExhaustedError: no further program may be judged.
        """
        key = evaluation_key(self._task, source, self._backend)
        cached = True
        while True:
            with self._lock:
                flight = self._flights.get(key)
                first = flight is None
                if flight is None:
                    flight = self._flights[key] = Future()
            if first:
                known, made = self._fly(key, source, matters, on_start, flight, admitted)
                cached = cached and not made
            else:
                known = flight.result()
            # Whoever flew first may have needed less.
            if is_enough(known.evaluation, matters):
                evaluation = for_text(known, source)
                if self._has_tiers:
                    evaluation = as_needed(evaluation, matters, self._task.seeds)
                return Judgement(evaluation=evaluation, cached=cached)

    def _fly(
        self,
        key: str,
        source: KernelSource,
        matters: Matters,
        on_start: Callable[[], None] | None,
        flight: Future[JournalledEvaluation],
        admitted: bool,
    ) -> tuple[JournalledEvaluation, bool]:
        try:
            known = self.known.get(key)
            made = known is None or not is_enough(known.evaluation, matters)
            if made:
                begun = None if known is None else for_text(known, source)
                with self._places:
                    evaluation = self._run(key, source, matters, begun, on_start, admitted)
                known = JournalledEvaluation(source=source.text, evaluation=evaluation)
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._flights[key]
        assert known is not None  # noqa: S101 - for the type checker
        flight.set_result(known)
        return known, made

    def _run(
        self,
        key: str,
        source: KernelSource,
        matters: Matters,
        begun: Evaluation | None,
        on_start: Callable[[], None] | None,
        admitted: bool,
    ) -> Evaluation:
        # What was begun has been counted.
        with self._admit() if begun is None and not admitted else nullcontext():
            if on_start is not None:
                on_start()
            return self._judge.judge(key, source, matters, begun)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1  # pragma: no cover - only where there is no affinity
