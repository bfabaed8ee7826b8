"""The plugin door: finds plugins, asks their hooks once, and looks things up by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points, version
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from accelopt import hookspecs
from accelopt.errors import ConfigError, PluginError, TaskError, UnknownBackendError
from accelopt.models import ModelName, ModelSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.backend import Backend
    from accelopt.doctor import Check
    from accelopt.embedder import Embedder
    from accelopt.events import Observer
    from accelopt.graphs import GraphProvider
    from accelopt.kernel import KernelTask, Suite
    from accelopt.models import ChatModelProvider

ENTRY_POINT_GROUP = "accelopt"
BLOCK_VARIABLE = "ACCELOPT_BLOCK_PLUGINS"
"""Environment variable: comma-separated names of plugins that are not to be loaded."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """One plugin, as `accelopt plugins` lists it."""

    name: str
    distribution: str
    version: str
    hooks: tuple[str, ...]
    blocked: bool = False


@dataclass
class Registry:
    """Everything the plugins handed over, by name."""

    backends: dict[str, Callable[[], Backend]] = field(default_factory=dict)
    chat_models: dict[str, ChatModelProvider] = field(default_factory=dict)
    embedders: dict[str, Callable[[], Embedder]] = field(default_factory=dict)
    graphs: dict[str, GraphProvider] = field(default_factory=dict)
    suites: dict[str, Suite] = field(default_factory=dict)
    observers: dict[str, Callable[[], Observer]] = field(default_factory=dict)
    checks: dict[str, Callable[[], list[Check]]] = field(default_factory=dict)
    plugins: list[PluginInfo] = field(default_factory=list)
    collect_commands: Callable[[], dict[str, Callable[..., Any]]] = dict

    @cached_property
    def commands(self) -> dict[str, Callable[..., Any]]:
        """Commands for the command line; asked for on first use, since they need typer."""
        return self.collect_commands()

    def backend(self, name: str) -> Backend:
        """Make the backend called `name`.

        Raises:
            UnknownBackendError: no plugin registers it.
        """
        return self.backend_factory(name)()

    def backend_factory(self, name: str) -> Callable[[], Backend]:
        """What makes the backend called `name`.

        Raises:
            UnknownBackendError: no plugin registers it.
        """
        if name not in self.backends:
            raise UnknownBackendError(
                f"unknown backend {name!r}", hint=_suggest(name, self.backends, "accelopt backends")
            )
        return self.backends[name]

    def chat_model(self, name: str, settings: ModelSettings) -> BaseChatModel:
        """Make the chat model called `provider:name`.

        Raises:
            ConfigError: no plugin registers the provider, or it refuses the name.
        """
        return self.model_provider(name).create(ModelName.parse(name).name, settings)

    def model_provider(self, name: str) -> ChatModelProvider:
        """The provider of the chat model called `provider:name`.

        Raises:
            ConfigError: no plugin registers it.
        """
        prefix = ModelName.parse(name).prefix
        if prefix not in self.chat_models:
            raise ConfigError(
                f"unknown model {name!r}",
                hint=_suggest(prefix, self.chat_models, "accelopt models"),
            )
        return self.chat_models[prefix]

    def embedder(self, name: str) -> Embedder:
        """Make the embedder called `name`.

        Raises:
            ConfigError: no plugin registers it.
        """
        return _lookup(self.embedders, name, "embedder", "accelopt plugins")()

    def graph(self, name: str) -> GraphProvider:
        """The agent graph called `name`.

        Raises:
            ConfigError: no plugin registers it.
        """
        return _lookup(self.graphs, name, "graph", "accelopt graphs")

    def task_names(self) -> list[str]:
        """Full names of all tasks, `suite/task`, in registration order."""
        return [f"{suite}/{task}" for suite, tasks in self.suites.items() for task in tasks]

    def task(self, name: str) -> KernelTask:
        """Build the task called `suite/task`, or `task` where that is unique.

        Raises:
            TaskError: there is no such task, or the short name is not unique.
        """
        names = self.task_names()
        matches = [name] if name in names else [n for n in names if n.split("/", 1)[1] == name]
        if not matches:
            raise TaskError(f"unknown task {name!r}", hint=_suggest(name, names, "accelopt tasks"))
        if len(matches) > 1:
            raise TaskError(
                f"task name {name!r} is not unique", hint=f"one of {', '.join(matches)}"
            )
        suite, task = matches[0].split("/", 1)
        return self.suites[suite][task]()


def _lookup(table: dict[str, T], name: str, what: str, listing: str) -> T:
    if name not in table:
        raise ConfigError(f"unknown {what} {name!r}", hint=_suggest(name, table, listing))
    return table[name]


def _suggest(name: str, known: Iterable[str], listing: str) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1)
    if not close:
        by_short_name = {full.rsplit("/", 1)[-1]: full for full in names}
        close = [by_short_name[n] for n in get_close_matches(name, by_short_name, n=1)]
    return f"did you mean {close[0]!r}?" if close else f"`{listing}` lists them"


def _blocked_names() -> frozenset[str]:
    return frozenset(n.strip() for n in os.environ.get(BLOCK_VARIABLE, "").split(",") if n.strip())


def plugin_manager(*, load_entry_points: bool = True) -> pluggy.PluginManager:
    """A plugin manager with our hooks and, unless told otherwise, every installed plugin.

    Raises:
        PluginError: a plugin can't be imported or implements a hook that does not exist; names it.
    """
    manager = pluggy.PluginManager("accelopt")
    manager.add_hookspecs(hookspecs)
    for name in _blocked_names():
        manager.set_blocked(name)
    if load_entry_points:
        for entry in _entries():
            if manager.is_blocked(entry.name) or manager.has_plugin(entry.name):
                continue
            try:
                manager.register(entry.load(), name=entry.name)
            except Exception as error:
                raise PluginError(
                    f"plugin {entry.name!r} ({entry.value}) can't be loaded: {error}",
                    hint=f"block it with {BLOCK_VARIABLE}={entry.name}",
                ) from error
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(f"plugin {manager.get_name(error.plugin)!r}: {error}") from error
    return manager


def _entries() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)


def collect(manager: pluggy.PluginManager) -> Registry:
    """Call every register hook once.

    Raises:
        PluginError: two plugins register the same name.
    """
    registry = Registry()

    def into(table: dict[str, Any], what: str) -> Callable[[str, Any], None]:
        def register(name: str, thing: Any) -> None:
            if name in table:
                raise PluginError(f"two plugins register the {what} {name!r}")
            table[name] = thing

        return register

    hook = manager.hook
    add_model = into(registry.chat_models, "chat model")
    add_graph = into(registry.graphs, "graph")
    hook.register_backends(register=into(registry.backends, "backend"))
    hook.register_chat_models(register=lambda provider: add_model(provider.prefix, provider))
    hook.register_embedders(register=into(registry.embedders, "embedder"))
    hook.register_graphs(register=lambda provider: add_graph(provider.name, provider))
    hook.register_suites(register=into(registry.suites, "suite"))
    hook.register_observers(register=into(registry.observers, "observer"))
    hook.register_checks(register=into(registry.checks, "check"))

    def commands() -> dict[str, Callable[..., Any]]:
        found: dict[str, Callable[..., Any]] = {}
        hook.register_commands(register=into(found, "command"))
        return found

    registry.collect_commands = commands
    registry.plugins = _describe(manager)
    return registry


def _describe(manager: pluggy.PluginManager) -> list[PluginInfo]:
    by_name = {entry.name: entry for entry in _entries()}
    infos = []
    for name, plugin in sorted(manager.list_name_plugin()):
        entry = by_name.get(name)
        distribution = entry.dist.name if entry is not None and entry.dist is not None else ""
        hooks = tuple(sorted(caller.name for caller in manager.get_hookcallers(plugin) or ()))
        infos.append(
            PluginInfo(
                name=name,
                distribution=distribution,
                version=version(distribution) if distribution else "",
                hooks=hooks,
                blocked=manager.is_blocked(name),
            )
        )
    return infos


@cache
def installed() -> Registry:
    """The registry of everything installed; made once per process."""
    return collect(plugin_manager())
