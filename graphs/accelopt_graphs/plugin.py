"""Registers the graph, the OpenAI-compatible models and the local embedder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accelopt.hookspecs import hookimpl

if TYPE_CHECKING:
    from accelopt.embedder import Embedder
    from accelopt.graphs import GraphProvider, RunResult, RunServices
    from accelopt.models import ChatModelProvider


class _LazyGraph:
    """The optimize graph; its library is imported when it is drawn or run."""

    name = "optimize"
    description = "beam search with planner, executor, fixer, summarizer and optimization memory"

    def mermaid(self) -> str:
        from accelopt_graphs.provider import OptimizeGraph

        return OptimizeGraph().mermaid()

    def run(self, services: RunServices) -> RunResult:
        from accelopt_graphs.provider import OptimizeGraph

        return OptimizeGraph().run(services)


@hookimpl
def register_graphs(register: Callable[[GraphProvider], None]) -> None:
    """The `optimize` graph."""
    register(_LazyGraph())


@hookimpl
def register_chat_models(register: Callable[[ChatModelProvider], None]) -> None:
    """Models under `openai:`."""
    from accelopt_graphs.openai_models import OpenAIModels

    register(OpenAIModels())


@hookimpl
def register_embedders(register: Callable[[str, Callable[[], Embedder]], None]) -> None:
    """The local embedder."""
    from accelopt.embedders import HashedTokenEmbedder

    register("hashed-tokens", HashedTokenEmbedder)
