"""The checks of `accelopt doctor` that a person asks for by name: backends and models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from accelopt.config import RunConfig
from accelopt.doctor import MODEL_NOT_TRIED, Check, Group
from accelopt.model_names import ModelChoice, parse_models
from accelopt.models import ChatModelProvider, CheckedModels, ModelSettings
from accelopt.plugins import installed
from accelopt.secrets import shown_url
from accelopt.session import model_settings

if TYPE_CHECKING:
    from accelopt.backend import Backend


def backend_groups(names: Sequence[str], progress: Callable[[str], None]) -> dict[str, Group]:
    """A group for each backend.

    Args:
        names: of the backends.
        progress: told what is being tried.

    Raises:
        UnknownBackendError: there is no such backend.
    """
    registry = installed()
    groups: dict[str, Group] = {}
    for name in names:
        factory = registry.backend_factory(name)
        groups[f"backend {name}"] = partial(_backend, name, factory, progress)
    return groups


def _backend(
    name: str, factory: Callable[[], Backend], progress: Callable[[str], None]
) -> list[Check]:
    backend = factory()
    try:
        return backend.health(lambda text: progress(f"{name}: {text}"))
    finally:
        backend.close()


def model_groups(names: Sequence[str], base_url: str | None = None) -> dict[str, Group]:
    """A group for each model that the settings name.

    Args:
        names: model settings, as a run takes them.
        base_url: of the server of every model that has none of its own.

    Raises:
        ConfigError: a setting can't be read, or there is no such provider.
    """
    config = RunConfig.load(None, base_url=base_url)
    groups: dict[str, Group] = {}
    for choice in (choice for name in names for choice in parse_models(name)):
        provider = installed().model_provider(choice.label)
        settings = model_settings(config, choice)
        groups[f"model {_address(choice)}"] = partial(_model, provider, choice, settings)
    return groups


def _model(
    provider: ChatModelProvider, choice: ModelChoice, settings: ModelSettings
) -> list[Check]:
    if isinstance(provider, CheckedModels):
        return provider.health(choice.name, settings)
    provider.create(choice.name, settings)
    return [MODEL_NOT_TRIED]


def _address(choice: ModelChoice) -> str:
    return f"{choice.label}@{shown_url(choice.base_url)}" if choice.base_url else choice.label
