"""Ends an iteration: parents and children compete for the next beam."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.selection import select_beam, winner
from accelopt_graphs.context import RunContext
from accelopt_graphs.iteration_end import contender, end_iteration
from accelopt_graphs.state import SearchState


def beam_selection(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Select the next beam and the best so far, and write the progress down."""
    run = runtime.context
    with run.guard():
        attempts = state.get("attempts") or []
        refs = {ref["id"]: ref for ref in (*attempts, *state["beam"], state["best"])}
        contenders = {id_: contender(ref) for id_, ref in refs.items()}
        incumbents = [contenders[ref["id"]] for ref in state["beam"]]
        best = contenders[state["best"]["id"]]
        children = [contenders[ref["id"]] for ref in attempts]
        beam = select_beam(incumbents, children, best, run.config.beam_width)
        # The best so far goes first: only what is really faster takes its place.
        fastest = winner(children)
        gained = fastest is not None and (fastest.latency_us or 0.0) < (best.latency_us or 0.0)
        return end_iteration(
            run,
            state,
            beam=[refs[selected.id] for selected in beam],
            best=refs[fastest.id] if fastest is not None and gained else state["best"],
            gained=gained,
        )
