"""What the judge found out, as plain data.

Apart from the judge and the latency model, which load a compiler: the caller's process only reads.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from accelopt.evaluation import (
    Diagnostic,
    Evaluation,
    EvaluationStatus,
    InputCheck,
    Profile,
    SeedResult,
)


@dataclass(frozen=True, kw_only=True)
class LatencyReport:
    """What the model says.

    Attributes:
        latency_us: predicted device time, fixed overhead included.
        low_us, high_us: interval that holds 80 % of measurements.
        profile: counters.
        bound: `dma`, `tensor`, `vector`, `scalar`, `gpsimd` or `latency`.
        busy_us: busy time per engine.
        line_facts: what the lines that hold the critical path cost and wait for.
        explanation: where the time goes, as short text for a model.
        features: named numbers that describe the kernel.
        notes: what a reader must know.
    """

    latency_us: float
    low_us: float
    high_us: float
    profile: Profile
    bound: str
    busy_us: dict[str, float]
    line_facts: dict[int, str]
    explanation: str
    features: dict[str, float]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the judge found out; the backend completes it to an `Evaluation`."""

    status: EvaluationStatus
    diagnostics: tuple[Diagnostic, ...] = ()
    trace_hash: str = ""
    seeds: tuple[SeedResult, ...] = ()
    checks: tuple[InputCheck, ...] = ()
    report: LatencyReport | None = None


def to_evaluation(
    verdict: Verdict,
    *,
    task: str,
    backend: str,
    source_sha256: str,
    calibration: str,
    started: float,
) -> Evaluation:
    """Complete a verdict."""
    report = verdict.report
    profile: Profile | None = report.profile if report is not None else None
    return Evaluation(
        status=verdict.status,
        task=task,
        backend=backend,
        source_sha256=source_sha256,
        trace_hash=verdict.trace_hash,
        latency_us=None if report is None else report.latency_us,
        latency_low_us=None if report is None else report.low_us,
        latency_high_us=None if report is None else report.high_us,
        profile=profile,
        bound="" if report is None else report.bound,
        seeds=verdict.seeds,
        checks=verdict.checks,
        diagnostics=verdict.diagnostics,
        features={} if report is None else report.features,
        line_facts={} if report is None else report.line_facts,
        explanation="" if report is None else report.explanation,
        calibration=calibration if report is not None else "",
        notes=() if report is None else report.notes,
        elapsed_s=round(time.monotonic() - started, 4),
    )
