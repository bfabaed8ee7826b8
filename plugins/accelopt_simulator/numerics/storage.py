"""Storage of a trace's tensors, and when it reads as undefined.

Blocked on-chip tensors may declare hundreds of times the memory of the chip, one block per loop
iteration. A block dimension that every access indexes by the same enclosing loop is folded away:
the next iteration can't see the last one's block, so one block serves all, made undefined again
each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import Use, folded_dimensions, uses_by_storage
from accelopt_simulator.trace.schema import Init, TensorRole


@dataclass
class Layout:
    """How a tensor is stored.

    Attributes:
        strides: elements per dimension; 0 for a folded one.
        size: elements.
        reset_loop: the loop at whose every iteration the contents become undefined; -1 = once.
        fill: what undefined contents are set to; None when they are provably overwritten first.
    """

    strides: tuple[int, ...]
    size: int
    reset_loop: int
    fill: float | None
    dtype: np.dtype[Any]
    uses: list[Use] = field(default_factory=list)


def plan_layouts(analysis: Analysis) -> dict[int, Layout]:
    """A layout for every tensor that owns storage."""
    trace = analysis.trace
    return {
        tensor: _plan(analysis, tensor)
        for tensor in range(trace.num_tensors)
        if trace.tensor_alias[tensor] < 0
    }


def _plan(analysis: Analysis, tensor: int) -> Layout:
    trace = analysis.trace
    shape = trace.shape(tensor)
    dtype = DTYPES[trace.tensor_dtype[tensor]].storage
    uses = uses_by_storage(analysis).get(tensor, [])
    folded = folded_dimensions(analysis, tensor)
    strides, size = [0] * len(shape), 1
    for dim in reversed(range(len(shape))):
        if dim not in folded:
            strides[dim] = size
            size *= shape[dim]
    # The deepest loop that makes the tensor afresh; they all enclose its uses, so it has the last
    # number.
    reset = max(*folded.values(), int(trace.tensor_scope[tensor]), -1)
    layout = Layout(tuple(strides), size, reset, None, dtype, uses)
    layout.fill = _fill_value(analysis, tensor, layout, folded)
    return layout


def _fill_value(
    analysis: Analysis, tensor: int, layout: Layout, folded: dict[int, int]
) -> float | None:
    trace, uses = analysis.trace, layout.uses
    role = trace.tensor_role[tensor]
    if role in (TensorRole.INPUT, TensorRole.CONSTANT):
        return None
    if not uses:
        return np.nan if role == TensorRole.OUTPUT else None
    first = uses[0]
    if trace.tensor_init[tensor] == Init.ZERO:
        return 0.0
    accumulates = trace.attr(first.instruction).get("accumulate") is True
    matmul = trace.ops[int(trace.ins_op[first.instruction])] == "nc_matmul"
    if accumulates and matmul and first.write:
        return 0.0  # the first matmul of a group overwrites
    plain = first.write and not accumulates and trace.ins_pred[first.instruction] < 0
    # An instruction reads its operands before it writes: `x[...] = op(x)` reads what is undefined.
    reads_itself = any(u.instruction == first.instruction and not u.write for u in uses)
    aliased = any(use.through_alias for use in uses)
    overwrites = plain and not reads_itself and not aliased
    if overwrites and _covers(analysis, tensor, first, layout, folded):
        return None
    return float("nan")


def _covers(
    analysis: Analysis, tensor: int, first: Use, layout: Layout, folded: dict[int, int]
) -> bool:
    """Whether the first write provably fills the whole storage before anything is read."""
    trace = analysis.trace
    grid, shape = trace.access_shape(first.access), trace.shape(tensor)
    used_axes: set[int] = set()
    chunk_loops: set[int] = set()
    inside = analysis.loops_of(first.instruction)
    if layout.reset_loop >= 0:
        inside = inside[inside.index(layout.reset_loop) + 1 :]
    if not all(analysis.always_runs(loop) for loop in inside):
        return False
    for dim, expr in enumerate(trace.access_exprs(first.access)):
        if dim in folded:
            continue
        affine = analysis.affine(expr)
        if affine.others or len(affine.axes) > 1 or len(affine.loops) > 1:
            return False
        extent = 1
        if affine.axes:
            axis, coef = affine.axes[0]
            if coef != 1 or axis in used_axes:
                return False
            used_axes.add(axis)
            extent = grid[axis]
        start, covered = affine.const, extent
        if affine.loops:
            loop, coef = affine.loops[0]
            step = int(trace.loop_step[loop])
            if loop not in inside or loop in chunk_loops or coef * step != extent:
                return False
            chunk_loops.add(loop)
            start += coef * analysis.loop_range[loop][0]
            covered = extent * analysis.max_trips(loop)
        if start != 0 or covered != shape[dim]:
            return False
    if not chunk_loops:
        return True
    # Filled chunk by chunk: complete only when the outermost chunk loop has ended.
    end = max(int(trace.loop_last[loop]) for loop in chunk_loops)
    return all(use.write or use.instruction >= end for use in layout.uses)


class Storage:
    """Arrays of all tensors for one execution."""

    def __init__(self, analysis: Analysis, layouts: dict[int, Layout]) -> None:
        self.analysis = analysis
        self.layouts = layouts
        self.arrays: dict[int, NDArray[Any]] = {}
        trace = analysis.trace
        for tensor, layout in layouts.items():
            role = trace.tensor_role[tensor]
            if role == TensorRole.CONSTANT:
                self.arrays[tensor] = trace.constants[trace.tensor_index[tensor]].reshape(-1)
            elif role != TensorRole.INPUT:
                self.arrays[tensor] = np.empty(layout.size, layout.dtype)
        self.resets: dict[int, list[tuple[NDArray[Any], float]]] = {}
        for tensor, layout in layouts.items():
            if layout.fill is not None and tensor in self.arrays:
                entry = (self.arrays[tensor], layout.fill)
                self.resets.setdefault(layout.reset_loop, []).append(entry)

    def poison_outputs(self) -> None:
        """Overwrite what an earlier run left in the outputs: no kernel may return it again."""
        roles = self.analysis.trace.tensor_role
        for tensor, array in self.arrays.items():
            if roles[tensor] == TensorRole.OUTPUT:
                poison(array)

    def reset(self, loop: int) -> None:
        """Make the storage of this loop's iteration undefined (or zero) again."""
        for array, fill in self.resets.get(loop, ()):
            if fill != fill:
                poison(array)
            else:
                array.fill(fill)


def poison(array: NDArray[Any]) -> None:
    """Fill with NaN, or with the largest value of an integer type."""
    array.fill(np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.nan)


def storage_bytes(layouts: dict[int, Layout]) -> int:
    """Bytes an execution will hold, inputs and constants included."""
    return sum(layout.size * layout.dtype.itemsize for layout in layouts.values())
