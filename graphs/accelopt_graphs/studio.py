"""Entry for LangGraph's own studio (`langgraph.json`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelopt_graphs.best_of_n import build_best_of_n
from accelopt_graphs.build import build_graph

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


def make_graph() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled search graph, to look at; runs need services and start with `accelopt`."""
    return build_graph().compile(name="optimize")


def make_best_of_n() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph of independent samples, to look at."""
    return build_best_of_n().compile(name="best-of-n")
