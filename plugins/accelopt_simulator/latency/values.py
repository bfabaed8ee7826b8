"""Which tiles hold the same values: value numbering over a program.

A tile is *settled* when all its writes come before its first read and none overlap. Two settled
tiles with the same pieces, computed by the same function of the same values, are equal, so a
compiler may keep the first and drop the work for the second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.boxes import meets
from accelopt_simulator.latency.jit import compiled
from accelopt_simulator.latency.program import Program

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def equal_tiles(program: Program) -> Ints:
    """For each tile, the first tile with the same values (itself when there is none earlier)."""
    count = len(program.tile_storage)
    digest, first_write = _digests(
        program.signature,
        program.pure,
        program.operand_start,
        program.operand_tile,
        program.operand_write,
        program.operand_box,
        count,
    )
    result = np.arange(count)
    settled = np.flatnonzero(digest != 0)
    if not len(settled):
        return result
    order = settled[np.argsort(first_write[settled], kind="stable")]
    _, first, inverse = np.unique(digest[order], return_index=True, return_inverse=True)
    result[order] = order[first[inverse]]
    return result


@compiled
def _mix(value: np.uint64, other: np.uint64) -> np.uint64:
    value = np.uint64(value) ^ (np.uint64(other) * np.uint64(0x9E3779B97F4A7C15))
    value = (value ^ (value >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(32))


@compiled
def _loose_tiles(
    start: Ints, tiles: Ints, writes: Bools, box: Ints, num_tiles: int
) -> tuple[Bools, Ints]:
    """Tiles that are written after a read or twice in one place; and who writes each first."""
    was_read = np.zeros(num_tiles, dtype=np.bool_)
    loose = np.zeros(num_tiles, dtype=np.bool_)
    head = np.full(num_tiles, -1, dtype=np.int64)
    link = np.full(len(tiles), -1, dtype=np.int64)
    first_write = np.full(num_tiles, np.int64(2**62), dtype=np.int64)
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            if not writes[k]:
                was_read[tile] = True
                continue
            first_write[tile] = min(first_write[tile], i)
            if was_read[tile]:
                loose[tile] = True
            if loose[tile]:
                continue
            other = head[tile]
            while other >= 0:
                if meets(box, k, other):
                    loose[tile] = True
                    break
                other = link[other]
            link[k] = head[tile]
            head[tile] = k
    return loose, first_write


@compiled
def _digests(
    signature: Ints, pure: Bools, start: Ints, tiles: Ints, writes: Bools, box: Ints, num_tiles: int
) -> tuple[NDArray[np.uint64], Ints]:
    """Digest of each settled tile's contents (0 = not settled), and the instance that starts it."""
    loose, first_write = _loose_tiles(start, tiles, writes, box, num_tiles)
    head = np.full(num_tiles, -1, dtype=np.int64)
    link = np.full(len(tiles), -1, dtype=np.int64)
    value = np.zeros(len(tiles), dtype=np.uint64)
    digest = np.zeros(num_tiles, dtype=np.uint64)
    for i in range(len(signature)):
        known = pure[i]
        number = _mix(np.uint64(signature[i]), np.uint64(1))
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            if writes[k]:
                continue
            if loose[tile]:
                known = False
                break
            found = np.uint64(0)
            other = head[tile]
            while other >= 0:
                if meets(box, k, other):
                    piece = value[other]
                    for side in range(4):
                        anchor = 0 if side < 2 else 2
                        piece = _mix(piece, np.uint64(box[k, side] - box[other, anchor]))
                    found += piece
                other = link[other]
            number = _mix(number, found)
        if not known:
            number = _mix(np.uint64(i), np.uint64(2))
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            if not writes[k]:
                continue
            if loose[tile]:
                continue
            value[k] = _mix(number, np.uint64(k - start[i]))
            link[k] = head[tile]
            head[tile] = k
            piece = value[k]
            for side in range(4):
                piece = _mix(piece, np.uint64(box[k, side]))
            digest[tile] += piece | np.uint64(1)
    for tile in range(num_tiles):
        if loose[tile]:
            digest[tile] = np.uint64(0)
    return digest, first_write
