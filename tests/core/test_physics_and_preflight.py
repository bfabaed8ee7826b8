"""The physics gate, the vetting of every backend's words, and the pre-flight of tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelopt.evaluation import ALL_STAGES, Evaluation, EvaluationStatus, Profile, SeedResult
from accelopt.physics import compulsory_bytes, floor_us, violation
from accelopt.plugins import installed
from accelopt.preflight import check_task
from accelopt.testing.backend import DummyBackend, dummy_kernel, dummy_task
from accelopt.vetting import INPUTS_UNCHECKED, vetted

BIG = 1e9


@pytest.fixture(scope="module")
def device():
    return installed().backend("sim-trn1").device


def evaluation(latency_us, read=BIG, write=BIG, **changes):
    profile = Profile(latency_us=latency_us, hbm_read_bytes=read, hbm_write_bytes=write)
    return Evaluation(
        status=EvaluationStatus.OK, task="t", backend="b", source_sha256="0",
        latency_us=latency_us, profile=profile, trace_hash="h", **changes,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["silu", "matmul"])
def test_a_latency_below_the_floor_is_impossible_and_the_floor_is_not(name, device):
    task = installed().task(name)
    least_us, _ = floor_us(task, device)
    assert violation(task, device, evaluation(least_us)) is None
    finding = violation(task, device, evaluation(least_us * 0.999))
    assert finding is not None
    assert finding.rule == "impossible_latency"


def test_the_floor_is_bytes_or_matmul_and_never_the_vector_count(device):
    silu, matmul = installed().task("silu"), installed().task("matmul")
    assert floor_us(silu, device)[0] == pytest.approx(
        1e6 * silu.work.hbm_bytes / device.hbm_bandwidth_bytes_per_s
    )
    assert floor_us(matmul, device)[0] == pytest.approx(
        1e6 * matmul.work.matmul_flops / device.fp32_matmul_flops_per_s
    )
    vector = replace(silu, work=silu.work.model_copy(update={"vector_flops": 10**15}))
    assert floor_us(vector, device) == floor_us(silu, device)


def test_too_few_bytes_are_rejected(device):
    task = installed().task("silu")
    must = compulsory_bytes(task)
    enough = evaluation(1e6, must / 2, must / 2)
    assert violation(task, device, enough) is None
    finding = violation(task, device, evaluation(1e6, must / 2, must / 2 - 4))
    assert finding is not None
    assert finding.rule == "too_few_bytes"


def test_a_count_of_bytes_alone_binds_the_output_only(device):
    task = installed().task("silu@small")
    alone = replace(task, work=task.work.model_copy(update={"from_bytes_alone": True}))
    assert compulsory_bytes(alone) == 4 * 256 * 2048
    assert compulsory_bytes(task) == 8 * 256 * 2048


def test_nan_is_no_latency(device):
    task = installed().task("silu")
    assert violation(task, device, evaluation(float("nan"))) is not None


def test_a_backend_that_says_the_impossible_is_not_believed():
    task = dummy_task()
    backend = DummyBackend()
    source = task.baseline.model_copy(update={"text": dummy_kernel(1e-9)})
    result = backend.evaluate(task, source)
    assert result.status is EvaluationStatus.REJECTED
    assert result.diagnostics[0].rule == "impossible_latency"
    honest = backend.evaluate(task, task.baseline)
    assert honest.ok
    assert INPUTS_UNCHECKED in honest.notes


def test_without_a_trace_the_source_is_traced_elsewhere_for_its_precision(device):
    # A backend of a stranger's that sees no trace: the simulator looks at the types in its place.
    class Blind(DummyBackend):
        name = "blind"

    task = installed().task("silu@small")
    seen = Evaluation(
        status=EvaluationStatus.OK, task=task.name, backend="blind", source_sha256="0",
        latency_us=1e6, seeds=(SeedResult(seed=0, error=0.0, tolerance=2e-5, ok=True),),
    )  # fmt: skip
    backend = Blind()
    result = vetted(backend, task, task.baseline, seen, ALL_STAGES)
    assert result.ok
    assert not [note for note in result.notes if note.startswith("precision unchecked")]
    tile = "dtype=np.float32, buffer=nl.sbuf, name='y_tile'"
    low = task.baseline.text.replace(tile, tile.replace("np.float32", "nl.bfloat16"))
    assert low != task.baseline.text
    source = task.baseline.model_copy(update={"text": low})
    assert vetted(backend, task, source, seen, ALL_STAGES).status is EvaluationStatus.REJECTED
    unknown = task.baseline.model_copy(update={"text": "def kernel(x):\n    return x.anything\n"})
    notes = vetted(backend, task, unknown, seen, ALL_STAGES).notes
    assert [note for note in notes if note.startswith("precision unchecked")]


def test_every_nkibench_task_passes_the_pre_flight():
    for name in installed().task_names():
        if name.endswith(("@small", "@narrow")):
            report = check_task(installed().task(name))
            assert report.sound, (name, report.problem)
            assert {"zeros", "a constant", "a copy of input 0"} <= {
                r.kernel for r in report.results
            }


class _Degenerate:
    """A task whose answer is the same constant whatever comes in; or does come from the input."""

    def __init__(self, sound):
        self.sound = sound

    def inputs(self, seed):
        return [np.random.RandomState(seed).rand(8, 8).astype(np.float32)]

    def forward(self, inputs):
        scale = np.float32(1 if self.sound else 1e-12)
        return np.float32(1) + np.asarray(inputs[0]) * scale


def test_a_task_that_cannot_tell_is_unsound_and_its_twin_is_not():
    for sound in (True, False):
        report = check_task(replace(dummy_task(), reference=_Degenerate(sound)))
        assert report.sound is sound
    assert "a constant" in report.problem
    assert "its outputs shuffled" in report.problem
