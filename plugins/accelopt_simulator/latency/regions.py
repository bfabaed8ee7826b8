"""Strides, contiguous runs and boxes of accesses, for costs and dependences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Region:
    """Static facts of one access.

    Attributes:
        access: access id.
        tensor: tensor id.
        storage: tensor id that owns the storage.
        space: memory.
        itemsize: bytes per element.
        grid: extents.
        axis_strides: storage elements per step along each grid axis.
    """

    access: int
    tensor: int
    storage: int
    space: Space
    itemsize: int
    grid: tuple[int, ...]
    axis_strides: tuple[int, ...]

    @property
    def free_elements(self) -> int:
        """Elements per partition."""
        return math.prod(self.grid[1:])

    @property
    def inner_stride_bytes(self) -> int:
        """Bytes between neighbours along the innermost free axis that has more than one element."""
        for extent, stride in zip(self.grid[:0:-1], self.axis_strides[:0:-1], strict=True):
            if extent > 1:
                return abs(stride) * self.itemsize
        return 0

    def contiguous_elements(self) -> int:
        """Length of the contiguous runs that a DMA of this region is made of."""
        run = 1
        for extent, stride in zip(reversed(self.grid), reversed(self.axis_strides), strict=True):
            if extent == 1:
                continue
            if stride != run:
                break
            run *= extent
        return run


def region_of(analysis: Analysis, access: int) -> Region:
    """Static facts of an access."""
    trace = analysis.trace
    tensor = int(trace.access_tensor[access])
    shape = trace.shape(tensor)
    grid = trace.access_shape(access)
    strides = [0] * len(grid)
    unit = 1
    for dim in reversed(range(len(shape))):
        for axis, coef in analysis.affine(trace.access_exprs(access)[dim]).axes:
            strides[axis] += coef * unit
        unit *= shape[dim]
    return Region(
        access=access,
        tensor=tensor,
        storage=analysis.storage(tensor),
        space=Space(int(trace.tensor_space[tensor])),
        itemsize=DTYPES[trace.tensor_dtype[tensor]].itemsize,
        grid=grid,
        axis_strides=tuple(strides),
    )


def boxes(
    analysis: Analysis, region: Region, loops: dict[int, Ints], count: int
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Where each instance of an access lies.

    Returns:
        block number, first and last partition, first and last free element (HBM: block 0,
        partitions 0, and first and last element of the tensor), each of length `count`.
    """
    trace = analysis.trace
    shape = trace.shape(region.tensor)
    par = int(trace.tensor_par_dim[region.tensor]) if region.space is not Space.HBM else 0
    zeros: Any = np.zeros(count, dtype=np.int64)
    block, part_low, part_high = zeros, zeros, zeros
    low, high = zeros, zeros
    unit = 1
    exprs = trace.access_exprs(region.access)
    for dim in reversed(range(len(shape))):
        if analysis.is_dynamic(exprs[dim]):
            first, last = zeros, zeros + shape[dim] - 1  # it may be anywhere
        else:
            base = analysis.evaluate(exprs[dim], loops)
            spread = [coef * (region.grid[a] - 1) for a, coef in analysis.affine(exprs[dim]).axes]
            first = base + sum(min(0, s) for s in spread)
            last = base + sum(max(0, s) for s in spread)
        if region.space is Space.HBM or dim > par:
            low, high = low + first * unit, high + last * unit
            unit *= shape[dim]
        elif dim == par:
            part_low, part_high = part_low + first, part_high + last
            unit = 1
        else:
            block = block + first * unit
            unit *= shape[dim]
    return block, part_low, part_high, low, high
