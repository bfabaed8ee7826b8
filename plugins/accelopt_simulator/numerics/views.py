"""Views of storage for an instruction's operands, at given loop values and inside a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.numerics.storage import Layout
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.windows import Window

Env = dict[int, int]
"""Loop id -> current value of its variable."""


class View:
    """One operand: makes the NumPy view of its region for given loop values."""

    __slots__ = (
        "_analysis", "_buffer", "_cached", "_const", "_dtype", "_grid", "_item", "_loops",
        "_others", "_strides",
    )  # fmt: skip

    def __init__(
        self, analysis: Analysis, access: int, layout: Layout, array: NDArray[Any]
    ) -> None:
        trace = analysis.trace
        tensor = int(trace.access_tensor[access])
        shape = trace.shape(tensor)
        own_layout = trace.tensor_alias[tensor] < 0
        strides = layout.strides if own_layout else _contiguous(shape)
        self._analysis = analysis
        self._grid = trace.access_shape(access)
        self._dtype = array.dtype
        self._item = item = array.dtype.itemsize
        self._buffer = array
        self._const = 0
        loops: dict[int, int] = {}
        axis_strides = [0] * len(self._grid)
        self._others: list[tuple[int, int]] = []
        for dim, expr in enumerate(trace.access_exprs(access)):
            if strides[dim] == 0:
                continue
            affine = analysis.affine(expr)
            self._const += affine.const * strides[dim] * item
            for loop, coef in affine.loops:
                loops[loop] = loops.get(loop, 0) + coef * strides[dim] * item
            for axis, coef in affine.axes:
                axis_strides[axis] += coef * strides[dim] * item
            if affine.others:
                self._others.append((expr, strides[dim] * item))
        self._loops = tuple(loops.items())
        self._strides = tuple(axis_strides)
        self._cached: NDArray[Any] | None = None

    @property
    def grid(self) -> tuple[int, ...]:
        """Extents of the operand."""
        return self._grid

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type as stored."""
        return self._dtype

    @property
    def stackable(self) -> bool:
        """Whether the address is affine in the loop variables."""
        return not self._others

    def step_of(self, loop: int) -> int:
        """Bytes that the region moves when the variable of `loop` grows by one."""
        return dict(self._loops).get(loop, 0)

    def stacked(self, env: Env, loop: int, step: int, count: int) -> NDArray[Any]:
        """The views of `count` iterations of `loop` from the current one on, as one array."""
        offset = self._const + sum(env[lp] * stride for lp, stride in self._loops)
        strides = (self.step_of(loop) * step, *self._strides)
        return np.ndarray((count, *self._grid), self._dtype, self._buffer, offset, strides)

    def at(self, env: Env, window: Window | None = None) -> NDArray[Any]:
        """The view for the current loop values, cut to a window of its grid."""
        if self._cached is not None and window is None:
            return self._cached
        offset = self._const
        for loop, stride in self._loops:
            offset += env[loop] * stride
        for expr, stride in self._others:
            affine = self._analysis.affine(expr)
            plain = affine.const + sum(c * env[lp] for lp, c in affine.loops)
            offset += (self._analysis.evaluate(expr, env) - plain) * stride
        shape = self._grid
        if window is not None:
            lows, highs = window
            for low, stride in zip(lows, self._strides, strict=True):
                offset += low * stride
            shape = tuple(h - lo for lo, h in zip(lows, highs, strict=True))
        view: NDArray[Any] = np.ndarray(shape, self._dtype, self._buffer, offset, self._strides)
        if window is None and not self._loops and not self._others:
            self._cached = view
        return view


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


class Predicate:
    """An instruction's predicate: off, everywhere, a window, or a window with a Boolean grid."""

    def __init__(self, analysis: Analysis, predicate: int, grid: tuple[int, ...]) -> None:
        self._analysis = analysis
        self._predicate = predicate
        self._grid = grid
        self._cache: dict[tuple[int, ...], Any] = {}
        trace = analysis.trace
        self._loops = sorted(
            {
                loop
                for clause in trace.clauses(predicate)
                for expr, _ in clause
                for loop in analysis.loops_in(expr)
            }
        )

    def at(self, env: Env) -> tuple[bool, Window | None, NDArray[np.bool_] | None]:
        """Whether the instruction runs, its window (None: all) and a mask in it (None: all)."""
        key = tuple(env[loop] for loop in self._loops)
        if key not in self._cache:
            if len(self._cache) > 4096:
                self._cache.clear()
            self._cache[key] = self._compute(env)
        return self._cache[key]  # type: ignore[no-any-return]

    def _compute(self, env: Env) -> tuple[bool, Window | None, NDArray[np.bool_] | None]:
        lows, highs, alive, exact = self._analysis.axis_window(self._predicate, self._grid, env)
        if not bool(alive):
            return False, None, None
        low = tuple(int(v) for v in lows)
        high = tuple(int(v) for v in highs)
        full = low == (0,) * len(low) and high == self._grid
        window = None if full else (low, high)
        if exact:
            return True, window, None
        mask = np.ones(tuple(h - lo for lo, h in zip(low, high, strict=True)), dtype=bool)
        for clause in self._analysis.trace.clauses(self._predicate):
            holds: Any = False
            for expr, compare in clause:
                holds = holds | _atom(self._analysis, expr, int(compare), env, low, high)
            mask &= holds
        return bool(mask.any()), window, mask


def _atom(
    analysis: Analysis, expr: int, compare: int, env: Env, low: Sequence[int], high: Sequence[int]
) -> Any:
    value: Any = analysis.evaluate(expr, env)
    for axis, coef in analysis.affine(expr).axes:
        extent = [1] * len(low)
        extent[axis] = high[axis] - low[axis]
        value = value + coef * np.arange(low[axis], high[axis]).reshape(extent)
    return (value >= 0, value == 0, value != 0)[compare]
