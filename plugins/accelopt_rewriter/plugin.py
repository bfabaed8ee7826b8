"""Registers the offline model `rewriter`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accelopt import ChatModelProvider, ConfigError, ModelSettings, hookimpl

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.doctor import Check


class RewriterProvider:
    """Makes the offline model; it has one version and no options."""

    prefix = "rewriter"
    description = "applies known kernel rewrites by rule; the same answer every time"
    needs = "nothing (offline)"

    def create(self, name: str, settings: ModelSettings) -> BaseChatModel:
        """Make the model.

        Raises:
            ConfigError: a name follows the prefix.
        """
        if name:
            raise ConfigError(f"the rewriter has no model {name!r}", hint="write just `rewriter`")
        # LangChain is imported when the model is used, so that listing models stays quick.
        from accelopt_rewriter.chat_model import RewriterChatModel

        return RewriterChatModel()

    def health(self, name: str, settings: ModelSettings) -> list[Check]:
        """It is always there.

        Raises:
            ConfigError: as `create`.
        """
        from accelopt.doctor import Check

        self.create(name, settings)
        return [Check(name="model", state="ok", detail="needs no endpoint")]


@hookimpl
def register_chat_models(register: Callable[[ChatModelProvider], None]) -> None:
    """Hand over the offline model."""
    register(RewriterProvider())
