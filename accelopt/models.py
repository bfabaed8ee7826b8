"""The contract of a chat model provider. The models themselves are LangChain `BaseChatModel`s."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

from accelopt.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Role(StrEnum):
    """The four agents."""

    PLANNER = "planner"
    EXECUTOR = "executor"
    FIXER = "fixer"
    SUMMARIZER = "summarizer"


class ModelSettings(BaseModel):
    """How a chat model is to be called.

    Attributes:
        base_url: of an OpenAI-compatible server; None for the provider's own.
        temperature: None leaves it to the server (reasoning models refuse it).
        max_output_tokens: None leaves it to the server.
        timeout_s: per call.
        max_retries: of a call that failed for a passing reason.
        seed: run seed; offline models use it, servers may.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    timeout_s: float = 600.0
    max_retries: int = 3
    seed: int = 0


class ChatModelProvider(Protocol):
    """Makes chat models whose names start with `<prefix>:` (or are the bare prefix).

    Attributes:
        prefix: for example `openai` or `rewriter`.
        description: one line for `accelopt models`.
        needs: what it needs to work, for people; empty when nothing (`offline`).
    """

    @property
    def prefix(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def needs(self) -> str: ...

    def create(self, name: str, settings: ModelSettings) -> BaseChatModel:
        """Make the model called `name` (without the prefix; may be empty).

        Raises:
            ConfigError: the name is not usable, or a key is missing.
        """
        ...


@dataclass(frozen=True)
class ModelName:
    """A model name split at its first colon: `openai:gpt-oss-120b` or `rewriter`."""

    prefix: str
    name: str

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Split `text`.

        Raises:
            ConfigError: the prefix is empty.
        """
        prefix, _, name = text.partition(":")
        if not prefix:
            raise ConfigError(f"model name {text!r} has no provider", hint="write provider:name")
        return cls(prefix, name)
