"""Options of a matmul: PE tiling, rows in pairs, masked contraction rows (spec 3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ARRAY = 128
"""Rows and columns of the PE array."""

STEP = 32
"""PE tiles start and end at multiples of this."""

DOUBLE_ROW = "double_row_gen3"


def matmul_problems(
    grids: dict[str, tuple[int, ...]], attrs: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """(rule, message) of everything that is wrong."""
    stationary, moving = grids["stationary"], grids["moving"]
    first = 1
    if "perf_mode" in attrs:
        first = 2
        if attrs["perf_mode"] != DOUBLE_ROW:
            yield "unsupported_op", "a performance mode of nc_matmul that has no rule"
        if min(len(stationary), len(moving)) < 3 or stationary[1] != 2 or moving[1] != 2:
            yield "shape_mismatch", f"rows in pairs are (K, 2, F), not {stationary} and {moving}"
            return
    for role, grid in grids.items():
        if role.startswith("keep_") and grid != (stationary[0], 1):
            yield "shape_mismatch", f"a mask of contraction rows is {grid}"
    yield from _tiling(attrs, stationary[0], _product(stationary[first:]))


def _product(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def _tiling(attrs: dict[str, Any], rows: int, columns: int) -> Iterator[tuple[str, str]]:
    position, size = attrs.get("tile_position"), attrs.get("tile_size")
    if position is None and size is None:
        return
    if (
        not isinstance(position, list)
        or not isinstance(size, list)
        or not all(
            len(pair) == 2 and all(type(v) is int and v >= 0 and v % STEP == 0 for v in pair)
            for pair in (position, size)
        )
    ):
        yield "pe_tile", f"tile_position and tile_size are pairs of multiples of {STEP}"
        return
    if min(size) < STEP or any(p + s > ARRAY for p, s in zip(position, size, strict=True)):
        yield "pe_tile", f"a PE tile of {size} at {position} leaves the array of {ARRAY}"
    if rows > size[0] or columns > size[1]:
        yield "pe_tile", f"a stationary tile of {rows} x {columns} in a PE tile of {size}"
