"""The recurrence of `tensor_tensor_scan`, one step per column for all partitions at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Stage = Callable[[Any, Any, Any], Any]

# These take their output as the third argument themselves: no call of ours in between. Both are
# commutative, so reversed operands change nothing.
_DIRECT: dict[str, Stage] = {"multiply": np.multiply, "add": np.add}


def scan(
    data0: Floats,
    data1: Floats,
    initial: Any,
    first: Stage,
    second: Stage,
    attrs: dict[str, Any],
    keep: NDArray[np.bool_] | None = None,
) -> Floats:
    """`s = second(first(data0[i], s), data1[i])` along the rows of transposed operands.

    Args:
        data0, data1: [N, P], one row per step.
        initial: state before the first step, scalar or [P].
        first, second: `op(data, operand, out)`.
        attrs: the instruction's attributes, to find operators with a direct form.
        keep: [N, P], where the state moves on; None for everywhere.

    Returns:
        [N, P]; the state stays float32 between steps.
    """
    first = _DIRECT.get(attrs["op0"], first)
    second = _DIRECT.get(attrs["op1"], second)
    out = np.empty_like(data0)
    state = np.broadcast_to(initial, data0.shape[1:])
    middle = np.empty(data0.shape[1:], np.float32)
    for i, (a, b, result) in enumerate(zip(data0, data1, out, strict=True)):
        first(a, state, middle)
        second(middle, b, result)
        state = result if keep is None else np.where(keep[i], result, state)
    return out
