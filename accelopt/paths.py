"""Where a user's data lives, outside of any run folder."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

HOME_VARIABLE = "ACCELOPT_HOME"
"""Environment variable that replaces the user's data folder."""

DEFAULT_RUNS_DIR = Path("runs")
"""Run folders stand in the working directory, where a person looks for results."""


def user_data_dir() -> Path:
    """The user's data folder; `ACCELOPT_HOME` where that is set. It may not exist yet."""
    home = os.environ.get(HOME_VARIABLE, "")
    return Path(home).expanduser() if home else Path(platformdirs.user_data_dir("accelopt", False))


def memory_dir() -> Path:
    """Folder of the optimization memory that the user's runs share."""
    return user_data_dir() / "memory"


def evaluations_file() -> Path:
    """File of the evaluations that the user's runs share."""
    return user_data_dir() / "evaluations.sqlite"


def runs_dir() -> Path:
    """Folder that holds the run folders when none is named."""
    return DEFAULT_RUNS_DIR
