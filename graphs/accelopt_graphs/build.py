"""Puts the nodes together. Nothing is built when this module is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.graph import END, START, StateGraph

from accelopt_graphs import routing
from accelopt_graphs.attempt_loop import attempt
from accelopt_graphs.context import RunContext
from accelopt_graphs.nodes.baseline import baseline
from accelopt_graphs.nodes.beam_selection import beam_selection
from accelopt_graphs.nodes.curate import curate
from accelopt_graphs.nodes.dispatch import dispatch
from accelopt_graphs.nodes.evaluate import evaluate
from accelopt_graphs.nodes.executor import executor
from accelopt_graphs.nodes.fixer import fixer
from accelopt_graphs.nodes.memory import memory
from accelopt_graphs.nodes.planner import planner
from accelopt_graphs.nodes.recall import recall
from accelopt_graphs.nodes.summarizer import summarizer
from accelopt_graphs.state import (
    AttemptInput,
    AttemptOutput,
    AttemptState,
    PlannerInput,
    SearchState,
    SummaryInput,
)

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


def build_attempt() -> CompiledStateGraph[AttemptState, RunContext, AttemptInput, AttemptOutput]:
    """The inner graph: write a kernel, judge it, repair it at most F times."""
    graph = StateGraph(
        AttemptState,
        context_schema=RunContext,
        input_schema=AttemptInput,
        output_schema=AttemptOutput,
    )
    graph.add_node("executor", executor)
    graph.add_node("evaluate", evaluate)
    graph.add_node("fixer", fixer)
    graph.add_edge(START, "executor")
    graph.add_conditional_edges("executor", routing.after_executor, ["evaluate", END])
    graph.add_conditional_edges("evaluate", routing.after_evaluation, ["fixer", END])
    graph.add_conditional_edges("fixer", routing.after_fixer, ["evaluate", END])
    return graph.compile(name="attempt")


def add_attempt(graph: StateGraph[SearchState, RunContext, Any, Any], *, inner_graph: bool) -> None:
    """The node `attempt`: as an inner graph, or as the same loop in one step."""
    step: Any = build_attempt() if inner_graph else attempt
    graph.add_node("attempt", step, input_schema=AttemptInput)


def build_graph(
    *, inner_graph: bool = True
) -> StateGraph[SearchState, RunContext, SearchState, SearchState]:
    """The search: plan, attempt, learn, select; T times.

    Args:
        inner_graph: an attempt is a graph of its own, which drawings expand; else it is one step.
    """
    graph = StateGraph(SearchState, context_schema=RunContext)
    graph.add_node("baseline", baseline)
    graph.add_node("recall", recall)
    graph.add_node("planner", planner, input_schema=PlannerInput)
    graph.add_node("dispatch", dispatch)
    add_attempt(graph, inner_graph=inner_graph)
    graph.add_node("curate", curate)
    graph.add_node("summarizer", summarizer, input_schema=SummaryInput)
    graph.add_node("memory", memory)
    graph.add_node("beam_selection", beam_selection)
    graph.add_conditional_edges(START, routing.from_start_to("recall"), ["baseline", "recall"])
    graph.add_edge("baseline", "recall")
    graph.add_conditional_edges("recall", routing.to_planners, ["planner"])
    graph.add_edge("planner", "dispatch")
    graph.add_conditional_edges("dispatch", routing.to_attempts, ["attempt", "curate"])
    graph.add_edge("attempt", "curate")
    graph.add_conditional_edges("curate", routing.to_summarizers, ["summarizer", "memory"])
    graph.add_edge("summarizer", "memory")
    graph.add_edge("memory", "beam_selection")
    graph.add_conditional_edges("beam_selection", routing.after_selection, ["recall", END])
    return graph
