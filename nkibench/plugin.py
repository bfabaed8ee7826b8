"""Registers the benchmark suite."""

from __future__ import annotations

from collections.abc import Callable

from accelopt import Suite, hookimpl
from nkibench.loader import SUITE
from nkibench.suite import suite


@hookimpl
def register_suites(register: Callable[[str, Suite], None]) -> None:
    """Hand over NKIBench's tasks and their reduced variants."""
    register(SUITE, suite())
