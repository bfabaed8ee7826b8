"""The graph `best-of-n`: independent samples of the baseline, the fastest wins.

No beam and no memory: what a search has to beat, at the same number of calls.
"""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph

from accelopt_graphs import routing
from accelopt_graphs.build import add_attempt
from accelopt_graphs.context import RunContext
from accelopt_graphs.nodes.baseline import baseline
from accelopt_graphs.nodes.dispatch import dispatch
from accelopt_graphs.nodes.draw import draw
from accelopt_graphs.nodes.keep_best import keep_best
from accelopt_graphs.nodes.planner import planner
from accelopt_graphs.state import PlannerInput, SearchState


def build_best_of_n(
    *, inner_graph: bool = True
) -> StateGraph[SearchState, RunContext, SearchState, SearchState]:
    """Plan and attempt the baseline, keep the best; T times."""
    graph = StateGraph(SearchState, context_schema=RunContext)
    graph.add_node("baseline", baseline)
    graph.add_node("draw", draw)
    graph.add_node("planner", planner, input_schema=PlannerInput)
    graph.add_node("dispatch", dispatch)
    add_attempt(graph, inner_graph=inner_graph)
    graph.add_node("keep_best", keep_best)
    graph.add_conditional_edges(START, routing.from_start_to("draw"), ["baseline", "draw"])
    graph.add_edge("baseline", "draw")
    graph.add_conditional_edges("draw", routing.to_planners, ["planner"])
    graph.add_edge("planner", "dispatch")
    graph.add_conditional_edges("dispatch", routing.to_samples, ["attempt", "keep_best"])
    graph.add_edge("attempt", "keep_best")
    graph.add_conditional_edges("keep_best", routing.after_round, ["draw", END])
    return graph
