"""What `accelopt doctor` looks at: this installation, and whatever plugins know to check.

A check looks and reports; it never raises and never changes anything. Plugins contribute theirs
through the hook `register_checks`. What is not there for everybody, a device or the server of a
model, is looked at when it is asked for.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from accelopt import paths
from accelopt.errors import AcceloptError
from accelopt.plugins import BLOCK_VARIABLE
from accelopt.secrets import redact

CORE = "installation"
"""Group of the checks made here."""

LOW_SPACE_BYTES = 1 << 30
LEAST_PYTHON = (3, 11)
PACKAGES = (
    "accelopt",
    "numpy",
    "ml_dtypes",
    "numba",
    "langgraph",
    "langchain-core",
    "langchain-openai",
    "chromadb",
    "pluggy",
    "pydantic",
)

State = Literal["ok", "warn", "fail"]


class Check(BaseModel):
    """One finding.

    Attributes:
        name: what was looked at.
        state: `ok`; `warn`: works, with less than it could; `fail`: does not work.
        detail: what was found.
        fix: what a person can do about it; empty when there is nothing to do. What fails has one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    state: State
    detail: str
    fix: str = ""


Group = Callable[[], list[Check]]
"""Makes the checks of one group."""

_NO_MODEL = Check(
    name="model endpoint", state="ok", detail="not asked for: accelopt doctor --model NAME"
)


MODEL_NOT_TRIED = Check(
    name="endpoint",
    state="ok",
    detail="not tried: the provider has no way to do it without a paid call",
)
"""Of a model that could be made, and whose provider can say no more."""


def run_checks(groups: Mapping[str, Group], *, model_asked: bool = False) -> dict[str, list[Check]]:
    """The findings of this installation and of every group, by group.

    A group whose function raises gets one failed check that says so. No finding shows a key.

    Args:
        groups: those of the plugins, and of the devices and models that a person named.
        model_asked: whether a model is among them; else the first group says how to ask.
    """
    found = {CORE: installation() + ([] if model_asked else [_NO_MODEL])}
    for name, checks in groups.items():
        found[name] = [_without_secrets(check) for check in _findings(name, checks)]
    return found


def _findings(name: str, checks: Group) -> list[Check]:
    try:
        return checks()
    except AcceloptError as error:
        fix = error.hint or "put that right, then run accelopt doctor again"
        return [Check(name=name, state="fail", detail=error.message, fix=fix)]
    except Exception as error:  # noqa: BLE001 - a broken check is a finding, not a crash
        return [
            Check(
                name=name,
                state="fail",
                detail=f"the check itself failed: {type(error).__name__}: {error}",
                fix="report it to the plugin's authors (accelopt plugins lists the plugins), or"
                f" block the plugin with {BLOCK_VARIABLE}",
            )
        ]


def _without_secrets(check: Check) -> Check:
    return check.model_copy(update={"detail": redact(check.detail), "fix": redact(check.fix)})


def installation() -> list[Check]:
    """Python, packages, the data folder and the space on its disk."""
    return [_python(), _packages(), _data_folder(), _space()]


def _python() -> Check:
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] < LEAST_PYTHON:
        return Check(
            name="python",
            state="fail",
            detail=detail,
            fix=f"install Python {'.'.join(map(str, LEAST_PYTHON))} or newer",
        )
    return Check(name="python", state="ok", detail=detail)


def _packages() -> Check:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check(
            name="packages",
            state="fail",
            detail=f"not installed: {', '.join(missing)}",
            fix="install accelopt with its dependencies",
        )
    return Check(name="packages", state="ok", detail=", ".join(found))


def _data_folder() -> Check:
    folder = paths.user_data_dir()
    existing = nearest_existing(folder)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Check(
            name="data folder",
            state="fail",
            detail=f"{folder} can't be written",
            fix=f"make it writable, or set {paths.HOME_VARIABLE} to another folder",
        )
    made = "" if folder.exists() else ", made when it is first needed"
    return Check(name="data folder", state="ok", detail=f"{folder}{made}")


def _space() -> Check:
    free = shutil.disk_usage(nearest_existing(paths.user_data_dir())).free
    detail = f"{free / (1 << 30):.1f} GiB free"
    if free < LOW_SPACE_BYTES:
        return Check(
            name="disk space", state="warn", detail=detail, fix="runs may need some hundred MiB"
        )
    return Check(name="disk space", state="ok", detail=detail)


def nearest_existing(folder: Path) -> Path:
    """The folder, or the one above it that exists."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())
