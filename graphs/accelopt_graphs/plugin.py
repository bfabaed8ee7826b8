"""Registers the graphs, the OpenAI-compatible models and the local embedder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from accelopt.hookspecs import hookimpl

if TYPE_CHECKING:
    from accelopt.embedder import Embedder
    from accelopt.graphs import GraphProvider, RunResult, RunServices
    from accelopt.models import ChatModelProvider
    from accelopt_graphs.provider import SearchGraph


class _LazyGraph:
    """A graph whose library is imported when it is drawn or run."""

    def __init__(self, name: str, description: str, module: str, build: str) -> None:
        self.name = name
        self.description = description
        self._module = module
        self._build = build

    def mermaid(self) -> str:
        return self._graph().mermaid()

    def run(self, services: RunServices) -> RunResult:
        return self._graph().run(services)

    def _graph(self) -> SearchGraph:
        from accelopt_graphs.provider import SearchGraph

        build = getattr(import_module(self._module), self._build)
        return SearchGraph(self.name, self.description, build)


@hookimpl
def register_graphs(register: Callable[[GraphProvider], None]) -> None:
    """The paper's loop, and what it has to beat."""
    register(
        _LazyGraph(
            "optimize",
            "beam search with planner, executor, fixer, summarizer and optimization memory",
            "accelopt_graphs.build",
            "build_graph",
        )
    )
    register(
        _LazyGraph(
            "best-of-n",
            "T rounds of N plans and K kernels each, all of the baseline: no beam, no memory",
            "accelopt_graphs.best_of_n",
            "build_best_of_n",
        )
    )


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
