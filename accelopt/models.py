"""The contract of a chat model provider, and the models that play a role.

The models themselves are LangChain `BaseChatModel`s. How a person names them is the business of
`accelopt.model_names`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from accelopt.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.doctor import Check


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
        stream: whether answers are streamed: proxies that cut long silent calls need it.
        reasoning_effort: as the server names it (`low`, `high`, ...); empty leaves it to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    timeout_s: float = 600.0
    max_retries: int = 3
    seed: int = 0
    stream: bool = False
    reasoning_effort: str = ""


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


@runtime_checkable
class CheckedModels(Protocol):
    """What a chat model provider may have besides: a way to look whether a model is there."""

    def health(self, name: str, settings: ModelSettings) -> list[Check]:
        """What `accelopt doctor --model NAME` says: a few seconds at most, and no paid call.

        Args:
            name: of the model, without the prefix; may be empty.
            settings: how a run would call it.

        Raises:
            ConfigError: the name is not usable, or a key is missing; one failed check.
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


@dataclass(frozen=True)
class Member:
    """One model of an ensemble.

    Attributes:
        label: its identity in journals and price tables, `openai:gpt-oss-120b`.
        weight: how often it is asked, relative to the other members; positive.
        model: the model itself.
    """

    label: str
    weight: float
    model: BaseChatModel


@dataclass(frozen=True)
class Ensemble:
    """The models that play one role, by weight.

    Attributes:
        members: at least one.

    Raises:
        ValueError: there is no member, or a weight is not positive.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("an ensemble needs a member")
        if not all(member.weight > 0 for member in self.members):
            raise ValueError("the weights of an ensemble must be positive")

    @classmethod
    def of(cls, label: str, model: BaseChatModel) -> Ensemble:
        """An ensemble of a single model."""
        return cls((Member(label, 1.0, model),))

    def pick(self, seed: int, slot: str) -> Member:
        """The member that answers in a slot; the same one in every process and on every resume."""
        if len(self.members) == 1:
            return self.members[0]
        digest = hashlib.blake2b(f"{seed}\0{slot}".encode(), digest_size=8).digest()
        total = sum(member.weight for member in self.members)
        left = int.from_bytes(digest, "big") / 2**64 * total
        for member in self.members:
            left -= member.weight
            if left < 0:
                return member
        # Rounding may leave a speck; it belongs to the last.
        return self.members[-1]
