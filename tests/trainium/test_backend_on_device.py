"""Kernels on the stand-in: right passes, wrong is a result, what is broken is said."""

from __future__ import annotations

import pytest
from devices_under_test import DEVICES

from accelopt.errors import AcceloptError
from accelopt.evaluation import ESTIMATE_STAGES, EvaluationStatus, Stage
from accelopt.kernel import Dialect
from accelopt.testing.samples import nki_sample
from accelopt.trainium import TRN2
from accelopt_trainium.known_kernels import fast_kernel, known_task, slow_kernel

SAMPLE = nki_sample()


def evaluate(backend, source=SAMPLE.good, **how):
    return backend.evaluate(SAMPLE.task, source, **how)


def test_a_good_kernel_is_right_measured_and_explained(machine, backend):
    fake = machine(sdk="2.26")
    result = evaluate(backend())
    assert result.correct
    assert [seed.seed for seed in result.seeds] == list(SAMPLE.task.seeds)
    assert [check.name for check in result.checks] == ["fresh"]
    # The figure is the stand-in's simulator's, with its noise.
    assert result.latency_us == pytest.approx(92.1, rel=0.01)
    assert result.profile.hbm_read_bytes == 256 * 512 * 4
    assert result.profile.other["total_time"] == pytest.approx(result.latency_us * 1e-6, rel=0.01)
    assert "mean of 3 profiled launches" in result.notes[0]
    assert "neuronxcc.nki.baremetal of neuronx-cc 2.21" in result.notes[1]
    executed = [entry for entry in fake.log() if entry["event"] == "execute"]
    # Two seeds and one fresh check, then two warm-ups before three profiled launches.
    assert [entry["profiled"] for entry in executed] == [False] * 5 + [True] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("generation", "sdk", "pair"),
    [("trn1", "2.29", "nki 0.3.0 with neuronx-cc 2.24"), ("trn2", "2.32", "nki 0.6.0")],
)
def test_the_current_dialect_is_loaded_run_and_measured(machine, backend, generation, sdk, pair):
    machine(generation=generation, sdk=sdk)
    judge = backend(DEVICES[generation])
    task, kernel = known_task(Dialect.NKI), fast_kernel(Dialect.NKI)
    result = judge.evaluate(task, kernel)
    assert result.correct, result.diagnostics
    assert result.latency_us > 40
    assert pair in result.notes[1]
    assert "don't cover the dialect nki" in judge.description
    # One fault apart: the same kernel that adds something else.
    wrong = kernel.model_copy(update={"text": kernel.text.replace("operand1=1.0", "operand1=1.5")})
    assert judge.evaluate(task, wrong).status is EvaluationStatus.INCORRECT
    legacy = evaluate(judge)
    assert legacy.status is EvaluationStatus.LOAD_ERROR
    assert legacy.diagnostics[0].rule == "unsupported_dialect"


def test_a_wrong_kernel_is_not_timed(machine, backend):
    fake = machine(sdk="2.26")
    result = evaluate(backend(), SAMPLE.wrong)
    assert result.status is EvaluationStatus.INCORRECT
    assert result.latency_us is None
    assert not [entry for entry in fake.log() if entry.get("profiled")]


