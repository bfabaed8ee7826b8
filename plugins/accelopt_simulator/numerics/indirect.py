"""Operands with run-time indices: gathered before an instruction, scattered after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.numerics.storage import Layout
from accelopt_simulator.numerics.views import Env, View
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace, VarKind
from accelopt_simulator.trace.windows import Window


class RuntimeIndexError(Exception):
    """A run-time index left its tensor.

    Args:
        index: flattened position that was asked for.
        size: elements of the tensor.
    """

    def __init__(self, index: int, size: int) -> None:
        super().__init__(f"index {index} is out of bounds for axis 0 with size {size}")
        self.index = index
        self.size = size


def is_indirect(trace: Trace, access: int) -> bool:
    """Whether an access has run-time indices."""
    return any(
        trace.var_kind[var] == VarKind.DYNAMIC
        for expr in trace.access_exprs(access)
        for var, _ in trace.terms(expr)
    )


class IndirectView:
    """One operand with run-time indices.

    Args:
        analysis: facts about the trace.
        access: the operand.
        layouts, arrays: storage of all tensors, by id.
        skip: whether rows whose index is out of bounds are left out instead of an error.
    """

    def __init__(
        self,
        analysis: Analysis,
        access: int,
        layouts: dict[int, Layout],
        arrays: dict[int, NDArray[Any]],
        *,
        skip: bool,
    ) -> None:
        trace = analysis.trace
        self._analysis = analysis
        self._grid = trace.access_shape(access)
        self._exprs = trace.access_exprs(access)
        tensor = int(trace.access_tensor[access])
        self._shape = trace.shape(tensor)
        owner = analysis.storage(tensor)
        layout = layouts[owner]
        # A folded block dimension has stride 0: there is one block for all.
        self._strides = layout.strides if owner == tensor else _row_major(self._shape)
        self._array = arrays[owner]
        self._skip = skip
        self._tiles: dict[int, View] = {}
        for expr in self._exprs:
            for var, _ in trace.terms(expr):
                if trace.var_kind[var] == VarKind.DYNAMIC:
                    source = int(trace.var_a[var])
                    holder = analysis.storage(int(trace.access_tensor[source]))
                    self._tiles[var] = View(analysis, source, layouts[holder], arrays[holder])

    def positions(
        self, env: Env, window: Window | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Flat storage positions over the operand's (windowed) grid, and which are in bounds.

        Raises:
            RuntimeIndexError: one is not, and rows are not to be skipped.
        """
        lows = window[0] if window is not None else (0,) * len(self._grid)
        highs = window[1] if window is not None else self._grid
        shape = tuple(int(h - lo) for lo, h in zip(lows, highs, strict=True))
        flat: Any = np.zeros(shape, dtype=np.int64)
        inside: Any = np.ones(shape, dtype=bool)
        for dim, expr in enumerate(self._exprs):
            index = self._index(expr, env, lows, highs)
            good = (index >= 0) & (index < self._shape[dim])
            inside = inside & good
            flat = flat + np.where(good, index, 0) * self._strides[dim]
        if not self._skip and not inside.all():
            raise RuntimeIndexError(self._first_bad(env, lows, highs), int(np.prod(self._shape)))
        return flat, inside

    def _index(self, expr: int, env: Env, lows: Any, highs: Any) -> NDArray[np.int64]:
        """Values of one dimension's index, broadcastable to the grid."""
        rank = len(self._grid)
        affine = self._analysis.affine(expr)
        value: Any = np.full((1,) * rank, self._analysis.static_part(expr, env), dtype=np.int64)
        for axis, coef in affine.axes:
            extent = [1] * rank
            extent[axis] = int(highs[axis] - lows[axis])
            value = value + coef * np.arange(lows[axis], highs[axis]).reshape(extent)
        for var, coef in affine.others:
            if var in self._tiles:
                column = self._tiles[var].at(env).astype(np.int64).reshape(-1)
                if len(column) > 1:
                    column = column[int(lows[0]) : int(highs[0])]
                value = value + coef * column.reshape((-1, *(1,) * (rank - 1)))
        return value  # type: ignore[no-any-return]

    def _first_bad(self, env: Env, lows: Any, highs: Any) -> int:
        """Flattened address of the first access that is out of bounds, as the SDK reports it."""
        address: Any = 0
        bad: Any = False
        for dim, expr in enumerate(self._exprs):
            index = self._index(expr, env, lows, highs)
            address = address * self._shape[dim] + index
            bad = bad | (index < 0) | (index >= self._shape[dim])
        address, bad = np.broadcast_arrays(address, bad)
        return int(address[bad][0])

    def gather(self, env: Env, window: Window | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The values, and which rows are really there."""
        flat, inside = self.positions(env, window)
        return self._array[flat], inside

    def scatter(
        self, env: Env, window: Window | None, values: NDArray[Any], where: Any, *, add: bool
    ) -> None:
        """Write values back; with `add`, every occurrence of a repeated position counts."""
        flat, inside = self.positions(env, window)
        chosen = inside if where is None else inside & where
        if add:
            np.add.at(self._array, flat[chosen], values[chosen])
        else:
            self._array[flat[chosen]] = values[chosen]


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))
