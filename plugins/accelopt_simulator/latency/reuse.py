"""What the compiler does not do twice: repeated loads and computations, and work nobody reads.

Seen in the published counters: repeated loads, explicit transposes and copies are dropped even
across loop nests when the tiles to be kept fit SBUF; transposes that `nl.matmul` implies are not; a
broadcast is only hoisted when it never changes. A sequential loop is compiled one iteration at a
time, so only one iteration's tiles count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.jit import compiled
from accelopt_simulator.latency.program import Program
from accelopt_simulator.latency.values import equal_tiles
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def mergers(program: Program, keep_bytes: float, also: frozenset[int] = frozenset()) -> Ints:
    """For each tile, the equal tile to read instead of it (itself where there is none).

    Args:
        program: as written.
        keep_bytes: bytes per partition that the tiles of one merged group may take.
        also: tensors whose tiles are merged whatever they take.
    """
    return _mergers(program, equal_tiles(program), keep_bytes, also)


def without_repeats(program: Program, merged: Ints) -> Program:
    """The program with equal tiles merged, and dead work removed.

    Args:
        program: as written.
        merged: from `mergers`.
    """
    tiles = program.operand_tile.copy()
    reads = ~program.operand_write & (tiles >= 0)
    tiles[reads] = merged[tiles[reads]]
    return drop_useless(replace(program, operand_tile=tiles))


def drop_useless(program: Program) -> Program:
    """The program without instances whose results nobody reads."""
    alive = _needed(
        program.has_effect,
        program.adds,
        program.operand_start,
        program.operand_tile,
        program.operand_write,
        program.operand_box,
        program.tile_space,
    )
    return select(program, alive)


def _mergers(program: Program, equal: Ints, keep_bytes: float, also: frozenset[int]) -> Ints:
    count = len(equal)
    merged = np.arange(count)
    first = program.first_writer()
    broadcast = np.zeros(count, dtype=np.bool_)
    broadcast[program.broadcast_tiles] = True
    repeated = (equal != merged) & (program.tile_space == Space.SBUF)
    family = program.tile_storage[equal]
    for group in np.unique(family[repeated]):
        members = np.flatnonzero((family == group) & (program.tile_space == Space.SBUF))
        members = members[np.argsort(first[members], kind="stable")]
        leaders = equal[members]
        distinct, where = np.unique(leaders, return_inverse=True)
        if broadcast[members].any() and len(distinct) > 1:
            continue
        size = program.tile_bytes[members[0]]
        ordinal = np.arange(len(members))
        previous = np.full(len(members), -1)
        by_leader = np.lexsort((ordinal, where))
        same = where[by_leader][1:] == where[by_leader][:-1]
        previous[by_leader[1:][same]] = by_leader[:-1][same]
        if not same.any():  # what they repeat lies in another memory
            continue
        gap = (ordinal - previous)[previous >= 0].max() * size
        epochs = program.sequential_epoch[first[distinct]]
        together = np.unique(epochs, return_counts=True)[1].max() * size
        if int(group) in also or min(gap, together) <= keep_bytes:
            merged[members] = leaders
    return merged


def select(program: Program, alive: Bools) -> Program:
    """The program with only some of its instances."""
    counts = np.diff(program.operand_start)
    rows = np.repeat(alive, counts)
    return replace(
        program,
        item=program.item[alive],
        row=program.row[alive],
        engine=program.engine[alive],
        ports=program.ports[alive],
        signature=program.signature[alive],
        pure=program.pure[alive],
        is_load=program.is_load[alive],
        has_effect=program.has_effect[alive],
        adds=program.adds[alive],
        added=program.added[alive],
        sequential_epoch=program.sequential_epoch[alive],
        bytes=program.bytes[alive],
        descriptors=program.descriptors[alive],
        operand_start=np.concatenate(([0], np.cumsum(counts[alive]))).astype(np.int64),
        operand_tile=program.operand_tile[rows],
        operand_write=program.operand_write[rows],
        operand_box=program.operand_box[rows],
    )


@compiled
def _needed(
    has_effect: Bools, adds: Bools, start: Ints, tiles: Ints, writes: Bools, box: Ints, space: Ints
) -> Bools:
    """Which instances somebody reads, going backwards; a write of a whole tile ends the need."""
    count = len(has_effect)
    num_tiles = len(space)
    extent = np.empty((num_tiles, 4), dtype=np.int64)
    for side in range(4):
        extent[:, side] = 2**62 if side % 2 == 0 else -(2**62)
    for k in range(len(tiles)):
        for side in range(4):
            edge = extent[tiles[k], side]
            at = box[k, side]
            extent[tiles[k], side] = min(edge, at) if side % 2 == 0 else max(edge, at)
    needed = np.zeros(num_tiles, dtype=np.bool_)
    alive = np.zeros(count, dtype=np.bool_)
    for i in range(count - 1, -1, -1):
        keep = has_effect[i]
        for k in range(start[i], start[i + 1]):
            if writes[k]:
                keep = keep or needed[tiles[k]]
        alive[i] = keep
        if not keep:
            continue
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            whole = (
                box[k, 0] <= extent[tile, 0]
                and box[k, 1] >= extent[tile, 1]
                and box[k, 2] <= extent[tile, 2]
                and box[k, 3] >= extent[tile, 3]
            )
            if writes[k] and whole and not adds[i]:
                needed[tile] = False
        for k in range(start[i], start[i + 1]):
            if not writes[k]:
                needed[tiles[k]] = True
    return alive
