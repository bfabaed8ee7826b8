"""The judge on honest, wrong and hostile traces: always a verdict, soon, and never an exception."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulator_forgery import at, edited, sample_arrays, sample_trace
from simulator_kernels import traced, whole_kernel

from accelopt import KernelSource
from accelopt.evaluation import ALL_STAGES, EvaluationStatus, Stage
from accelopt.kernel import ArgumentSpec, KernelTask, Work
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.judge import Judge
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.trace.codec import encode
from accelopt_simulator.trace.schema import COLUMNS, TensorRole


class Reference:
    """Doubles its input; the other arguments do not matter."""

    def __init__(self, *shapes):
        self.shapes = shapes

    def inputs(self, seed):
        generator = np.random.default_rng(seed)
        return [generator.standard_normal(s).astype(np.float32) for s in self.shapes]

    def forward(self, inputs):
        return 2 * inputs[0]

    def kernel_inputs(self, inputs):
        return list(inputs)

    def natural_output(self, outputs, expected):
        return outputs[0].reshape(expected.shape)


def task_for(*shapes, tolerance=1e-5):
    return KernelTask(
        name="test/double",
        title="double",
        reference=Reference(*shapes),
        reference_source="",
        baseline=KernelSource(text=whole_kernel("def kernel(x):\n    pass")),
        arguments=tuple(ArgumentSpec(shape=s) for s in shapes),
        output_shape=shapes[0],
        relative_l2_tolerance=tolerance,
        seeds=(0, 1),
        work=Work(hbm_bytes=1),
    )


def judge(data, task, stages=ALL_STAGES):
    started = time.monotonic()
    verdict = Judge(TRN1, TRN1_TIMING).judge(task, data, stages, task.seeds)
    assert time.monotonic() - started < 10
    return verdict


DOUBLE = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.multiply(tile, 2.0))
    return out
"""
SHAPE = (128, 64)
TASK = task_for(SHAPE)


def double(old="", new=""):
    assert old in DOUBLE
    return traced(DOUBLE.replace(old, new), np.zeros(SHAPE, np.float32))


def test_a_right_kernel_passes_all_seeds_with_a_latency():
    verdict = judge(encode(double()), TASK)
    assert verdict.status is EvaluationStatus.OK
    assert [s.ok for s in verdict.seeds] == [True, True]
    assert verdict.report.latency_us > TRN1_TIMING.overhead_us


def test_stages_that_were_not_asked_for_do_not_run():
    verdict = judge(encode(double()), TASK, frozenset({Stage.CONSTRAINTS}))
    assert verdict.status is EvaluationStatus.OK
    assert verdict.report is None
    assert verdict.seeds == ()


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("2.0)", "2.001)", "error"),
        ("2.0)", "float('nan'))", "NaN"),
        ("nl.store(out, nl", "nl.store(out[0:64], nl.load(x[0:64]))\n    (out, nl", "NaN"),
        ("out = nl.ndarray(x.shape", "out = nl.ndarray((128, 65)", "reshape"),
    ],
)
def test_a_wrong_kernel_is_incorrect_and_stops_at_the_first_seed(old, new, word):
    text = DOUBLE.replace(old, new)
    if "65" in new:
        text = text.replace("store(out,", "store(out[:, 0:64],")
    verdict = judge(encode(traced(text, np.zeros(SHAPE, np.float32))), TASK)
    assert verdict.status is EvaluationStatus.INCORRECT
    assert len(verdict.seeds) == 1
    assert verdict.diagnostics[0].rule == "incorrect_result"
    assert word in verdict.diagnostics[0].message


def test_an_input_out_of_range_of_an_activation_is_reported_with_its_line():
    verdict = judge(encode(double("nl.multiply(tile, 2.0)", "nl.log(tile)")), TASK)
    assert "activation_range" in {d.rule for d in verdict.diagnostics}


def test_constraints_and_unknown_instructions_have_their_status():
    verdict = judge(encode(double("nl.load(x)", "nl.load(x[:, 1:65])")), TASK)
    assert verdict.status is EvaluationStatus.CONSTRAINT_VIOLATION
    trace = double()
    verdict = judge(edited(trace, ops=("dma_copy", "warp_drive")), TASK)
    assert verdict.status is EvaluationStatus.UNSUPPORTED_OP
    assert verdict.diagnostics[0].rule == "unsupported_op"


def test_an_input_must_be_the_argument_the_task_passes():
    trace = double()
    tensor = int(np.flatnonzero(trace.tensor_role == TensorRole.INPUT)[0])
    start = int(trace.tensor_shape_start[tensor])
    for changes in (
        {"tensor_shape": at(trace.tensor_shape, start, 1 << 20)},
        {"tensor_index": at(trace.tensor_index, tensor, 3)},
        {"tensor_dtype": at(trace.tensor_dtype, tensor, 6)},
    ):
        verdict = judge(edited(trace, **changes), TASK)
        assert verdict.status is EvaluationStatus.REJECTED
        assert verdict.diagnostics[0].rule == "forged_trace"


