"""What a run is asked to do: one frozen settings class for flags, environment and TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from accelopt.errors import ConfigError
from accelopt.models import Role

NONE = "none"
"""Value of a setting that names a shared store: none, the run keeps it to itself."""

ENVIRONMENT_PREFIX = "ACCELOPT_"

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # The settings of the paper: its memory starts empty and is the run's own, and it repairs
    # nothing (arXiv 2511.15915 and its released configuration).
    "paper": {
        "beam_width": 6,
        "num_plans": 12,
        "num_samples": 2,
        "iterations": 16,
        "fixer_rounds": 0,
        "topk_experiences": 8,
        "memory_capacity": 16,
        "positive_threshold": 1.04,
        "negative_threshold": 1.15,
        "memory": NONE,
        "patience": 0,
    },
    # A first look at a task for the price of some tens of model calls.
    "quick": {
        "beam_width": 2,
        "num_plans": 3,
        "num_samples": 1,
        "iterations": 4,
        "fixer_rounds": 1,
        "topk_experiences": 4,
        "patience": 2,
    },
}
"""Settings that go together; every other way to set a value wins over them."""


class RunConfig(BaseSettings):
    """One optimization run.

    Flags win over environment (`ACCELOPT_BEAM_WIDTH`) over TOML over the preset over defaults.
    Unknown TOML keys and unknown flags are refused; environment variables of other tools are not
    ours to refuse.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True
    )

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)

    preset: str = Field(default="", description="Settings that go together: paper, quick.")
    task: str = Field(default="", description="Task name, or empty when a kernel file is given.")
    kernel: str = Field(default="", description="A person's own kernel file (with `reference`).")
    reference: str = Field(default="", description="The reference file of that kernel.")
    backend: str = Field(default="sim-trn1", description="Backend that judges the kernels.")
    graph: str = Field(default="optimize", description="Agent graph to run.")

    model: str = Field(default="rewriter", description="Chat model of every role, `provider:name`.")
    planner_model: str = Field(default="", description="Chat model of the planner.")
    executor_model: str = Field(default="", description="Chat model of the executor.")
    fixer_model: str = Field(default="", description="Chat model of the fixer.")
    summarizer_model: str = Field(default="", description="Chat model of the summarizer.")
    base_url: str | None = Field(default=None, description="OpenAI-compatible server.")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sampling temperature; the server's own by default."
    )
    max_output_tokens: int | None = Field(default=None, ge=1, description="Most tokens per answer.")
    reasoning_effort: str = Field(
        default="", description="low, medium, high: where models take it."
    )
    stream: bool = Field(default=False, description="Receive answers as streams.")
    model_timeout_s: float = Field(default=600.0, gt=0, description="Seconds per model call.")
    model_retries: int = Field(
        default=3, ge=0, description="Retries of a call that failed for a passing reason."
    )
    model_concurrency: int = Field(default=8, ge=1, description="Model calls at once.")
    requests_per_minute: float | None = Field(
        default=None, gt=0, description="Most model calls per minute and server."
    )
    reply_reasks: int = Field(
        default=1, ge=0, description="Times a question is repeated when its answer is unusable."
    )
    edit_mode: Literal["full", "edits"] = Field(
        default="full", description="Answers are complete kernels, or edits of the parent."
    )

    beam_width: int = Field(default=3, ge=1, description="B: kernels kept per iteration.")
    num_plans: int = Field(default=4, ge=1, description="N: plans drawn per kernel.")
    num_samples: int = Field(default=1, ge=1, description="K: implementations drawn per plan.")
    iterations: int = Field(default=5, ge=1, description="T: iterations.")
    patience: int = Field(
        default=0, ge=0, description="Iterations without a faster kernel that end it; 0: all run."
    )
    fixer_rounds: int = Field(default=2, ge=0, description="F: repair rounds per implementation.")
    topk_experiences: int = Field(default=8, ge=0, description="TopK: new lessons per iteration.")
    memory_capacity: int = Field(default=16, ge=0, description="ExpN: lessons per prompt.")
    positive_threshold: float = Field(default=1.04, ge=1, description="Least speedup of a lesson.")
    negative_threshold: float = Field(default=1.15, ge=1, description="Least slowdown of a lesson.")
    embedder: str = Field(default="hashed-tokens", description="Embedder of the memory.")
    memory: str = Field(
        default="",
        description="Folder of the optimization memory; empty: the user's, `none`: private.",
    )
    evaluation_cache: str = Field(
        default="",
        description="File of evaluations that runs share; empty: the user's, `none`: none.",
    )

    budget_usd: float | None = Field(default=None, gt=0, description="Most US dollars for models.")
    max_tokens: int | None = Field(default=None, ge=1, description="Most tokens in all.")
    max_evaluations: int | None = Field(default=None, ge=1, description="Most programs judged.")
    max_minutes: float | None = Field(default=None, gt=0, description="Most minutes of wall time.")
    prices: str = Field(default="", description="Price file of your own.")

    seed: int = Field(default=0, ge=0, description="Seed of every random choice of the run.")
    workers: int = Field(default=0, ge=0, description="Evaluations at once; 0: one per core.")
    evaluation_timeout_s: float = Field(default=180.0, gt=0, description="Seconds per evaluation.")

    def model_for(self, role: Role) -> str:
        """Name of the chat model that plays `role`."""
        return str(getattr(self, f"{role.value}_model")) or self.model

    @model_validator(mode="after")
    def _one_subject(self) -> RunConfig:
        if self.preset and self.preset not in PRESETS:
            raise ValueError(
                f"unknown preset {self.preset!r}; there are {', '.join(sorted(PRESETS))}"
            )
        if self.kernel and self.task:
            raise ValueError("give a task or a kernel file, not both")
        if self.kernel and not self.reference:
            raise ValueError("a kernel file needs --reference FILE")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only flags and environment here; TOML comes in below them through `load`."""
        toml = _TomlSource(settings_cls)
        given = (init_settings, env_settings, toml)
        return (*given, _PresetSource(settings_cls, given))

    @classmethod
    def load(cls, toml: Path | None = None, **flags: Any) -> RunConfig:
        """Build the settings from a TOML file, the environment and flags that are not None.

        Raises:
            ConfigError: the file can't be read, a key is unknown or a value is out of range; the
                message names the key.
        """
        _TomlSource.values = _read_toml(toml) if toml is not None else {}
        try:
            return cls(**{key: value for key, value in flags.items() if value is not None})
        except ValidationError as error:
            raise ConfigError(_first_line(error, toml)) from error
        finally:
            _TomlSource.values = {}

    def to_toml(self) -> str:
        """The settings as TOML that `load` reads back to an equal object."""
        lines = []
        for key, value in self.model_dump().items():
            if value is None:
                continue
            if isinstance(value, bool):
                text = str(value).lower()
            elif isinstance(value, str):
                text = _toml_string(value)
            else:
                text = repr(value)
            lines.append(f"{key} = {text}")
        return "\n".join(lines) + "\n"


class _TomlSource(PydanticBaseSettingsSource):
    """Values of the TOML file that is being loaded; below flags and environment."""

    values: ClassVar[dict[str, Any]] = {}

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(self.values)


class _PresetSource(PydanticBaseSettingsSource):
    """Values of the preset that one of the other sources names; below them all."""

    def __init__(
        self, settings_cls: type[BaseSettings], given: Sequence[PydanticBaseSettingsSource]
    ) -> None:
        super().__init__(settings_cls)
        self._given = given

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        named = (str(source().get("preset", "")) for source in self._given)
        return dict(PRESETS.get(next((name for name in named if name), ""), {}))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _toml_string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    escaped = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{escaped}"'


def _first_line(error: ValidationError, toml: Path | None) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    where = f" in {toml}" if toml is not None else ""
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{where}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key}{where}: {message}" if key else f"{message}{where}"
