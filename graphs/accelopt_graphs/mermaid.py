"""Draws the search graph."""

from __future__ import annotations

from accelopt_graphs.build import build_graph


def mermaid() -> str:
    """The graph as Mermaid text, the inner graph expanded."""
    return build_graph().compile(name="optimize").get_graph(xray=True).draw_mermaid()