@pytest.mark.parametrize("prescreen", ["on", pytest.param("off", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", sorted(SAMPLE.broken))
def test_a_broken_kernel_is_a_result_with_the_line(machine, backend, monkeypatch, prescreen, fault):
    machine(sdk="2.26")
    if prescreen == "off":
        monkeypatch.setenv("ACCELOPT_PRESCREEN", "off")
    result = evaluate(backend(), SAMPLE.broken[fault])
    lines = {
        "raises": (EvaluationStatus.LOAD_ERROR, 10),
        "reads out of bounds": (EvaluationStatus.CONSTRAINT_VIOLATION, 13),
        "never writes its output": (EvaluationStatus.CONSTRAINT_VIOLATION, 9),
    }
    status, line = lines.get(fault, (EvaluationStatus.LOAD_ERROR, None))
    assert (result.status, result.diagnostics[0].line) == (status, line)


RESULTS = {
    "zeros": ({"zeros": True}, "incorrect", "incorrect_result"),
    "nan": ({"outputs": "nan"}, "incorrect", "incorrect_result"),
    "ended with an error": ({"execute_status": 1004}, "incorrect", "nrt_exec_completed_with_err"),
    "out of bounds": (
        {"execute_status": 1006}, "constraint_violation", "err_tensor_access_out_of_bound",
    ),
    "runtime timeout": ({"execute_status": 5}, "timeout", "device_timeout"),
    "no device memory": ({"load_status": 4}, "out_of_memory", "device_memory"),
    "compiler crash": ({"compile": "crash"}, "constraint_violation", "F134"),
    "no program": ({"compile": "no_neff"}, "load_error", "compiler_wants_device"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_misbehaviour_that_a_kernel_can_cause_is_a_result(machine, backend, name):
    what, status, rule = RESULTS[name]
    fake = machine(sdk="2.26")
    fake.misbehave(**what)
    judge = backend()
    result = evaluate(judge)
    assert (result.status.value, result.diagnostics[0].rule) == (status, rule)
    # The next one works.
    fake.misbehave()
    assert evaluate(judge).correct


BROKEN = {
    "garbage": ({"summary": "garbage"}, "printed no summary"),
    "nothing": ({"summary": "empty"}, "printed no summary"),
    "an error": ({"summary": "exit"}, "ended with code 3"),
    "no time": ({"summary": "missing:total_time"}, "no total_time"),
    "null time": ({"summary": "null:total_time"}, "no total_time"),
    "no profile": ({"profile": "no_file"}, "wrote no profile"),
    "hardware error": ({"execute_status": 6}, "NRT_HW_ERROR"),
    "other release": ({"load_status": 10}, "does not take what the compiler made"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_device_is_one_line_with_a_way_out(machine, backend, name):
    what, words = BROKEN[name]
    fake = machine(sdk="2.26")
    fake.misbehave(**what)
    judge = backend()
    with pytest.raises(AcceloptError) as caught:
        evaluate(judge)
    assert words in caught.value.message
    assert caught.value.hint
    fake.misbehave()
    assert evaluate(judge).correct


@pytest.mark.slow
def test_a_kernel_that_makes_the_device_fail_is_a_result_once_the_device_is_seen_to_work(
    machine, backend, monkeypatch
):
    fake = machine(sdk="2.26")
    fake.misbehave(execute_status=6)
    judge = backend()
    asked = judge._still_works

    def with_another_kernel(*arguments):
        fake.misbehave()
        return asked(*arguments)

    monkeypatch.setattr(judge, "_still_works", with_another_kernel)
    result = evaluate(judge)
    assert (result.status.value, result.diagnostics[0].rule) == ("incorrect", "device_error")
    assert "NRT_HW_ERROR" in result.diagnostics[0].message


@pytest.mark.slow
@pytest.mark.parametrize("where", ["execute", "load", "compile"])
def test_what_hangs_ends_at_the_limit_and_frees_the_core(machine, backend, where):
    fake = machine(sdk="2.26")
    judge = backend(timeout_s=6.0)
    assert evaluate(judge).correct
    fake.misbehave(hang=where)
    result = evaluate(judge)
    assert result.status is EvaluationStatus.TIMEOUT
    assert result.elapsed_s < 20
    fake.misbehave()
    assert evaluate(judge).correct


@pytest.mark.slow
def test_a_profiler_that_hangs_is_broken(machine, backend):
    fake = machine(sdk="2.26")
    judge = backend(timeout_s=8.0)
    assert evaluate(judge).correct
    fake.misbehave(hang="view")
    with pytest.raises(AcceloptError, match="did not end within"):
        evaluate(judge)


@pytest.mark.slow
def test_a_core_in_other_hands_is_passed_over_and_waited_for(machine, backend):
    fake = machine(sdk="2.26", cores=2)
    fake.misbehave(busy=[0])
    assert "core 1" in evaluate(backend()).notes[0]
    fake.misbehave(busy_times=3)
    assert evaluate(backend()).correct
    fake.misbehave(busy=[0, 1])
    with pytest.raises(AcceloptError, match="so is every other core"):
        evaluate(backend(timeout_s=4.0))


@pytest.mark.slow
def test_a_noisy_round_is_repeated_and_the_steadiest_counts(machine, backend):
    fake = machine(sdk="2.26")
    fake.misbehave(noise=0.2, noise_times=3)
    result = evaluate(backend())
    assert "the steadiest of 2 rounds" in result.notes[0]
    assert result.latency_us == pytest.approx(92.1, rel=0.01)
    fake.misbehave(noise=0.2)
    result = evaluate(backend())
    assert "the steadiest of 3 rounds; above the 1 % that the protocol asks for" in result.notes[0]


@pytest.mark.slow
def test_counters_that_are_missing_are_said(machine, backend):
    fake = machine(sdk="2.26")
    fake.misbehave(summary="missing:hbm_read_bytes")
    result = evaluate(backend())
    assert result.correct
    assert result.profile.hbm_read_bytes is None
    assert "the profiler did not report hbm_read_bytes" in result.notes


@pytest.mark.slow
def test_stages_that_are_not_asked_for_are_not_taken(machine, backend):
    fake = machine(sdk="2.26")
    judge = backend()
    assert judge.screen(SAMPLE.task, SAMPLE.good).ok
    assert not [entry for entry in fake.log() if entry["event"] == "execute"]
    timed = evaluate(judge, stages=ESTIMATE_STAGES, seeds=())
    assert timed.latency_us
    assert not timed.seeds
    right = evaluate(judge, stages=frozenset({Stage.LOAD, Stage.CORRECTNESS}))
    assert right.seeds
    assert right.latency_us is None


@pytest.mark.slow
def test_two_kernels_are_compared_by_fresh_programs_in_turns(machine, backend):
    fake = machine(sdk="2.26")
    task = known_task(Dialect.NEURONXCC_NKI)
    found = backend().compare(
        task, slow_kernel(Dialect.NEURONXCC_NKI), fast_kernel(Dialect.NEURONXCC_NKI)
    )
    assert found.outcome.value == "faster"
    assert found.measured
    assert found.ratio == pytest.approx(8.7, rel=0.02)
    assert len([entry for entry in fake.log() if entry["event"] == "load"]) == 2
    same = backend().compare(task, task.baseline, task.baseline)
    assert same.outcome.value == "tie"


def test_a_machine_of_the_other_generation_is_refused(machine, backend):
    machine(sdk="2.26")
    assert backend().unavailable() == ""
    words = backend(TRN2).unavailable()
    assert "is trn1, not trn2" in words
    assert "sim-trn2" in words
