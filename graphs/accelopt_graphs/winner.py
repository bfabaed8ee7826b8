"""Names the winner of a run and writes it down."""

from __future__ import annotations

from accelopt import slots
from accelopt.candidate import Candidate, speedup
from accelopt_graphs.context import RunContext

VERIFICATION = "verification"
"""Kind of the records of second traces."""


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


def best_file(run: RunContext, baseline: Candidate, best: Candidate) -> str:
    """Text of `best.py`: the kernel under a short header."""
    latency_us, baseline_us = best.latency_us or 0.0, baseline.latency_us or 0.0
    factor = speedup(baseline_us, latency_us) if latency_us else 1.0
    header = (
        f"# accelopt run {run.store.run_id}, candidate {best.id}\n"
        f"# task: {run.task.name}\n"
        f"# backend: {run.backend.name}\n"
        f"# latency: {latency_us:.3f} us (baseline {baseline_us:.3f} us)\n"
        f"# speedup: {factor:.3f}x\n"
    )
    return f"{header}{best.source.text}"
