"""Draws a search graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.graph import StateGraph


def draw(graph: StateGraph[Any, Any, Any, Any], name: str) -> str:
    """The graph as Mermaid text, inner graphs expanded."""
    return graph.compile(name=name).get_graph(xray=True).draw_mermaid()
