"""Changing the settings of a run that has begun: on resume, or in a fork."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelopt.config import RunConfig
from accelopt.errors import ConfigError

RESUMABLE = frozenset(
    {
        "iterations",
        "patience",
        "budget_usd",
        "max_tokens",
        "max_evaluations",
        "max_minutes",
        "prices",
        "model",
        "planner_model",
        "executor_model",
        "fixer_model",
        "summarizer_model",
        "base_url",
        "temperature",
        "max_output_tokens",
        "reasoning_effort",
        "stream",
        "model_timeout_s",
        "model_retries",
        "model_concurrency",
        "requests_per_minute",
        "workers",
        "evaluation_timeout_s",
        "evaluation_cache",
    }
)
"""What may change while a run goes on: it does not touch what was decided so far."""

_OF_THE_RUN = frozenset({"task", "kernel", "reference", "backend", "graph", "preset"})
"""What makes a run the run it is."""


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Settings given as `key=value`.

    Raises:
        ConfigError: one has no `=`, or no such setting exists.
    """
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        name = key.strip().replace("-", "_")
        if not equals or not name:
            raise ConfigError(f"--set {pair!r}: not key=value", hint="such as --set iterations=8")
        if name not in RunConfig.model_fields:
            from difflib import get_close_matches

            close = get_close_matches(name, RunConfig.model_fields, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "docs/cli.md lists the settings"
            raise ConfigError(f"--set {pair!r}: unknown setting {name!r}", hint=hint)
        values[name] = value.strip()
    return values


def changed(config: RunConfig, changes: Mapping[str, Any], *, fork: bool) -> RunConfig:
    """The settings with changes; a text that says `none` unsets a bound.

    Args:
        config: as they are.
        changes: setting -> value, as text or of its own type.
        fork: for a fork, which may change how it searches; a resumed run may not.

    Raises:
        ConfigError: a value does not fit, or the setting may not change.
    """
    values = config.model_dump()
    for key, value in changes.items():
        if key in _OF_THE_RUN:
            raise ConfigError(f"{key} can't be changed", hint="start a new run instead")
        if not fork and key not in RESUMABLE:
            raise ConfigError(
                f"{key} can't be changed in a run that has begun",
                hint=f"accelopt fork RUN --at ITERATION --set {key}={value}",
            )
        unset = isinstance(value, str) and value.lower() in ("", "none")
        values[key] = None if unset and RunConfig.model_fields[key].default is None else value
    return RunConfig.load(None, **values)
