"""Waits for all plans of an iteration, so that all attempts start from the same list."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt_graphs.context import RunContext
from accelopt_graphs.state import SearchState


def dispatch(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Change nothing; the edges behind it hand every plan to its attempts."""
    with runtime.context.guard():
        return SearchState(plans=[])
