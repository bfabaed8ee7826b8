"""Ends an iteration: parents and children compete for the next beam."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.selection import Contender, select_beam, winner
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import CandidateRef, SearchState


def beam_selection(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Select the next beam and the best so far, and write the progress down."""
    run = runtime.context
    with run.guard():
        attempts = state.get("attempts") or []
        refs = {ref["id"]: ref for ref in (*attempts, *state["beam"], state["best"])}
        contenders = {id_: _contender(ref) for id_, ref in refs.items()}
        incumbents = [contenders[ref["id"]] for ref in state["beam"]]
        best = contenders[state["best"]["id"]]
        children = [contenders[ref["id"]] for ref in attempts]
        beam = select_beam(incumbents, children, best, run.config.beam_width)
        # The best so far goes first: only what is really faster takes its place.
        fastest = winner(children)
        gained = fastest is not None and (fastest.latency_us or 0.0) < (best.latency_us or 0.0)
        if fastest is not None and gained:
            best = fastest
        run.store.update(
            iterations_done=state["iteration"], best=best.id, best_latency_us=best.latency_us
        )
        run.events.emit(
            "beam_selected",
            iteration=state["iteration"],
            iterations=run.config.iterations,
            beam=[contender.id for contender in beam],
            candidate=best.id,
            best_latency_us=best.latency_us,
        )
        return SearchState(
            beam=[refs[contender.id] for contender in beam],
            best=refs[best.id],
            stale=0 if gained else state.get("stale", 0) + 1,
        )


def _contender(ref: CandidateRef) -> Contender:
    return Contender(
        id=ref["id"],
        parent=ref["parent"],
        plan=ref["plan"],
        latency_us=ref["latency_us"],
        source_hash=ref["source_hash"],
    )
