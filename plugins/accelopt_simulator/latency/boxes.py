"""Boxes of operands: first and last partition, first and last free element."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.jit import compiled

Ints = NDArray[np.int64]


@compiled
def meets(box: Ints, a: int, b: int) -> bool:
    """Whether the boxes of two operands overlap."""
    return bool(
        box[a, 0] <= box[b, 1]
        and box[b, 0] <= box[a, 1]
        and box[a, 2] <= box[b, 3]
        and box[b, 2] <= box[a, 3]
    )


@compiled
def covers(box: Ints, a: int, b: int) -> bool:
    """Whether the box of operand `a` holds that of `b`."""
    return bool(
        box[a, 0] <= box[b, 0]
        and box[b, 1] <= box[a, 1]
        and box[a, 2] <= box[b, 2]
        and box[b, 3] <= box[a, 3]
    )
