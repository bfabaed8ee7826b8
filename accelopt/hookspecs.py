"""The plugin hooks. Each one hands over objects; the objects do the work.

A plugin is a module named by an entry point of the group `accelopt`. It implements any of these::

    from accelopt import hookimpl

    @hookimpl
    def register_backends(register):
        register("my-chip", make_backend)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import typer

    from accelopt.backend import Backend
    from accelopt.doctor import Check
    from accelopt.embedder import Embedder
    from accelopt.events import Observer
    from accelopt.graphs import GraphProvider
    from accelopt.kernel import Suite
    from accelopt.models import ChatModelProvider

hookspec = pluggy.HookspecMarker("accelopt")
hookimpl = pluggy.HookimplMarker("accelopt")


@hookspec
def register_backends(register: Callable[[str, Callable[[], Backend]], None]) -> None:
    """Call `register(name, factory)`; the factory is called when the backend is used."""


@hookspec
def register_chat_models(register: Callable[[ChatModelProvider], None]) -> None:
    """Call `register(provider)`; a provider makes the chat models under one name prefix."""


@hookspec
def register_embedders(register: Callable[[str, Callable[[], Embedder]], None]) -> None:
    """Call `register(name, factory)`."""


@hookspec
def register_graphs(register: Callable[[GraphProvider], None]) -> None:
    """Call `register(provider)`; a provider describes, draws and runs one agent graph."""


@hookspec
def register_suites(register: Callable[[str, Suite], None]) -> None:
    """Call `register(suite_name, tasks)` with a mapping of task name to task factory."""


@hookspec
def register_observers(register: Callable[[str, Callable[[], Observer]], None]) -> None:
    """Call `register(name, factory)`; every run gets one observer of each name."""


@hookspec
def register_commands(register: Callable[[str, Callable[..., Any] | typer.Typer], None]) -> None:
    """Call `register(name, command)` with a function or a typer application to add to the CLI."""


@hookspec
def register_checks(register: Callable[[str, Callable[[], list[Check]]], None]) -> None:
    """Call `register(name, checks)`; `accelopt doctor` calls `checks()` and lists what it finds."""
