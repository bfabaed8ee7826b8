"""What run.json and run.toml hold, and how they are read."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from accelopt.config import RunConfig
from accelopt.errors import AcceloptError, SchemaVersionError, StoreError

SCHEMA_VERSION = 2
RunStatus = Literal["created", "running", "interrupted", "stopped", "finished", "failed"]


class RunFile(BaseModel):
    """What run.json holds. Unknown keys are kept out, so a typo in code is found at once."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int
    run: str
    task: str
    backend: str
    status: RunStatus
    created: str
    iterations_done: int = 0
    baseline_latency_us: float | None = None
    best: str = ""
    best_latency_us: float | None = None
    message: str = ""
    result: dict[str, Any] | None = None
    elapsed_s: float = 0.0
    """Wall time of all its sessions."""
    forked_from: str = ""
    """Run that this one began as a copy of."""
    forked_at: int | None = None
    """Iteration after which the two part."""


class RunSummary(BaseModel):
    """One run in a line.

    Attributes:
        run: its id.
        task: task name.
        backend: backend name.
        status: `interrupted` means that its process died; that and `stopped` can be resumed.
        created: when, ISO 8601 in UTC.
        iterations: how many iterations are done.
        baseline_latency_us: of the starting kernel.
        best_latency_us: of the fastest correct kernel so far.
        speedup: baseline / best.
        evaluations: evaluations paid for.
        model_calls: model calls paid for.
        message: why it failed or stopped; usually empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    task: str
    backend: str
    status: RunStatus
    created: str
    iterations: int
    baseline_latency_us: float | None = None
    best_latency_us: float | None = None
    speedup: float | None = None
    evaluations: int = 0
    model_calls: int = 0
    message: str = ""


def read_run_file(path: Path) -> RunFile:
    """Read run.json of a run folder.

    Raises:
        StoreError: it is not there, or damaged.
        SchemaVersionError: a newer version of accelopt wrote it.
    """
    try:
        data = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not a run folder: it has no run.json") from error
    except OSError as error:
        raise StoreError(f"can't read {path / 'run.json'}: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path / 'run.json'} is damaged: {error}") from error
    found = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(found, int) and found > SCHEMA_VERSION:
        raise SchemaVersionError(str(path), found=found, supported=SCHEMA_VERSION)
    try:
        return RunFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path / 'run.json'} is damaged: {where}: {first['msg']}") from error


def read_config(path: Path) -> RunConfig:
    """Read run.toml of a run folder.

    Raises:
        StoreError: it is not there, or damaged.
    """
    # The environment must not change what a run was asked to do, so the file's values are passed as
    # flags, which win over everything.
    try:
        values = tomllib.loads((path / "run.toml").read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"can't read {path / 'run.toml'}: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path / 'run.toml'} is damaged: {error}") from error
    try:
        return RunConfig.load(None, **values)
    except AcceloptError as error:
        raise StoreError(f"{path / 'run.toml'} can't be used: {error.message}") from error
