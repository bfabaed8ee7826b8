"""Begins a round of best-of-n: every plan is drawn for the baseline."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt_graphs.context import RunContext
from accelopt_graphs.state import SearchState


def draw(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Count the round; no memory is asked and nothing of earlier rounds is told."""
    run = runtime.context
    with run.guard():
        config, iteration = run.config, state["iteration"] + 1
        run.events.emit(
            "iteration_started",
            iteration=iteration,
            iterations=config.iterations,
            planned_evaluations=config.num_plans * config.num_samples,
            beam=[ref["id"] for ref in state["beam"]],
            best_latency_us=state["best"]["latency_us"],
        )
        return SearchState(iteration=iteration, plans=None, attempts=None, tried={})
