"""Registers the simulator backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelopt import Backend, hookimpl


def _trn1() -> Backend:
    from accelopt_simulator.backend import SimulatorBackend
    from accelopt_simulator.hardware import TRN1, TRN1_TIMING

    return SimulatorBackend("sim-trn1", TRN1, TRN1_TIMING)


def _trn2() -> Backend:
    from accelopt_simulator.backend import SimulatorBackend
    from accelopt_simulator.hardware import TRN2, TRN2_TIMING

    return SimulatorBackend("sim-trn2", TRN2, TRN2_TIMING)


@hookimpl
def register_commands(register: Callable[[str, Callable[..., Any]], None]) -> None:
    """`accelopt trace`."""
    from accelopt_simulator.commands import trace

    register("trace", trace)


@hookimpl
def register_backends(register: Callable[[str, Callable[[], Backend]], None]) -> None:
    """`sim-trn1` and `sim-trn2`."""
    register("sim-trn1", _trn1)
    register("sim-trn2", _trn2)
