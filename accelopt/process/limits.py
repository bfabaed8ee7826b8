"""Limits a process puts on itself before it touches anything it does not trust."""

from __future__ import annotations

import contextlib
import resource

from accelopt.process import landlock, linux


def limit(kind: int, value: int) -> None:
    """Lower one resource limit for good; a limit that is already lower stays."""
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def confine_judge(*, memory_bytes: int) -> None:
    """A judge runs our code and the user's reference on data it does not trust.

    It reads files and may compile, so it keeps its user and its files. It loses the network and
    signals to other processes where Landlock can take them, and ends with the process it serves.
    """
    linux.die_with_parent()
    limit(resource.RLIMIT_AS, memory_bytes)
    limit(resource.RLIMIT_CORE, 0)
    with contextlib.suppress(OSError):
        linux.gain_no_rights()
        landlock.restrict(files=False)
