"""Outputs of an earlier run can't come back, and inputs can't be changed."""

from __future__ import annotations

import numpy as np
import pytest

from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.numerics import storage
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.trace.schema import TensorRole

HALF = """
import neuronxcc.nki.language as nl

def kernel(x):
    out = nl.ndarray((128, 64), dtype=nl.{dtype}, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(32)[None, :]
    nl.store(out[rows, columns], value=nl.load(x[rows, columns]))
    return out
"""


def executor(monkeypatch, dtype="float32"):
    # A mistaken proof that the output is covered: the poison must not depend on it.
    monkeypatch.setattr(storage, "_covers", lambda *arguments: True)
    request = TraceRequest(
        text=HALF.format(dtype=dtype), entry="kernel", arguments=(((128, 64), dtype),)
    )
    trace = trace_kernel(request).trace
    made = Executor(trace)
    (output,) = np.flatnonzero(trace.tensor_role == TensorRole.OUTPUT).tolist()
    return made, made.storage.arrays[output]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_lay_in_an_output_does_not_come_back(monkeypatch, dtype):
    made, memory = executor(monkeypatch, dtype)
    x = np.arange(128 * 64).reshape(128, 64).astype(dtype)
    memory[...] = x.reshape(-1)  # as if the answer had been computed here before
    (found,) = made.run([x]).outputs
    assert np.array_equal(found[:, :32], x[:, :32])
    if dtype == "float32":
        assert np.isnan(found[:, 32:]).all()
    else:
        assert (found[:, 32:] == np.iinfo(np.int32).max).all()


def test_without_the_poison_it_would(monkeypatch):
    made, memory = executor(monkeypatch)
    x = np.arange(128 * 64).reshape(128, 64).astype(np.float32)
    memory[...] = x.reshape(-1)
    made.storage.poison_outputs = lambda: None
    assert np.array_equal(made.run([x]).outputs[0], x)


def test_inputs_are_read_only_to_the_executor(monkeypatch):
    made, _ = executor(monkeypatch)
    x = np.ones((128, 64), np.float32)
    before = x.copy()
    x.flags.writeable = False
    made.run([x])
    assert np.array_equal(x, before)
