"""Every access stays inside its tensor, masks taken into account."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import AccessOperand, Context
from accelopt_simulator.trace.windows import OperandWindows


def check_bounds(context: Context) -> Iterator[Diagnostic]:
    """`err_tensor_access_out_of_bound` with the range and the dimension's size."""
    for instruction in range(context.trace.num_instructions):
        for operand in context.accesses(instruction):
            yield from _operand(context, instruction, operand)


def _operand(context: Context, instruction: int, operand: AccessOperand) -> Iterator[Diagnostic]:
    trace, analysis = context.trace, context.analysis
    shape = trace.shape(operand.tensor)
    predicate = int(trace.ins_pred[instruction])
    for dim, expr in enumerate(trace.access_exprs(operand.access)):
        if analysis.is_dynamic(expr):
            continue  # checked at run time, where the value is known
        low, high = analysis.interval(expr, operand.grid)
        if low >= 0 and high < shape[dim]:
            continue
        if predicate >= 0:
            low, high = _masked_interval(context, instruction, operand, expr, predicate)
            if low >= 0 and high < shape[dim]:
                continue
        yield context.finding(
            instruction,
            "err_tensor_access_out_of_bound",
            f"index range [{low}, {high}] of dimension {dim} exceeds its size of {shape[dim]}",
            required=f"[{low}, {high}]",
            limit=f"[0, {shape[dim] - 1}]",
            hint="mask the access, or change the loop bounds",
        )
        return


def _masked_interval(
    context: Context, instruction: int, operand: AccessOperand, expr: int, predicate: int
) -> tuple[int, int]:
    """Range of an index where the instruction's predicate holds; iterations are enumerated."""
    analysis = context.analysis
    loops = analysis.iterations(analysis.loops_of(instruction))
    windows = OperandWindows(context.trace, instruction)
    low_corner, high_corner, alive, _ = analysis.axis_window(predicate, windows.grid, loops)
    lows, highs = windows.of(operand.role, (low_corner, high_corner))
    base = np.asarray(analysis.evaluate(expr, loops))
    low, high = base, base
    for axis, coef in analysis.affine(expr).axes:
        first, last = coef * np.asarray(lows[axis]), coef * (np.asarray(highs[axis]) - 1)
        low, high = low + np.minimum(first, last), high + np.maximum(first, last)
    low, high, alive = np.broadcast_arrays(low, high, np.asarray(alive))
    if not alive.any():
        return 0, -1
    return int(low[alive].min()), int(high[alive].max())
