"""`nl.mgrid` has all axes in every component; a subscript that uses some has no other extent."""

from __future__ import annotations

import numpy as np
import pytest

from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.numerics.execute import Executor

KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x, g):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    {grid}
    gain = nl.load(g.reshape((1, g.shape[0]))[{param}, f])
    wide = gain.broadcast_to((128, g.shape[0]))
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 128 + p, f], mask=(i * 128 + p < rows))
        scale = nl.sum(tile, axis=[1])
        result = nl.multiply(nl.multiply(tile, scale), wide)
        nl.store(out[i * 128 + p, f], value=result, mask=(i * 128 + p < rows))
    return out
"""


@pytest.mark.parametrize(
    ("grid", "param"),
    [
        ("p, one, f = nl.mgrid[0:128, 0:1, 0:x.shape[1]]", "one"),
        ("p, f, one = nl.mgrid[0:128, 0:x.shape[1], 0:1]", "one"),
    ],
)
def test_unused_axes_of_a_dense_grid_vanish(grid, param):
    text = KERNEL.format(grid=grid, param=param)
    shapes = (((200, 64), "float32"), ((64,), "float32"))
    result = trace_kernel(TraceRequest(text=text, entry="kernel", arguments=shapes))
    assert result.status == "ok", result.diagnostics
    random = np.random.default_rng(0)
    x, g = (random.standard_normal(shape).astype(np.float32) for shape, _ in shapes)
    output = Executor(result.trace).run([x, g]).outputs[0]
    np.testing.assert_allclose(output, x * x.sum(axis=1, keepdims=True) * g, rtol=2e-5, atol=2e-5)


def test_the_axes_of_aranges_stay():
    text = KERNEL.format(
        grid="p, f = nl.arange(128)[:, None, None], nl.arange(64)[None, None, :]", param="0"
    )
    shapes = (((200, 64), "float32"), ((64,), "float32"))
    result = trace_kernel(TraceRequest(text=text, entry="kernel", arguments=shapes))
    assert result.status == "ok", result.diagnostics
    # A (128, 1, 64) tile: the sum over axis 1 changes nothing.
    random = np.random.default_rng(0)
    x, g = (random.standard_normal(shape).astype(np.float32) for shape, _ in shapes)
    output = Executor(result.trace).run([x, g]).outputs[0]
    np.testing.assert_allclose(output, x * x * g, rtol=2e-5)
