"""Ends a round of best-of-n: only the fastest kernel is kept."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.selection import winner
from accelopt_graphs.context import RunContext
from accelopt_graphs.iteration_end import contender, end_iteration
from accelopt_graphs.state import SearchState


def keep_best(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Keep the fastest; the next round starts from the baseline again."""
    run = runtime.context
    with run.guard():
        attempts = {ref["id"]: ref for ref in state.get("attempts") or []}
        fastest = winner(contender(ref) for ref in attempts.values())
        best = state["best"]
        gained = fastest is not None and (fastest.latency_us or 0.0) < (best["latency_us"] or 0.0)
        if fastest is not None and gained:
            best = attempts[fastest.id]
        return end_iteration(run, state, beam=state["beam"], best=best, gained=gained)
