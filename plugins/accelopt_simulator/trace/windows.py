"""From a window of an instruction's iteration grid to the parts of its operands it touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelopt_simulator.isa import OPS
from accelopt_simulator.trace.schema import OperandKind, Trace

Window = tuple[Sequence[Any], Sequence[Any]]
"""Lowest and one-past-highest index per axis: integers, or arrays with one entry per iteration."""


class OperandWindows:
    """Carries windows of one instruction's grid over to its operands' grids.

    Attributes:
        op: opcode name.
        grids: grid of each tensor operand, by role.
        grid: the instruction's iteration grid, which its predicate is over.
    """

    def __init__(self, trace: Trace, instruction: int) -> None:
        self.op = trace.ops[int(trace.ins_op[instruction])]
        self.grids = {
            role: trace.access_shape(ref)
            for role, kind, ref in trace.operands(instruction)
            if kind is OperandKind.ACCESS
        }
        self.grid = self.grids["data" if OPS[self.op].grid == "data" else "dst"]
        has_axes = self.op in ("tensor_reduce", "dma_transpose")
        self._axes = tuple(trace.attr(instruction)["axes"]) if has_axes else ()

    def of(self, role: str, window: Window) -> Window:
        """The part of an operand's grid that a window of the instruction's grid needs."""
        lows, highs = list(window[0]), list(window[1])
        own = self.grids[role]
        if self.op == "nc_stream_shuffle" and role == "src":  # rows come from anywhere
            return [0, *lows[1:]], [own[0], *highs[1:]]
        if role in OPS[self.op].whole:
            return [0] * len(own), list(own)
        if role in OPS[self.op].rowwise:
            return [lows[0], *([0] * (len(own) - 1))], [highs[0], *own[1:]]
        if self.op == "nc_matmul":
            pairs = len(own) - (2 if role == "stationary" else len(self.grid))
            if role == "stationary":  # (K, M), or (K, 2, M) when rows go in pairs
                return (*([0] * (1 + pairs)), lows[0]), (*own[: 1 + pairs], highs[0])
            if role == "moving":
                return (*([0] * (1 + pairs)), *lows[1:]), (*own[: 1 + pairs], *highs[1:])
            return lows, highs
        if self.op == "dma_transpose" and role == "src":
            # Every order in use swaps two axes or reverses all: it is its own inverse.
            return [lows[a] for a in self._axes], [highs[a] for a in self._axes]
        if self.op == "tensor_partition_reduce" and role == "dst":
            return [0, *lows[1:]], [1, *highs[1:]]
        if self.op == "nc_transpose" and role == "dst":
            return lows[::-1], highs[::-1]
        if self.op == "tensor_reduce" and role == "dst":
            kept = [a for a in range(len(self.grid)) if a not in self._axes]
            low, high = [lows[a] for a in kept], [highs[a] for a in kept]
            # The result keeps at least two axes, or all of them with size 1.
            return _spread(own, self.grid, kept, low, high)
        if own == self.grid:
            return lows, highs
        return (lows[0], 0), (highs[0], 1)  # a (P, 1) column


def _spread(
    own: tuple[int, ...], grid: tuple[int, ...], kept: list[int], low: list[int], high: list[int]
) -> Window:
    if len(own) == len(grid):  # keepdims
        lows, highs = [0] * len(own), list(own)
        for axis, lo, hi in zip(kept, low, high, strict=True):
            lows[axis], highs[axis] = lo, hi
        return lows, highs
    extra = len(own) - len(kept)
    return [*low, *([0] * extra)], [*high, *([1] * extra)]
