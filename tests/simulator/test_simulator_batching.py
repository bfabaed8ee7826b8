"""Batched and plain execution agree: bit for bit, or within the rounding of a matmul's sum."""

from __future__ import annotations

import numpy as np
import pytest

from accelopt.kernel import relative_l2_error
from accelopt.plugins import installed
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.numerics.batching import accumulation_loop
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.requests import request_for

SMALL = [name for name in installed().task_names() if name.endswith("@small")]


@pytest.mark.parametrize("name", SMALL)
def test_baselines_agree(name):
    task = installed().task(name)
    trace = trace_kernel(request_for(task, task.baseline)).trace
    arguments = task.reference.kernel_inputs(task.reference.inputs(5))
    batched, plain = (
        Executor(trace, batched=flag).run(arguments).outputs[0].copy() for flag in (True, False)
    )
    if "nc_matmul" in trace.ops:
        assert relative_l2_error(batched, plain) < 1e-6
    else:
        np.testing.assert_array_equal(batched, plain)


MATMUL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa

@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(({k}, nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.sbuf)
    right = nl.ndarray(({k}, nl.par_dim(128), 256), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range({k}):
        left[i] = nl.load(a[i * 128 : (i + 1) * 128, :])
        right[i] = nl.load(b[i * 128 : (i + 1) * 128, :])
    total = nl.zeros((128, 256), dtype=nl.float32, buffer=nl.psum)
    for i in nl.affine_range({k}):
        {body}
    nl.store(out, value=nl.copy(total))
    return out
"""


def run(body, *, k=6, batched=True):
    text = MATMUL.format(k=k, body=body)
    shapes = (((k * 128, 128), "float32"), ((k * 128, 256), "float32"))
    result = trace_kernel(TraceRequest(text=text, entry="kernel", arguments=shapes))
    assert result.status == "ok", result.diagnostics
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape, _ in shapes)
    executor = Executor(result.trace, batched=batched)
    return executor, executor.run([a, b]).outputs[0].copy(), a.astype(float).T @ b.astype(float)


def batched_loops(executor):
    arrays = executor.storage.arrays
    trace = executor.trace
    inputs = {t: np.zeros(executor.layouts[t].size, np.float32) for t in executor.layouts}
    return [
        loop
        for loop in range(trace.num_loops)
        if accumulation_loop(executor.analysis, loop, executor.layouts, inputs | arrays)
    ]


def test_an_accumulation_is_one_product_and_as_exact_as_the_sum_of_many():
    executor, output, exact = run("total += nisa.nc_matmul(left[i], right[i])")
    assert len(batched_loops(executor)) == 1
    depth = 6 * 128
    assert relative_l2_error(output, exact) < depth * 2.0**-24


@pytest.mark.parametrize(
    "body",
    [
        "total += nisa.nc_matmul(left[i], right[i]); left[i] = nl.multiply(left[i], 2.0)",
        "total[...] = nisa.nc_matmul(left[i], right[i])",
    ],
)
def test_a_loop_that_does_anything_else_is_not_batched(body):
    text = MATMUL.replace("affine_range", "sequential_range").format(k=3, body=body)
    shapes = (((384, 128), "float32"), ((384, 256), "float32"))
    result = trace_kernel(TraceRequest(text=text, entry="kernel", arguments=shapes))
    assert result.status == "ok", result.diagnostics
    assert batched_loops(Executor(result.trace)) == []


def test_a_long_loop_is_taken_in_parts(monkeypatch):
    from accelopt_simulator.numerics import batching

    _, whole, exact = run("total += nisa.nc_matmul(left[i], right[i])")
    monkeypatch.setattr(batching, "MAX_STACKED_ELEMENTS", 2 * 128 * 256)
    _, parts, _ = run("total += nisa.nc_matmul(left[i], right[i])")
    assert relative_l2_error(parts, exact) < 1e-6
    assert relative_l2_error(parts, whole) < 1e-6
