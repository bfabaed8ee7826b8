"""The same kernels through the backend, with nothing screened: each is an evaluation in time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from harmful_kernels import HARMFUL
from surroundings import EXTRA_S, SECRET, SHORT_WALL_S, cases

from accelopt import KernelSource
from accelopt.evaluation import EvaluationStatus
from accelopt.plugins import installed
from accelopt_simulator.backend import SimulatorBackend
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.process.worker import WorkerLimits
from accelopt_simulator.requests import request_for

# Most of the table ends in one of these ways; each way about once.
SAMPLE = [
    "fork bomb", "memory bomb in one piece", "infinite loop in C code", "kills the server",
    "reads a secret", "reads the environment", "garbage into every descriptor",
    "a message with nested diagnostics", "closes its pipe and stays", "child in a new session",
    "leaves by os._exit", "crashes", "raises a strange exception",
]  # fmt: skip


@pytest.fixture(scope="module")
def task():
    return installed().task("nkibench/silu@small")


@pytest.fixture(scope="module")
def backend():
    limits = WorkerLimits(wall_s=SHORT_WALL_S, memory_bytes=1 << 30)
    backend = SimulatorBackend("sim-harm", TRN1, TRN1_TIMING, limits=limits, judges=1)
    yield backend
    backend.close()


@pytest.fixture
def unscreened(monkeypatch):
    """Neither the screen nor the sandbox of the front end."""
    monkeypatch.setattr("accelopt_simulator.backend.screen_source", lambda *a, **k: [])
    monkeypatch.setattr(
        "accelopt_simulator.backend.request_for",
        lambda task, source: replace(request_for(task, source), guarded=False),
    )


def evaluate(backend, task, text):
    start = time.monotonic()
    found = backend.evaluate(task, KernelSource(text=text, entry="kernel"))
    return found, time.monotonic() - start


@cases([h for h in HARMFUL if h.name in SAMPLE])
def test_a_harmful_kernel_is_an_evaluation(backend, task, world, unscreened, harm):
    backend._start()[0].server.measures()  # started
    found, seconds = evaluate(backend, task, harm.source(**world.names))
    assert found.status in harm.ends, found.diagnostics
    assert found.status is not EvaluationStatus.OK
    assert found.diagnostics
    assert seconds < SHORT_WALL_S + EXTRA_S
    assert SECRET not in found.model_dump_json()
    world.check_untouched()


@pytest.mark.slow
@cases([h for h in HARMFUL if h.name not in SAMPLE])
def test_every_other_one_is_an_evaluation_as_well(backend, task, world, unscreened, harm):
    test_a_harmful_kernel_is_an_evaluation(backend, task, world, unscreened, harm)


def test_the_sample_is_of_the_table():
    assert set(SAMPLE) <= {harm.name for harm in HARMFUL}


def test_the_next_honest_evaluation_works(backend, task):
    found = backend.evaluate(task, task.baseline)
    assert found.status is EvaluationStatus.OK, found.diagnostics
    assert all(seed.ok for seed in found.seeds)
