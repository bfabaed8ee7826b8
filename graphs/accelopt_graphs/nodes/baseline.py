"""Judges the kernel that the search starts from."""

from __future__ import annotations

from functools import partial

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.candidate import Candidate
from accelopt.errors import AcceloptError
from accelopt.preflight import require_sound
from accelopt_graphs.context import RunContext, candidate_ref
from accelopt_graphs.progress_record import save_state
from accelopt_graphs.state import SearchState


def baseline(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Evaluate the baseline; it must be correct, since every speedup refers to it."""
    run = runtime.context
    with run.guard():
        source = run.task.baseline
        require_sound(run.task)
        judgement = run.pool.evaluate(
            source,
            on_start=partial(
                run.events.emit, "evaluation_started", candidate=slots.BASELINE, iteration=0
            ),
        )
        evaluation = judgement.evaluation
        candidate = Candidate(id=slots.BASELINE, iteration=0, source=source, evaluation=evaluation)
        run.store.save_candidate(candidate)
        run.events.emit(
            "evaluation_finished",
            candidate=slots.BASELINE,
            iteration=0,
            status=evaluation.status.value,
            latency_us=evaluation.latency_us,
            percent_of_peak=run.percent_of_peak(candidate.latency_us),
            cached=judgement.cached,
        )
        if candidate.latency_us is None:
            findings = [finding.message for finding in evaluation.diagnostics]
            first = findings[0].splitlines()[0] if findings and findings[0] else "no details"
            raise AcceloptError(
                f"the baseline of {run.task.name} is not correct"
                f" ({evaluation.status.value}): {first}",
                hint="a search must start from a kernel that is",
            )
        run.store.update(
            baseline_latency_us=candidate.latency_us,
            best=candidate.id,
            best_latency_us=candidate.latency_us,
        )
        ref = candidate_ref(candidate)
        start = SearchState(
            iteration=0, beam=[ref], best=ref, queue=[], forgotten=[], tried={}, pairs=[]
        )
        save_state(run.store.journal, start)
        return start
