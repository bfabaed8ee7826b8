"""Names the winner of a run and writes it down."""

from __future__ import annotations

from accelopt import slots
from accelopt.candidate import Candidate, speedup
from accelopt.faster import Comparison
from accelopt.graphs import RunResult
from accelopt.journal import Journal
from accelopt_graphs.context import RunContext

VERIFICATION = "verification"
"""Kind of the records of second traces."""
COMPARISON = "comparison"
"""Kind of the records of winners against the baseline."""


def verified_best(run: RunContext) -> Candidate:
    """The fastest correct kernel whose source gives the trace that was judged.

    A kernel is traced once when it is judged; a winner is traced again, so that one which behaves
    differently the second time can't win.
    """
    correct = [c for c in run.store.candidates() if c.latency_us is not None]
    correct.sort(key=lambda c: (c.latency_us or 0.0, slots.slot_key(c.id)))
    for candidate in correct:
        if candidate.id == slots.BASELINE or _traces_again(run, candidate):
            return candidate
        run.events.emit(
            "warning",
            candidate=candidate.id,
            message=f"{candidate.id} gives another trace the second time and can't win",
        )
    # Stopped before anything was found correct.
    return run.store.candidate(slots.BASELINE)


def _traces_again(run: RunContext, candidate: Candidate) -> bool:
    if not candidate.evaluation.trace_hash:
        return True
    known = run.store.journal.record(VERIFICATION, candidate.id)
    if known is None:
        known = run.backend.screen(run.task, candidate.source).trace_hash
        run.store.journal.put_record(VERIFICATION, candidate.id, known)
    return known == candidate.evaluation.trace_hash


def compared(run: RunContext, baseline: Candidate, best: Candidate) -> Comparison | None:
    """Whether the winner is faster than the baseline; decided once, and kept.

    None when there is nothing to compare, or nothing may be evaluated (a replay).
    """
    if best.id == baseline.id or best.latency_us is None or baseline.latency_us is None:
        return None
    known = known_comparison(run.store.journal, best.id)
    if known is None and run.recorded is None:
        known = run.backend.compare(run.task, baseline.source, best.source)
        run.store.journal.put_record(COMPARISON, best.id, known.model_dump_json())
    return known


def known_comparison(journal: Journal, candidate: str) -> Comparison | None:
    """The comparison that a run made before; None if it made none."""
    text = journal.record(COMPARISON, candidate)
    return None if text is None else Comparison.model_validate_json(text)


def best_file(run: RunContext, result: RunResult) -> str:
    """Text of `best.py`: the kernel under a short header."""
    best = result.best
    latency_us, baseline_us = result.best_us or 0.0, result.baseline_us or 0.0
    factor = speedup(baseline_us, latency_us) if latency_us else 1.0
    header = (
        f"# accelopt run {run.store.run_id}, candidate {best.id}\n"
        f"# task: {run.task.name}\n"
        f"# backend: {run.backend.name}\n"
        f"# latency: {latency_us:.3f} us (baseline {baseline_us:.3f} us)\n"
        f"# speedup: {factor:.3f}x\n"
    )
    if result.comparison is not None:
        header += f"# verdict: {result.comparison.outcome.value} ({result.comparison.method})\n"
    return f"{header}{best.source.text}"
