"""How far candidates are kept apart from the machine: the levels, and which one is used.

`process` is what one process can give up by itself; `bwrap` is the same inside bubblewrap's
namespaces, where the machine's files, processes and network are not there to begin with.
"""

from __future__ import annotations

import os
from enum import StrEnum

from accelopt.errors import BackendUnavailableError, ConfigError
from accelopt_simulator.process import bwrap

VARIABLE = "ACCELOPT_ISOLATION"
"""Environment variable: `auto` (the strongest that works here), or a level."""
AUTO = "auto"


class Level(StrEnum):
    """Isolation levels, weakest first."""

    PROCESS = "process"
    BWRAP = "bwrap"


def choose() -> Level:
    """The level to use: the one asked for, else the strongest that works here.

    Raises:
        ConfigError: the variable holds something else.
        BackendUnavailableError: the level asked for does not work here.
    """
    asked = os.environ.get(VARIABLE, "").strip() or AUTO
    if asked not in (AUTO, *Level):
        raise ConfigError(
            f"{VARIABLE}={asked!r} is not an isolation level", hint=f"one of {names()}"
        )
    if asked == Level.PROCESS:
        return Level.PROCESS
    problem = bwrap.problem()
    if not problem:
        return Level.BWRAP
    if asked == Level.BWRAP:
        raise BackendUnavailableError(
            f"the isolation level 'bwrap' does not work here: {problem}",
            hint=f"{VARIABLE}=auto takes the strongest that does",
        )
    return Level.PROCESS


def names() -> str:
    """Everything the variable may hold, for people."""
    return ", ".join((AUTO, *Level))
