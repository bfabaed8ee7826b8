"""What `accelopt doctor` looks at: this installation, and whatever plugins know to check.

A check looks and reports; it never raises and never changes anything. Plugins contribute theirs
through the hook `register_checks`.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from accelopt import paths
from accelopt.errors import AcceloptError

CORE = "installation"
"""Group of the checks made here."""

LOW_SPACE_BYTES = 1 << 30
PACKAGES = ("accelopt", "numpy", "ml_dtypes", "numba", "langgraph", "langchain-core", "chromadb")

State = Literal["ok", "warn", "fail"]


class Check(BaseModel):
    """One finding.

    Attributes:
        name: what was looked at.
        state: `ok`; `warn`: works, with less than it could; `fail`: does not work.
        detail: what was found.
        fix: what a person can do about it; empty when there is nothing to do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    state: State
    detail: str
    fix: str = ""


def run_checks(groups: Mapping[str, Callable[[], list[Check]]]) -> dict[str, list[Check]]:
    """The findings of this installation and of every plugin, by group.

    A group whose function raises gets one failed check that says so.
    """
    found = {CORE: installation()}
    for name, checks in groups.items():
        try:
            found[name] = checks()
        except AcceloptError as error:
            found[name] = [Check(name=name, state="fail", detail=error.message, fix=error.hint)]
        except Exception as error:  # noqa: BLE001 - a broken check is a finding, not a crash
            detail = f"the check itself failed: {type(error).__name__}: {error}"
            found[name] = [Check(name=name, state="fail", detail=detail)]
    return found


def installation() -> list[Check]:
    """Python, packages, the data folder and the space on its disk."""
    return [_python(), _packages(), _data_folder(), _space()]


def _python() -> Check:
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
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
    existing = _nearest(folder)
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
    free = shutil.disk_usage(_nearest(paths.user_data_dir())).free
    detail = f"{free / (1 << 30):.1f} GiB free"
    if free < LOW_SPACE_BYTES:
        return Check(
            name="disk space", state="warn", detail=detail, fix="runs may need some hundred MiB"
        )
    return Check(name="disk space", state="ok", detail=detail)


def _nearest(folder: Path) -> Path:
    """The folder, or the one above it that exists."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())
