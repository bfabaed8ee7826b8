"""Evaluation in tiers of rising cost: a kernel that can't matter is not executed on every seed.

1. trace, constraints and latency, without numbers;
2. the first input seed;
3. the other seeds, then fresh and stress inputs, only for a kernel that something depends on. A
   comparison ends with the first input that fails.

What a trace gave is known for every source with that trace. A backend that can't estimate judges
in one go.
"""

from __future__ import annotations

from collections.abc import Callable

from accelopt.backend import Backend, Capability
from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus, Stage
from accelopt.evaluation_key import trace_key
from accelopt.kernel import KernelSource, KernelTask
from accelopt.known_evaluations import KnownEvaluations

Matters = Callable[[float], bool]
"""Latency in microseconds -> whether anything depends on the kernel's being correct."""

_PUBLISHED = frozenset({Stage.CORRECTNESS})
_NUMBERS = _PUBLISHED | {Stage.ROBUSTNESS}
_WORTH_KEEPING_S = 0.05
"""A tier that took less is as quickly repeated after a crash as it is written down."""


def always(latency_us: float) -> bool:
    """Every kernel matters."""
    return True


def is_enough(evaluation: Evaluation, matters: Matters) -> bool:
    """Whether no further tier is needed."""
    if not evaluation.ok or not (evaluation.untried_seeds or evaluation.untried_checks):
        return True
    return bool(evaluation.seeds) and not matters(evaluation.latency_us or 0.0)


def as_needed(evaluation: Evaluation, matters: Matters, seeds: tuple[int, ...]) -> Evaluation:
    """What the tiers give for a kernel that matters as much, whatever more is known of it.

    The same program may matter more under another parent, or in another run. What it is worth here
    must not depend on who came first.

    Args:
        evaluation: all that is known.
        matters: latency in microseconds -> whether anything depends on the kernel.
        seeds: of the task.
    """
    judged = evaluation.ok or evaluation.status is EvaluationStatus.INCORRECT
    if not evaluation.seeds or not judged or matters(evaluation.latency_us or 0.0):
        return evaluation
    if not evaluation.seeds[0].ok or (len(evaluation.seeds) == 1 and evaluation.untried_checks):
        return evaluation
    warnings = tuple(d for d in evaluation.diagnostics if d.severity != "error")
    return evaluation.model_copy(
        update={
            "status": EvaluationStatus.OK,
            "seeds": evaluation.seeds[:1],
            "untried_seeds": tuple(seed for seed in seeds if seed != evaluation.seeds[0].seed),
            "checks": (),
            "untried_checks": True,
            "diagnostics": warnings,
        }
    )


class TieredJudge:
    """Judges the kernels of one task on one backend.

    Args:
        backend: the judge.
        task: the task.
        known: where every tier is written down before it is used.
    """

    def __init__(self, backend: Backend, task: KernelTask, known: KnownEvaluations) -> None:
        self._backend = backend
        self._task = task
        self._known = known

    def judge(
        self,
        key: str,
        source: KernelSource,
        matters: Matters,
        begun: Evaluation | None = None,
    ) -> Evaluation:
        """Go through the tiers, from where an earlier call stopped.

        Args:
            key: content key of the source.
            source: the kernel.
            matters: asked before the third tier.
            begun: what an earlier call gave, with untried seeds.
        """
        evaluation = self._begin(source) if begun is None else begun
        while not is_enough(evaluation, matters):
            if evaluation.elapsed_s > _WORTH_KEEPING_S:
                self._save(key, source, evaluation)
            # The first seed that fails ends a comparison, so what matters goes in one call.
            worth_all = bool(evaluation.seeds) or matters(evaluation.latency_us or 0.0)
            batch = evaluation.untried_seeds[: None if worth_all else 1]
            stages = _NUMBERS if worth_all else _PUBLISHED
            part = self._backend.evaluate(self._task, source, stages=stages, seeds=batch)
            evaluation = _extended(evaluation, part, batch, checked=worth_all)
        self._save(key, source, evaluation)
        return evaluation

    def _begin(self, source: KernelSource) -> Evaluation:
        if Capability.ESTIMATE not in self._backend.capabilities:
            return self._backend.evaluate(self._task, source)
        evaluation = self._backend.estimate(self._task, source)
        return self._with_known_numbers(evaluation) if evaluation.ok else evaluation

    def _with_known_numbers(self, estimate: Evaluation) -> Evaluation:
        """An estimate, completed by what is known of an equal trace."""
        twin = None
        if estimate.trace_hash:
            twin = self._known.get(trace_key(self._task, estimate.trace_hash, self._backend))
        if twin is None:
            untried = {"untried_seeds": self._task.seeds, "untried_checks": True}
            return estimate.model_copy(update=untried)
        numbers = twin.evaluation
        findings = tuple(
            finding.model_copy(update={"line": None, "column": None})
            for finding in numbers.diagnostics
        )
        return estimate.model_copy(
            update={
                "status": numbers.status,
                "seeds": numbers.seeds,
                "untried_seeds": numbers.untried_seeds,
                "checks": numbers.checks,
                "untried_checks": numbers.untried_checks,
                "diagnostics": (*findings, *estimate.diagnostics),
            }
        )

    def _save(self, key: str, source: KernelSource, evaluation: Evaluation) -> None:
        # The trace first: a key whose trace is not known would be judged again after a crash.
        if evaluation.trace_hash and evaluation.seeds:
            by_trace = trace_key(self._task, evaluation.trace_hash, self._backend)
            numbers = Evaluation(
                status=evaluation.status,
                task=evaluation.task,
                backend=evaluation.backend,
                source_sha256=evaluation.source_sha256,
                trace_hash=evaluation.trace_hash,
                seeds=evaluation.seeds,
                untried_seeds=evaluation.untried_seeds,
                checks=evaluation.checks,
                untried_checks=evaluation.untried_checks,
                diagnostics=() if evaluation.ok else evaluation.diagnostics,
            )
            self._known.put(by_trace, "", numbers, own=False)
        self._known.put(key, source.text, evaluation)


def _extended(
    evaluation: Evaluation, part: Evaluation, batch: tuple[int, ...], *, checked: bool
) -> Evaluation:
    """An evaluation with the results of some more seeds and, if `checked`, of the checks."""
    if part.ok and part.trace_hash != evaluation.trace_hash:
        return evaluation.model_copy(
            update={
                "status": EvaluationStatus.REJECTED,
                "untried_seeds": (),
                "untried_checks": False,
                "diagnostics": (
                    Diagnostic(
                        rule="trace_not_reproducible",
                        message="another run of the kernel gave another trace",
                    ),
                ),
            }
        )
    known = {(d.rule, d.message, d.line) for d in evaluation.diagnostics}
    new = tuple(d for d in part.diagnostics if (d.rule, d.message, d.line) not in known)
    left = tuple(seed for seed in evaluation.untried_seeds if seed not in batch)
    return evaluation.model_copy(
        update={
            "status": part.status,
            "seeds": (*evaluation.seeds, *part.seeds),
            "untried_seeds": left if part.ok else (),
            "checks": (*evaluation.checks, *part.checks),
            "untried_checks": evaluation.untried_checks and not checked and part.ok,
            "notes": tuple(dict.fromkeys((*evaluation.notes, *part.notes))),
            "diagnostics": (*new, *evaluation.diagnostics),
            "elapsed_s": evaluation.elapsed_s + part.elapsed_s,
        }
    )
