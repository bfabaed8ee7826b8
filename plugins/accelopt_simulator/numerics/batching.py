"""Loops of matmul accumulations as one large product.

A loop whose body is a single `dst += stationary^T x moving`, with a destination that the loop does
not move, adds up products over the contraction axis: stacking the operands of all iterations along
that axis gives one product, which BLAS computes faster than many small ones. The sum is then formed
in another order, within the float32 rounding of the accumulation itself.

Element-wise loops are left as they are: one iteration's tiles fit the cache, and one call over all
iterations was measured to be slower than a call per tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.numerics.storage import Layout
from accelopt_simulator.numerics.views import Env, View
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind

MAX_STACKED_ELEMENTS = 1 << 24
"""Elements of one stacked operand; larger loops are taken in parts."""

F32 = np.dtype(np.float32)


def accumulation_loop(
    analysis: Analysis,
    loop: int,
    layouts: dict[int, Layout],
    arrays: dict[int, NDArray[Any]],
) -> Callable[[Env], None] | None:
    """A step that runs the whole loop, or None when the loop is not of that kind."""
    trace = analysis.trace
    instruction = int(trace.loop_first[loop])
    if int(trace.loop_last[loop]) != instruction + 1 or analysis.children(loop):
        return None
    if trace.ops[trace.ins_op[instruction]] != "nc_matmul" or trace.ins_pred[instruction] >= 0:
        return None
    if trace.attr(instruction).get("accumulate") is not True:
        return None
    views: dict[str, View] = {}
    for role, kind, ref in trace.operands(instruction):
        if kind is not OperandKind.ACCESS:
            return None
        owner = analysis.storage(int(trace.access_tensor[ref]))
        views[role] = View(analysis, ref, layouts[owner], arrays[owner])
    if views.keys() != {"dst", "stationary", "moving"}:
        return None
    if any(not view.stackable or view.dtype != F32 for view in views.values()):
        return None
    dst, stationary, moving = views["dst"], views["stationary"], views["moving"]
    if dst.step_of(loop) or any(layout.reset_loop == loop for layout in layouts.values()):
        return None
    start, stop = int(trace.loop_start[loop]), int(trace.loop_stop[loop])
    step = int(trace.loop_step[loop])
    largest = max(int(np.prod(view.grid)) for view in (stationary, moving))
    part = max(1, MAX_STACKED_ELEMENTS // largest)

    def run(env: Env) -> None:
        values = range(analysis.evaluate(start, env), analysis.evaluate(stop, env), step)
        for first in range(0, len(values), part):
            chunk = values[first : first + part]
            env[loop] = chunk[0]
            left = stationary.stacked(env, loop, step, len(chunk))
            right = moving.stacked(env, loop, step, len(chunk))
            rows = left.shape[0] * left.shape[1]
            product = np.matmul(left.reshape(rows, -1).T, right.reshape(rows, -1))
            target = dst.at(env)
            np.add(target, product.reshape(target.shape), out=target)

    return run
