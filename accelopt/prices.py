"""What models cost, from a dated table that a user can add to; an unknown price is never zero."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accelopt import paths
from accelopt.errors import ConfigError

OFFLINE_PREFIX = "rewriter"
"""Provider of the built-in model, which costs nothing."""

# A model name may end in the date of its snapshot: `gpt-4o-2024-08-06`, `claude-sonnet-4-20250514`.
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)\Z")


class Price(BaseModel):
    """What a model costs, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def cost_usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars for one call."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6


class PriceTable(BaseModel):
    """Prices by model label (`openai:gpt-5-mini`).

    Attributes:
        as_of: date of the built-in prices.
        source: where they are from.
        models: built-in prices; hold for the provider's own servers only.
        own: the user's prices; hold wherever the model runs. A label may name the server:
            `openai:qwen3-coder@http://localhost:8000/v1`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: str
    source: str = ""
    models: dict[str, Price] = {}
    own: dict[str, Price] = {}

    def price(self, label: str, base_url: str | None = None) -> Price | None:
        """Price of a model; None when it is not known.

        Args:
            label: `provider:name`, with or without `@server`.
            base_url: the server of a label without one; None for the provider's own.
        """
        name, at, server = label.partition("@http")
        url = f"http{server}" if at else base_url
        names = [f"{name}@{url}"] if url else []
        names += [name, _SNAPSHOT.sub("", name)]
        for candidate in names:
            if candidate in self.own:
                return self.own[candidate]
        if name.partition(":")[0] == OFFLINE_PREFIX:
            return Price(input=0, output=0)
        if url:
            # The public price is not what somebody else's server costs.
            return None
        return next((self.models[known] for known in names if known in self.models), None)


def load_prices(path: Path | None = None) -> PriceTable:
    """The built-in table with the user's prices.

    Args:
        path: the user's file; by default `prices.toml` in the data folder, where there is one.

    Raises:
        ConfigError: the file can't be read, or holds something else.
    """
    text = resources.files("accelopt.data").joinpath("prices.toml").read_text(encoding="utf-8")
    built_in = tomllib.loads(text)
    own: dict[str, Any] = {}
    default = paths.user_data_dir() / "prices.toml"
    if path is not None or default.exists():
        own = _read(path or default)
    return PriceTable(
        as_of=built_in["as_of"], source=built_in["source"], models=built_in["models"], own=own
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't read the price file {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"the price file {path} is not valid TOML: {error}") from error
    models = data.get("models")
    if not isinstance(models, dict):
        raise ConfigError(
            f"the price file {path} has no table [models]",
            hint='write "openai:NAME" = { input = 0.5, output = 1.5 } below it, USD per million',
        )
    for label, price in models.items():
        try:
            Price.model_validate(price)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ConfigError(
                f"the price file {path}: {label!r}: {where or 'price'}: {first['msg'].lower()}",
                hint="write { input = USD, output = USD }, per million tokens",
            ) from error
    return models
