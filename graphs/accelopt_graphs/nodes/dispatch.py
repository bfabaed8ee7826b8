"""Waits for all plans of an iteration, and notes which plans were made for which candidate."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.slots import slot_key
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import SearchState


def dispatch(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Extend the list of tried plans; the next planner of a candidate is told about them."""
    with runtime.context.guard():
        tried = {candidate: list(plans) for candidate, plans in state["tried"].items()}
        for plan in sorted(state.get("plans") or [], key=lambda plan: slot_key(plan["id"])):
            tried.setdefault(plan["parent"], []).append(plan["id"])
        return SearchState(tried=tried)
