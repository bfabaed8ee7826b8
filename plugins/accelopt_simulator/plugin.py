"""Registers the simulator backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accelopt import Backend, hookimpl

if TYPE_CHECKING:
    from accelopt.doctor import Check


def _trn1() -> Backend:
    from accelopt_simulator.backend import SimulatorBackend
    from accelopt_simulator.hardware import TRN1
    from accelopt_simulator.latency.calibration import timing_for

    return SimulatorBackend("sim-trn1", TRN1, timing_for("trn1"))


def _trn2() -> Backend:
    from accelopt_simulator.backend import SimulatorBackend
    from accelopt_simulator.hardware import TRN2
    from accelopt_simulator.latency.calibration import timing_for

    return SimulatorBackend("sim-trn2", TRN2, timing_for("trn2"))


@hookimpl
def register_commands(register: Callable[[str, Callable[..., Any]], None]) -> None:
    """`accelopt trace`, `profile`, `timeline` and `calibrate`."""
    from accelopt_simulator.calibrate_command import calibrate
    from accelopt_simulator.commands import trace
    from accelopt_simulator.profile_commands import profile, timeline

    register("trace", trace)
    register("profile", profile)
    register("timeline", timeline)
    register("calibrate", calibrate)


@hookimpl
def register_backends(register: Callable[[str, Callable[[], Backend]], None]) -> None:
    """`sim-trn1` and `sim-trn2`."""
    register("sim-trn1", _trn1)
    register("sim-trn2", _trn2)


@hookimpl
def register_checks(register: Callable[[str, Callable[[], list[Check]]], None]) -> None:
    """How candidates are kept apart from the machine, tried out."""
    register("worker isolation", _worker_isolation)


def _worker_isolation() -> list[Check]:
    from accelopt_simulator.process.checks import worker_isolation

    return worker_isolation()
