"""Registers the backends of real chips. Nothing of the vendor's is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accelopt import Backend, hookimpl

if TYPE_CHECKING:
    from accelopt.doctor import Check


def _trn1() -> Backend:
    from accelopt.trainium import TRN1
    from accelopt_trainium.backend import TrainiumBackend

    return TrainiumBackend(TRN1)


def _trn2() -> Backend:
    from accelopt.trainium import TRN2
    from accelopt_trainium.backend import TrainiumBackend

    return TrainiumBackend(TRN2)


@hookimpl
def register_backends(register: Callable[[str, Callable[[], Backend]], None]) -> None:
    """`trn1` and `trn2`."""
    register("trn1", _trn1)
    register("trn2", _trn2)


@hookimpl
def register_checks(register: Callable[[str, Callable[[], list[Check]]], None]) -> None:
    """What is installed of the Neuron SDK; missing parts are no failure unless asked for."""
    register("Neuron SDK", _neuron_sdk)


def _neuron_sdk() -> list[Check]:
    from accelopt_trainium.sdk_checks import installed_parts

    return installed_parts()
