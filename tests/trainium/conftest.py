"""A machine with the stand-in SDK, and the backend on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures" / "fake_neuron"))

from devices_under_test import QUICK
from fake_neuron import FakeNeuron, FakeNeuronUnavailable

from accelopt.trainium import TRN1
from accelopt_trainium import cores
from accelopt_trainium.backend import TrainiumBackend


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Machines by kind, each built once."""
    machines = {}

    def build(**kind):
        key = str(sorted(kind.items()))
        if key not in machines:
            try:
                machines[key] = FakeNeuron.build(tmp_path_factory.mktemp("machine") / "m", **kind)
            except FakeNeuronUnavailable as error:
                pytest.skip(str(error))
        return machines[key]

    return build


@pytest.fixture
def machine(built, monkeypatch, tmp_path):
    """Put this test on a machine of some kind; it behaves."""

    def use(**kind):
        fake = built(**kind)
        fake.misbehave()
        fake.clear_log()
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(cores, "lock_folder", lambda: tmp_path / "cores")
        return fake

    return use


@pytest.fixture
def backend():
    """Make a backend; all are closed afterwards."""
    made = []

    def make(device=TRN1, protocol=QUICK, timeout_s=60.0):
        backend = TrainiumBackend(device, protocol=protocol)
        backend.configure(evaluation_timeout_s=timeout_s, workers=0)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.close()
