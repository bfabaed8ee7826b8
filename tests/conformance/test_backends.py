"""Every registered backend passes the kit, and the kit finds each fault."""

from __future__ import annotations

import pytest

from accelopt import Capability, Evaluation, EvaluationStatus
from accelopt.kernel import KernelSource
from accelopt.plugins import installed
from accelopt.testing import (
    ConformanceSample,
    DummyBackend,
    check_backend,
    dummy_kernel,
    dummy_task,
)

# The second target of the simulator differs in its figures only.
BACKENDS = [
    pytest.param(name, marks=pytest.mark.slow) if name == "sim-trn2" else name
    for name in sorted(installed().backends)
]


@pytest.mark.parametrize("name", BACKENDS)
def test_registered_backend_conforms(name):
    backend = installed().backend(name)
    if backend.unavailable():
        pytest.skip(backend.unavailable())
    check_backend(lambda: installed().backend(name)).raise_if_failed()


def dummy_sample() -> ConformanceSample:
    broken = KernelSource(text="# status: load_error\n# rule: no_kernel\n# message: no\n")
    return ConformanceSample(
        task=dummy_task(),
        good=KernelSource(text=dummy_kernel(latency_us=100)),
        wrong=KernelSource(text=dummy_kernel(latency_us=100, status="incorrect")),
        broken={"has no kernel": broken},
    )


def test_the_dummy_backend_conforms():
    check_backend(DummyBackend, dummy_sample()).raise_if_failed()


class Raises(DummyBackend):
    def _run(self, task, source, stages, seeds):
        result = super()._run(task, source, stages, seeds)
        if result.status is EvaluationStatus.LOAD_ERROR:
            raise ValueError("a bad kernel")
        return result


class AcceptsAnything(DummyBackend):
    def _run(self, task, source, stages, seeds):
        return super()._run(task, KernelSource(text=dummy_kernel(latency_us=1)), stages, seeds)


class IgnoresSeeds(DummyBackend):
    def _run(self, task, source, stages, seeds):
        return super()._run(task, source, stages, task.seeds if seeds else ())


class NoLatency(DummyBackend):
    def _run(self, task, source, stages, seeds) -> Evaluation:
        return super()._run(task, source, stages, seeds).model_copy(update={"latency_us": None})


class Incapable(DummyBackend):
    capabilities = frozenset({Capability.LOAD})


class ClosesOnce(DummyBackend):
    closed = False

    def close(self):
        if self.closed and not getattr(self, "told", False):
            self.told = True
            raise RuntimeError("closed already")
        self.closed = True


FAULTS = {
    Raises: "turns every bad kernel into a result, never an exception",
    AcceptsAnything: "finds a kernel that computes something else incorrect",
    IgnoresSeeds: "compares on the seeds it is given",
    NoLatency: "accepts a good kernel on every seed, with a latency",
    Incapable: "describes itself and its device",
    ClosesOnce: "can be closed twice",
}


@pytest.mark.parametrize("faulty", FAULTS, ids=lambda cls: cls.__name__)
def test_the_kit_finds_the_fault(faulty):
    report = check_backend(faulty, dummy_sample())
    failed = {result.name for result in report.results if not result.ok}
    assert FAULTS[faulty] in failed
    assert not report.ok
    with pytest.raises(AssertionError, match="does not conform"):
        report.raise_if_failed()


def test_a_claimed_capability_is_checked_and_an_unclaimed_one_skipped():
    class Plain(DummyBackend):
        capabilities = DummyBackend.capabilities - {Capability.COUNTERS}

    by_name = {result.name: result for result in check_backend(Plain, dummy_sample()).results}
    assert by_name["reports profiler counters"].skipped
    assert not by_name["estimates latency without numbers"].skipped
