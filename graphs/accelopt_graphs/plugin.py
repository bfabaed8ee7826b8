"""Registers the graphs, the OpenAI-compatible models and the local embedder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accelopt.hookspecs import hookimpl

if TYPE_CHECKING:
    from accelopt.doctor import Check
    from accelopt.embedder import Embedder
    from accelopt.events import Observer
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
    """Models under `openai:`, and those of LangChain's own packages."""
    from accelopt_graphs.langchain_models import langchain_providers
    from accelopt_graphs.openai_models import OpenAIModels

    register(OpenAIModels())
    for provider in langchain_providers():
        register(provider)


@hookimpl
def register_embedders(register: Callable[[str, Callable[[], Embedder]], None]) -> None:
    """The local embedder."""
    from accelopt.embedders import HashedTokenEmbedder

    register("hashed-tokens", HashedTokenEmbedder)


@hookimpl
def register_commands(register: Callable[[str, Callable[..., Any]], None]) -> None:
    """`accelopt estimate` and `accelopt prompts`."""
    from accelopt_graphs.estimate_command import estimate
    from accelopt_graphs.prompts_command import prompts

    register("estimate", estimate)
    register("prompts", prompts)


@hookimpl
def register_checks(register: Callable[[str, Callable[[], list[Check]]], None]) -> None:
    """Whether the optimization memory works."""
    register("optimization memory", _optimization_memory)


def _optimization_memory() -> list[Check]:
    from accelopt_graphs.memory_check import memory_checks

    return memory_checks()


@hookimpl
def register_observers(register: Callable[[str, Callable[[], Observer]], None]) -> None:
    """Spans for OpenTelemetry; does nothing until its own variables ask for them."""
    from accelopt_graphs.otel_observer import make_observer

    register("opentelemetry", make_observer)
