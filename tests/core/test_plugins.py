"""The plugin door: every hook hands over what it is given, and a bad plugin is named."""

from __future__ import annotations

from types import SimpleNamespace

import pluggy
import pytest

from accelopt import hookimpl, hookspecs
from accelopt.errors import ConfigError, PluginError, TaskError, UnknownBackendError
from accelopt.models import ModelSettings
from accelopt.plugins import BLOCK_VARIABLE, Registry, collect, plugin_manager
from accelopt.testing import DummyBackend, dummy_task


def registry_of(*plugins) -> Registry:
    manager = plugin_manager(load_entry_points=False)
    for plugin in plugins:
        manager.register(plugin)
    return collect(manager)


class Everything:
    """Implements every hook."""

    model = SimpleNamespace(
        prefix="mine", description="", needs="", create=lambda name, settings: (name, settings)
    )
    graph = SimpleNamespace(name="mine", description="", mermaid=lambda: "", run=None)

    @hookimpl
    def register_backends(self, register):
        register("mine", DummyBackend)

    @hookimpl
    def register_chat_models(self, register):
        register(self.model)

    @hookimpl
    def register_embedders(self, register):
        register("mine", lambda: "embedder")

    @hookimpl
    def register_graphs(self, register):
        register(self.graph)

    @hookimpl
    def register_suites(self, register):
        register("mine", {"task": dummy_task, "other": dummy_task})

    @hookimpl
    def register_observers(self, register):
        register("mine", lambda: "observer")

    @hookimpl
    def register_checks(self, register):
        register("mine", list)

    @hookimpl
    def register_commands(self, register):
        register("mine", lambda: None)


def hook_names() -> set[str]:
    return {name for name in vars(hookspecs) if name.startswith("register_")}


def test_every_hook_is_exercised_here():
    assert {name for name in vars(Everything) if name.startswith("register_")} == hook_names()


def test_hook_register_backends():
    backend = registry_of(Everything()).backend("mine")
    assert isinstance(backend, DummyBackend)


def test_hook_register_chat_models():
    made = registry_of(Everything()).chat_model("mine:large", ModelSettings(seed=3))
    assert made == ("large", ModelSettings(seed=3))


def test_hook_register_embedders():
    assert registry_of(Everything()).embedder("mine") == "embedder"


def test_hook_register_graphs():
    assert registry_of(Everything()).graph("mine") is Everything.graph


def test_hook_register_suites():
    registry = registry_of(Everything())
    assert registry.task_names() == ["mine/task", "mine/other"]
    assert registry.task("mine/task") == dummy_task()
    assert registry.task("other") == dummy_task()


def test_hook_register_observers():
    assert registry_of(Everything()).observers["mine"]() == "observer"


def test_hook_register_commands():
    assert list(registry_of(Everything()).commands) == ["mine"]


def test_a_short_task_name_must_be_unique():
    class Another:
        @hookimpl
        def register_suites(self, register):
            register("another", {"task": dummy_task})

    registry = registry_of(Everything(), Another())
    with pytest.raises(TaskError, match="not unique"):
        registry.task("task")


def test_unknown_names_suggest_the_nearest():
    registry = registry_of(Everything())
    with pytest.raises(UnknownBackendError, match="'mine'"):
        registry.backend("mien")
    with pytest.raises(TaskError, match="mine/task"):
        registry.task("tsk")
    with pytest.raises(ConfigError, match="unknown model"):
        registry.chat_model("nothing:x", ModelSettings())


def test_two_plugins_with_the_same_name_are_refused():
    with pytest.raises(PluginError, match="two plugins register the backend 'mine'"):
        registry_of(Everything(), Everything())


def test_an_unknown_hook_is_refused_and_the_plugin_named():
    class Misspelt:
        @hookimpl
        def register_backend(self, register):
            pass

    manager = plugin_manager(load_entry_points=False)
    manager.register(Misspelt(), name="misspelt")
    with pytest.raises(pluggy.PluginValidationError, match="register_backend"):
        manager.check_pending()


def test_a_blocked_plugin_is_not_loaded(monkeypatch):
    assert plugin_manager().has_plugin("nkibench")
    monkeypatch.setenv(BLOCK_VARIABLE, "nkibench, other")
    manager = plugin_manager()
    assert not manager.has_plugin("nkibench")
    assert manager.has_plugin("simulator")
    assert "nkibench" not in {info.name for info in collect(manager).plugins if not info.blocked}


def test_a_plugin_that_can_not_be_imported_is_named(monkeypatch):
    from importlib.metadata import EntryPoint

    from accelopt import plugins

    broken = EntryPoint("broken", "no_such_module_anywhere", "accelopt")
    monkeypatch.setattr(plugins, "_entries", lambda: [broken])
    with pytest.raises(PluginError, match="'broken'") as caught:
        plugin_manager()
    assert BLOCK_VARIABLE in caught.value.hint
