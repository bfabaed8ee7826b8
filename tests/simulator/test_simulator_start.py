"""How the simulator's processes start: light, and the judge beside the first trace."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from accelopt.evaluation import ALL_STAGES, EvaluationStatus
from accelopt.kernel import KernelSource
from accelopt.plugins import installed
from accelopt_simulator.backend import SimulatorBackend
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.process.judges import JudgePool


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("accelopt_simulator.backend", ["numba", "scipy", "accelopt_simulator.judge"]),
        ("accelopt_simulator.process.judge_main", ["scipy.special", "numpy.f2py"]),
        ("accelopt_simulator.process.worker_main", ["numba", "scipy", "numpy.f2py", "pydantic"]),
    ],
)
def test_a_process_loads_only_what_it_needs(module, forbidden):
    code = f"import sys, {module}; print([n for n in {forbidden!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.fixture
def started(monkeypatch):
    """The threads that started a judge, in their order."""
    start, threads = JudgePool._start, []

    def remember(self):
        threads.append(threading.current_thread())
        return start(self)

    monkeypatch.setattr(JudgePool, "_start", remember)
    return threads


@pytest.fixture
def backend():
    made = SimulatorBackend("sim-started", TRN1, TRN1_TIMING, judges=2)
    yield made
    made.close()


def test_the_first_judge_starts_before_the_first_trace_and_is_the_one_that_judges(started, backend):
    task = installed().task("nkibench/silu@small")
    broken = KernelSource(text=task.baseline.text.replace("  return v2", "  nl.nothing()"))
    failed = backend.evaluate(task, broken, stages=ALL_STAGES)
    assert failed.status is EvaluationStatus.LOAD_ERROR
    assert len(started) == 1
    assert backend.evaluate(task, task.baseline, seeds=(0,)).ok
    assert len(started) == 1


def test_a_source_that_the_screen_refuses_starts_no_judge(started, backend):
    task = installed().task("nkibench/silu@small")
    hostile = KernelSource(text=task.baseline.text.replace("  return v2", "  import os"))
    assert backend.evaluate(task, hostile).status is EvaluationStatus.REJECTED
    assert started == []


def test_preparing_waits_for_nobody_when_all_judges_are_asked(tmp_path, started):
    pool = JudgePool(TRN1, TRN1_TIMING, tmp_path, size=1, wall_s=60.0, key=b"k")
    try:
        taken = pool._slots.get()
        pool.prepare()
        assert started == []
        pool._slots.put(taken)
        pool.prepare()
        assert started == []
    finally:
        pool.close()
