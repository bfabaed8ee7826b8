"""The grammar of a model setting: one model, or several with weights.

::

    setting = member {"," member}
    member  = provider [":" name] ["@" base-url] ["*" weight]

For example `openai:gpt-oss-120b@http://localhost:8000/v1*3,openai:qwen3-coder@http://localhost:8001/v1`.
A name may hold further colons and at signs; only `@http://` and `@https://` start a base URL.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from accelopt.errors import ConfigError

_HINT = "write provider:name[@http://server/v1][*weight], several with commas between them"
_BASE_URL = re.compile(r"@(?=https?://)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")


@dataclass(frozen=True)
class ModelChoice:
    """One model that a setting names.

    Attributes:
        provider: prefix of the provider, for example `openai`.
        name: the provider's name of the model; empty for a bare `rewriter`.
        base_url: of its server; None leaves it to the run's settings.
        weight: how often it is asked, relative to the other members.
    """

    provider: str
    name: str = ""
    base_url: str | None = None
    weight: float = 1.0

    @property
    def label(self) -> str:
        """The model's identity in journals and price tables: `openai:gpt-oss-120b`."""
        return f"{self.provider}:{self.name}" if self.name else self.provider

    @property
    def address(self) -> str:
        """The label and the server, `openai:gpt-oss-120b@http://localhost:8000/v1`."""
        return f"{self.label}@{self.base_url}" if self.base_url else self.label


def parse_models(text: str) -> tuple[ModelChoice, ...]:
    """The models that a setting names, in its order; at least one.

    Raises:
        ConfigError: a member is empty, has no provider, no usable base URL or weight, or stands
            there twice.
    """
    choices: list[ModelChoice] = []
    for member in text.split(","):
        choice = _member(member.strip(), text)
        if choice.address in (known.address for known in choices):
            raise ConfigError(
                f"model {choice.address!r} stands twice in {text!r}",
                hint="give it once, with a weight: MODEL*2",
            )
        choices.append(choice)
    return tuple(choices)


def _member(member: str, text: str) -> ModelChoice:
    if not member:
        raise ConfigError(f"a model name is missing in {text!r}", hint=_HINT)
    model, weight = _split_weight(member)
    parts = _BASE_URL.split(model, maxsplit=1)
    base_url = _base_url(parts[1], member) if len(parts) == 2 else None
    provider, _, name = parts[0].partition(":")
    if not provider:
        raise ConfigError(f"model {member!r} has no provider", hint=_HINT)
    return ModelChoice(provider, name, base_url, weight)


def _split_weight(member: str) -> tuple[str, float]:
    model, star, number = member.rpartition("*")
    if not star:
        return member, 1.0
    weight = float(number) if _NUMBER.fullmatch(number.strip()) else math.nan
    if not 0 < weight < math.inf:
        raise ConfigError(
            f"model {member!r} has the weight {number!r}, which is no positive number", hint=_HINT
        )
    return model.strip(), weight


def _base_url(url: str, member: str) -> str:
    try:
        parts = urlsplit(url)
        # Asking for the port checks it.
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in url):
        raise ConfigError(f"model {member!r} has a base URL without a usable host", hint=_HINT)
    return url
