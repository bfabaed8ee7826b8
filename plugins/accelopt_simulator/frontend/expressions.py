"""Index expressions as operands: what `nisa.iota` writes and `nisa.affine_select` compares.

In the trace such an operand reads a ramp, a constant that counts up by one, at the expression. That
keeps it an access like any other: cut by masks, evaluated per iteration, checked against bounds.
"""

from __future__ import annotations

import numpy as np

from accelopt_simulator.dtypes import INT32
from accelopt_simulator.frontend.faults import unsupported
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import new_tensor
from accelopt_simulator.trace.builder import Access, Affine
from accelopt_simulator.trace.schema import Space, TensorRole

MAX_RAMP = 1 << 22
STEP = 1024
"""Ramps start and end at multiples of this, so that few serve many expressions."""


def expression(affine: Affine, grid: tuple[int, ...]) -> Access:
    """An index expression over a grid as an operand.

    Raises:
        KernelFault: it takes too many different values, or a run-time one.
    """
    low, high = _interval(affine, grid)
    low, high = low // STEP * STEP, -(-(high + 1) // STEP) * STEP
    if high - low > MAX_RAMP:
        raise unsupported(f"an index expression with values from {low} to {high}")
    session = current()
    if (low, high) not in session.ramps:
        session.builder.constants.append(np.arange(low, high, dtype=np.int32))
        session.ramps[low, high] = new_tensor(
            (high - low,), INT32, Space.HBM, role=TensorRole.CONSTANT,
            index=len(session.builder.constants) - 1, name="index values",
        ).tensor  # fmt: skip
    return Access(session.ramps[low, high], grid, (affine - low,))


def flat_position(grid: tuple[int, ...]) -> Affine:
    """Position of an element in the flattened free axes."""
    position, size = Affine(0), 1
    for axis in reversed(range(1, len(grid))):
        position, size = position + Affine.var(("axis", axis)) * size, size * grid[axis]
    return position


def _interval(affine: Affine, grid: tuple[int, ...]) -> tuple[int, int]:
    """Least and greatest value over the grid and the enclosing loops."""
    low = high = affine.const
    for key, coef in affine.terms:
        if key[0] == "axis":
            ends = (0, grid[key[1]] - 1)
        elif key[0] == "loop":
            loop = current().builder.loops[key[1]]
            first, last = _interval(loop.start, grid)[0], _interval(loop.stop, grid)[1] - 1
            ends = (first, max(first, last))
        elif key[0] == "floordiv":
            ends = (_interval(key[1], grid)[0] // key[2], _interval(key[1], grid)[1] // key[2])
        elif key[0] == "mod":
            ends = (0, key[2] - 1)
        else:
            raise unsupported("a run-time value in an index expression")
        low, high = low + min(coef * e for e in ends), high + max(coef * e for e in ends)
    return low, high
