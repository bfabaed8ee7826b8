"""Writes down how an iteration ended, for whoever resumes, forks, replays or watches."""

from __future__ import annotations

from accelopt.selection import Contender
from accelopt_graphs.context import RunContext
from accelopt_graphs.progress_record import save_state
from accelopt_graphs.state import CandidateRef, SearchState
from accelopt_graphs.tried import with_outcomes


def contender(ref: CandidateRef) -> Contender:
    """A candidate as selection sees it."""
    return Contender(
        id=ref["id"],
        parent=ref["parent"],
        plan=ref["plan"],
        latency_us=ref["latency_us"],
        source_hash=ref["source_hash"],
        trace_hash=ref["trace_hash"],
    )


def end_iteration(
    run: RunContext,
    state: SearchState,
    *,
    beam: list[CandidateRef],
    best: CandidateRef,
    gained: bool,
) -> SearchState:
    """What an iteration changes, written to the run folder and told to observers.

    Args:
        run: the run.
        state: before.
        beam: of the next iteration.
        best: fastest correct kernel so far.
        gained: whether it was found in this iteration.
    """
    selected = SearchState(
        beam=beam,
        best=best,
        stale=0 if gained else state.get("stale", 0) + 1,
        # Who has left the beam does not come back.
        tried={
            id_: plans
            for id_, plans in with_outcomes(state).items()
            if id_ in {ref["id"] for ref in beam}
        },
    )
    save_state(run.store.journal, {**state, **selected})
    run.store.update(
        iterations_done=state["iteration"],
        best=best["id"],
        best_latency_us=best["latency_us"],
        elapsed_s=run.budget.elapsed_s,
    )
    spent = run.budget.spent()
    run.events.emit(
        "beam_selected",
        iteration=state["iteration"],
        iterations=run.config.iterations,
        beam=[ref["id"] for ref in beam],
        candidate=best["id"],
        best_latency_us=best["latency_us"],
        cost_usd=spent.usd,
    )
    return selected
