"""A helper process that somebody kills or stops is no fault of the kernel it was busy with."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace

import pytest

from accelopt.evaluation import ALL_STAGES, EvaluationStatus
from accelopt.plugins import installed
from accelopt_simulator.backend import SimulatorBackend
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.process import server
from accelopt_simulator.process.isolation import Level
from accelopt_simulator.process.judges import JudgePool
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
from accelopt_simulator.requests import request_for

SIGNALS = [
    signal.SIGKILL,
    pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    pytest.param(signal.SIGSEGV, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def task():
    return installed().task("nkibench/silu@small")


@pytest.fixture
def backend():
    made = SimulatorBackend("sim-killed", TRN1, TRN1_TIMING, judges=1)
    yield made
    made.close()


@pytest.fixture
def killer(monkeypatch):
    """Kills so many judges just before they are asked; remembers who was asked."""
    ask = JudgePool._ask

    def install(count, number=signal.SIGKILL, before=lambda: None):
        asked = []

        def kill_and_ask(self, child, head, body):
            asked.append(child.process)
            if len(asked) <= count:
                before()
                with suppress(ProcessLookupError):
                    os.kill(child.process.pid, number)
            return ask(self, child, head, body)

        monkeypatch.setattr(JudgePool, "_ask", kill_and_ask)
        return asked

    return install


@pytest.mark.parametrize("number", SIGNALS)
def test_a_kernel_whose_judge_is_killed_is_judged_by_another(backend, task, killer, number):
    asked = killer(1, number)
    found = backend.evaluate(task, task.baseline)
    assert found.status is EvaluationStatus.OK, found.diagnostics
    assert found.correct
    assert [judge.poll() for judge in asked] == [-number, None]


def test_a_kernel_that_two_judges_end_over_asks_for_too_much(backend, task, killer):
    asked = killer(2)
    found = backend.evaluate(task, task.baseline)
    assert found.status is EvaluationStatus.OUT_OF_MEMORY
    assert found.diagnostics[0].rule == "memory_limit"
    assert len(asked) == 2
    assert backend.evaluate(task, task.baseline).correct


def test_two_judges_that_end_otherwise_are_our_own_fault(backend, task, killer):
    killer(2, signal.SIGTERM)
    with pytest.raises(RuntimeError, match="ended with code -15"):
        backend.evaluate(task, task.baseline)


def test_no_other_judge_is_started_once_the_backend_was_closed(backend, task, killer):
    asked = killer(1, before=lambda: backend._pool.close())
    with pytest.raises(OSError, match="the judges were closed"):
        backend.evaluate(task, task.baseline)
    assert len(asked) == 1
    assert asked[0].poll() is not None


def test_a_judge_that_was_stopped_is_given_up_in_time(backend, task):
    assert backend.evaluate(task, task.baseline).correct
    pool = backend._pool
    (judge,) = pool._children
    os.kill(judge.process.pid, signal.SIGSTOP)
    pool.wall_s = 0.5
    # More than fits into the pipe: nobody reads it.
    verdict = pool.judge(task, bytes(1 << 20), ALL_STAGES, task.seeds)
    assert verdict.status is EvaluationStatus.TIMEOUT
    assert judge.process.poll() == -signal.SIGKILL
    pool.wall_s = 60
    assert backend.evaluate(task, task.baseline).correct


def test_a_server_that_was_stopped_is_replaced(task, monkeypatch):
    monkeypatch.setattr(server, "SEND_S", 0.5)
    pool = WorkerPool(WorkerLimits(), level=Level.PROCESS)
    try:
        request = request_for(task, task.baseline)
        assert pool.trace(request).status == "ok"
        stopped = pool.server.process_id
        os.kill(stopped, signal.SIGSTOP)
        # More than fits into the socket.
        longer = replace(request, text=request.text + "\n# " + "x" * (1 << 20))
        assert pool.trace(longer).status == "ok"
        assert pool.server.process_id != stopped
    finally:
        pool.close()
