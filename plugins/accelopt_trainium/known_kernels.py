"""Kernels whose answer, and whose order, is known before: what a real device is tried with.

All compute y = 2 x + 1. The fast one moves whole rows of a block at once, the slow one the same
bytes in 64 small pieces per block, each of which pays a DMA's fixed cost of about two microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelopt.kernel import (
    ArgumentSpec,
    Array,
    Dialect,
    KernelArgument,
    KernelSource,
    KernelTask,
    Work,
)

ROWS, COLUMNS = 1024, 2048
SLOW_PIECES = 64

_LEGACY = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange({width})[None, :]
    for block in nl.{loop}(x.shape[0] // 128):
        for piece in nl.{loop}({pieces}):
            at = piece * {width} + columns
            tile = nl.load(x[block * 128 + rows, at])
            result = nisa.tensor_scalar(
                tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0
            )
            nl.store(out[block * 128 + rows, at], value=result)
    return out
"""

_CURRENT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for block in range(x.shape[0] // 128):
        top = block * 128
        for piece in range({pieces}):
            left = piece * {width}
            tile = nl.ndarray((128, {width}), dtype=x.dtype, buffer=nl.sbuf)
            result = nl.ndarray((128, {width}), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[top : top + 128, left : left + {width}])
            nisa.tensor_scalar(
                dst=result, data=tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0
            )
            nisa.dma_copy(dst=out[top : top + 128, left : left + {width}], src=result)
    return out
"""


class _ScaleAndAdd:
    """y = 2 x + 1."""

    def inputs(self, seed: int) -> list[KernelArgument]:
        random = np.random.default_rng(seed)
        return [random.standard_normal((ROWS, COLUMNS)).astype(np.float32)]

    def forward(self, inputs: Sequence[KernelArgument]) -> Array:
        result: Array = np.asarray(inputs[0]) * np.float32(2) + np.float32(1)
        return result

    def kernel_inputs(self, inputs: Sequence[KernelArgument]) -> list[KernelArgument]:
        return list(inputs)

    def natural_output(self, outputs: Sequence[Array], expected: Array) -> Array:
        if len(outputs) != 1 or outputs[0].size != expected.size:
            raise ValueError(f"the kernel returns {[output.shape for output in outputs]}")
        return outputs[0].reshape(expected.shape)


def known_task(dialect: Dialect) -> KernelTask:
    """The task of all kernels here, for a dialect."""
    return KernelTask(
        name="doctor/scale_and_add",
        title="y = 2 x + 1",
        reference=_ScaleAndAdd(),
        reference_source="def forward(x):\n    return 2 * x + 1\n",
        baseline=fast_kernel(dialect),
        arguments=(ArgumentSpec(shape=(ROWS, COLUMNS)),),
        output_shape=(ROWS, COLUMNS),
        relative_l2_tolerance=2e-5,
        work=Work(hbm_bytes=8 * ROWS * COLUMNS),
        seeds=(0, 1),
    )


def fast_kernel(dialect: Dialect) -> KernelSource:
    """Moves whole rows."""
    return _kernel(dialect, 1)


def slow_kernel(dialect: Dialect) -> KernelSource:
    """Moves the same in small pieces."""
    return _kernel(dialect, SLOW_PIECES)


def _kernel(dialect: Dialect, pieces: int) -> KernelSource:
    width = COLUMNS // pieces
    template = _LEGACY if dialect is Dialect.NEURONXCC_NKI else _CURRENT
    loop = "affine_range" if pieces == 1 else "sequential_range"
    text = template.format(width=width, pieces=pieces, loop=loop)
    return KernelSource(text=text, dialect=dialect, entry="kernel")
