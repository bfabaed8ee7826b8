"""Begins an iteration: asks the memory for lessons, once per candidate of the beam."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import SearchState


def recall(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Retrieve lessons for every candidate; the planners read them from the journal."""
    run = runtime.context
    with run.guard():
        iteration = state["iteration"] + 1
        beam = state["beam"]
        config = run.config
        run.events.emit(
            "iteration_started",
            iteration=iteration,
            iterations=config.iterations,
            planned_evaluations=len(beam) * config.num_plans * config.num_samples,
            beam=[ref["id"] for ref in beam],
            best_latency_us=state["best"]["latency_us"],
        )
        for index, ref in enumerate(beam):
            run.memory.retrieve(
                slots.retrieval_slot(iteration, index),
                run.store.candidate(ref["id"]),
                state["forgotten"],
            )
        return SearchState(iteration=iteration, plans=None, attempts=None, lessons=None, pairs=[])