def nest(depth, trips, dependent=False):
    lines = [
        "def kernel(x):",
        "    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)",
    ]
    for level in range(depth):
        bound = f"i{level - 1} + {trips}" if dependent and level else str(trips)
        lines.append("    " * (level + 1) + f"for i{level} in nl.sequential_range({bound}):")
    lines.append("    " * (depth + 1) + "nl.store(out, nl.load(x))")
    return "\n".join([*lines, "    return out"])


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (nest(1, 10**12), "timeout"),
        (nest(2, 10**6), "timeout"),
        (nest(12, 10), "timeout"),
        (nest(6, 40, dependent=True), "timeout"),
        (nest(18, 3), "timeout"),
        (
            DOUBLE.replace(
                "tile = nl.load(x)", "nl.ndarray((2**30, 2**10), nl.float32, buffer=nl.hbm)"
            )
            .replace("nl.ndarray((2**30", "big = nl.ndarray((2**30")
            .replace("nl.store(out, nl.multiply(tile, 2.0))", "nl.store(big[0:128, 0:64], 0)"),
            "out_of_memory",
        ),
    ],
)
def test_a_small_trace_that_asks_for_too_much_ends_soon(text, status):
    trace = traced(text, np.zeros(SHAPE, np.float32))
    if "2**30" in text:  # the output is never written: give it a store as well
        trace = traced(
            text.replace("return out", "nl.store(out, nl.load(x))\n    return out"),
            np.zeros(SHAPE, np.float32),
        )
    verdict = judge(encode(trace), TASK)
    assert verdict.status.value == status, verdict.diagnostics


def test_one_instruction_on_a_huge_grid_is_bounded_too():
    trace = double()
    verdict = judge(edited(trace, access_grid=np.full_like(trace.access_grid, 2**31 - 1)), TASK)
    assert verdict.status is EvaluationStatus.CONSTRAINT_VIOLATION


def test_index_arithmetic_that_overflows_is_refused_not_wrapped():
    trace = traced(
        DOUBLE.replace(
            "tile = nl.load(x)", "for i in nl.affine_range(4):\n        tile = nl.load(x[i:i + 32])"
        ).replace(
            "    nl.store(out, nl.multiply(tile, 2.0))",
            "        nl.store(out[nl.ds(32 * i, 32)], tile)",
        ),
        np.zeros(SHAPE, np.float32),
    )
    for value in (2**45, -(2**45)):
        coefs = np.full_like(trace.term_coef, value)
        verdict = judge(edited(trace, term_coef=coefs, loop_step=[2**30]), TASK)
        assert verdict.status in (EvaluationStatus.CONSTRAINT_VIOLATION, EvaluationStatus.REJECTED)


SAMPLE_TASK = task_for((4, 128, 64), (2, 128, 64))
ALLOWED = set(EvaluationStatus) - {EvaluationStatus.LOAD_ERROR}


def check_hostile(data):
    verdict = judge(data, SAMPLE_TASK)
    assert verdict.status in ALLOWED
    assert all(d.rule != "internal_error" for d in verdict.diagnostics), verdict.diagnostics


def test_the_sample_that_is_edited_below_executes():
    trace = sample_trace()
    check_hostile(encode(trace))
    outputs = Executor(trace).run(sample_arrays()).outputs
    assert outputs[0].shape == (4, 128, 64)


@pytest.fixture(scope="module")
def sample():
    return sample_trace()


@given(data=st.data())
@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_flipped_bytes_give_a_verdict(sample, data):
    raw = bytearray(encode(sample))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    check_hostile(bytes(raw))


NAMES = sorted(set(COLUMNS) - {"tensor_line", "loop_line", "ins_line"})


@given(data=st.data())
@settings(
    deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_edited_columns_give_a_verdict(sample, data):
    changes = {}
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(NAMES))
        column = changes.get(name, sample.columns[name])
        if len(column):
            info = np.iinfo(column.dtype) if column.dtype.kind in "iu" else None
            value = data.draw(st.integers(-2, 20) | st.sampled_from([64, 127, 2**20, 2**31 - 1]))
            if info is not None:
                value = min(max(value, info.min), info.max)
            changes[name] = at(column, data.draw(st.integers(0, len(column) - 1)), value)
    check_hostile(edited(sample, **changes))


@pytest.mark.parametrize("key", ["op", "op0", "axes", "reduce_op", "accumulate", "negate"])
@pytest.mark.parametrize("value", [None, [], ["add"], 3, 1.5, "warp", "", [1, 1], [-1], [7]])
def test_odd_attributes_give_a_verdict(sample, key, value):
    check_hostile(edited(sample, attrs=tuple({**a, key: value} for a in sample.attrs)))


@pytest.mark.parametrize("role", ["dst", "data", "reduce_res", "operand0", "bias", "value"])
def test_odd_roles_give_a_verdict(sample, role):
    for index in range(len(sample.roles)):
        roles = tuple(role if i == index else r for i, r in enumerate(sample.roles))
        check_hostile(edited(sample, roles=roles))


def test_every_instruction_gives_a_verdict_under_every_other_name(sample):
    from accelopt_simulator.isa import OPS

    for name in OPS:
        for index in range(len(sample.ops)):
            ops = tuple(name if i == index else op for i, op in enumerate(sample.ops))
            check_hostile(edited(sample, ops=ops))
