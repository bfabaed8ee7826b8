"""An attempt as one step: the inner graph's nodes and edges without the graph library around them.

A run makes thousands of attempts, and starting an inner graph costs more than all that is done in
it. `build.build_attempt` is the same loop as a graph, for drawings and for the studio; a test shows
that the two do the same.
"""

from __future__ import annotations

from typing import Any, cast

from langgraph.graph import END
from langgraph.runtime import Runtime

from accelopt_graphs import routing
from accelopt_graphs.context import RunContext
from accelopt_graphs.nodes.evaluate import evaluate
from accelopt_graphs.nodes.executor import executor
from accelopt_graphs.nodes.fixer import fixer
from accelopt_graphs.state import AttemptInput, AttemptOutput, AttemptState


def attempt(state: AttemptInput, runtime: Runtime[RunContext]) -> AttemptOutput:
    """Write a kernel, judge it, repair it at most F times; the attempt's one result."""
    current: dict[str, Any] = dict(state)

    def seen() -> AttemptState:
        return cast(AttemptState, current)

    current.update(executor(seen(), runtime))
    step = routing.after_executor(seen())
    while step != END:
        if step == "evaluate":
            current.update(evaluate(seen(), runtime))
            step = routing.after_evaluation(seen(), runtime)
        else:
            current.update(fixer(seen(), runtime))
            step = routing.after_fixer(seen())
    return AttemptOutput(attempts=current["attempts"])
