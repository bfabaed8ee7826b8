"""Evaluations in a bounded pool: however wide a search fans out, the machine is not overrun."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from accelopt.backend import Backend
from accelopt.evaluation import ALL_STAGES, Evaluation, Stage
from accelopt.journal import Journal, JournalledEvaluation
from accelopt.kernel import KernelSource, KernelTask
from accelopt.normalize import line_map, normalized_hash


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """An evaluation, and whether it was already there.

    Attributes:
        evaluation: what the backend said.
        cached: nothing was evaluated for it: it came from the journal or from an equal attempt.
    """

    evaluation: Evaluation
    cached: bool


def evaluation_key(
    task: KernelTask,
    source: KernelSource,
    backend: Backend,
    *,
    stages: frozenset[Stage] = ALL_STAGES,
    seeds: Sequence[int] | None = None,
) -> str:
    """Hash (hex) of everything an evaluation depends on.

    The source counts in its normalized form: a comment more does not make it another program.
    """
    used = task.seeds if seeds is None else tuple(seeds)
    parts = (
        normalized_hash(source.text),
        source.dialect.value,
        source.entry,
        task.fingerprint,
        backend.name,
        backend.version,
        ",".join(sorted(stage.value for stage in stages)),
        ",".join(str(seed) for seed in used),
        *(map(str, source.grid)),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class EvaluationPool:
    """Evaluates kernels of one task on one backend. Close it when done.

    Each distinct program is evaluated once per journal, also when two attempts with it arrive at
    the same time. A broken backend's exception comes out of `evaluate`; limiting a slow evaluation
    is the backend's own job.

    Args:
        backend: the judge.
        task: the task.
        journal: where evaluations are written down before they are used.
        workers: evaluations at once; 0 means one per core.
    """

    def __init__(
        self, backend: Backend, task: KernelTask, journal: Journal, workers: int = 0
    ) -> None:
        self._backend = backend
        self._task = task
        self._journal = journal
        self._lock = threading.Lock()
        self._flights: dict[str, Future[JournalledEvaluation]] = {}
        self._executor = ThreadPoolExecutor(
            max_workers=workers or usable_cores(), thread_name_prefix="evaluation"
        )

    def __enter__(self) -> EvaluationPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is running and release the threads; safe to call twice."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def evaluate(
        self, source: KernelSource, *, on_start: Callable[[], None] | None = None
    ) -> Judgement:
        """Judge a kernel in full; waits for a free worker.

        Args:
            source: the kernel.
            on_start: called in the worker when a real evaluation begins.
        """
        key = evaluation_key(self._task, source, self._backend)
        with self._lock:
            flight = self._flights.get(key)
            first = flight is None
            if flight is None:
                flight = self._flights[key] = Future()
        if not first:
            return Judgement(evaluation=_for_text(flight.result(), source), cached=True)
        try:
            known = self._journal.evaluation(key)
            cached = known is not None
            if known is None:
                known = self._executor.submit(self._judge, key, source, on_start).result()
        except BaseException as error:
            flight.set_exception(error)
            raise
        else:
            flight.set_result(known)
        finally:
            with self._lock:
                del self._flights[key]
        return Judgement(evaluation=_for_text(known, source), cached=cached)

    def _judge(
        self, key: str, source: KernelSource, on_start: Callable[[], None] | None
    ) -> JournalledEvaluation:
        if on_start is not None:
            on_start()
        evaluation = self._backend.evaluate(self._task, source)
        self._journal.record_evaluation(key, source.text, evaluation)
        return JournalledEvaluation(source=source.text, evaluation=evaluation)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1  # pragma: no cover - only where there is no affinity


def _for_text(known: JournalledEvaluation, source: KernelSource) -> Evaluation:
    """The evaluation with the line numbers of an equal program in another layout."""
    evaluation = known.evaluation
    if known.source == source.text:
        return evaluation
    lines = line_map(known.source, source.text)
    diagnostics = tuple(
        diagnostic.model_copy(
            update={"line": None if diagnostic.line is None else lines.get(diagnostic.line)}
            | ({"column": None} if diagnostic.column is not None else {})
        )
        for diagnostic in evaluation.diagnostics
    )
    facts: dict[int, str] = {}
    for line, fact in sorted(evaluation.line_facts.items()):
        if line in lines:
            facts.setdefault(lines[line], fact)
    return evaluation.model_copy(
        update={
            "source_sha256": source.sha256,
            "diagnostics": diagnostics,
            "line_facts": facts,
            "explanation": _moved_lines(evaluation.explanation, lines),
        }
    )


def _moved_lines(text: str, lines: Mapping[int, int]) -> str:
    """A text in which every `line N` names the line's new place."""
    return re.sub(
        r"\bline (\d+)\b",
        lambda found: f"line {lines.get(int(found.group(1)), '?')}",
        text,
    )
