"""Which tiles stay in SBUF: residences of tiles in program order, with spills where they don't fit.

Farthest-next-use eviction over program order, the optimal replacement policy; in the feasibility
study it came within 2 % of the measured spill bytes. A tile that only loads wrote is dropped and
fetched again; a computed one is saved to HBM once and reloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.jit import compiled
from accelopt_simulator.latency.program import Program
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Kind(IntEnum):
    """What an event is."""

    INSTANCE = 0
    """An instance of the program; `subject` is its position."""
    SAVE = 1
    """A computed tile is written to HBM; `subject` is the residence."""
    RELOAD = 2
    """A saved tile is read back; `subject` is the new residence."""
    REFETCH = 3
    """A loaded tile is loaded again; `subject` is the new residence."""


INSTANCE, SAVE = int(Kind.INSTANCE), int(Kind.SAVE)
RELOAD, REFETCH = int(Kind.RELOAD), int(Kind.REFETCH)
SBUF = int(Space.SBUF)
NEVER = np.int64(2**62)


@dataclass
class Residences:
    """Events in program order, and the stays of tiles in on-chip memory.

    Attributes:
        kind, subject: of each event.
        operand_residence: residence that each operand of the program uses, -1 for HBM.
        tile: of each residence.
        first_event, last_event: first and last event of each residence.
    """

    kind: Ints
    subject: Ints
    operand_residence: Ints
    tile: Ints
    first_event: Ints
    last_event: Ints


def reside(program: Program, keep_bytes: float) -> Residences:
    """Residences of all tiles when live SBUF tiles may take `keep_bytes` per partition."""
    result = _residences(
        program.operand_start,
        program.operand_tile,
        program.operand_write,
        program.tile_space,
        program.tile_bytes * partition_share(program.tile_partitions),
        program.tile_fetch_descriptors > 0,
        program.sequential_epoch,
        program.tile_sunk,
        keep_bytes,
    )
    return Residences(*result)


def partition_share(partitions: Ints) -> Floats:
    """Share of a partition range that a tile blocks.

    Small tiles start at partition 0, 32, 64 or 96, so four rows of up to 32 partitions stand side
    by side [doc]; larger ones are given the whole range [meas: bmm].
    """
    return np.where(partitions <= 32, 0.25, 1.0)


@compiled
def _following_uses(start: Ints, tiles: Ints, num_tiles: int) -> Ints:
    """For each operand, the next instance after its own that uses its tile."""
    following = np.empty(len(tiles), dtype=np.int64)
    seen = np.full(num_tiles, NEVER, dtype=np.int64)
    for i in range(len(start) - 2, -1, -1):
        for k in range(start[i], start[i + 1]):
            following[k] = seen[tiles[k]]
        for k in range(start[i], start[i + 1]):
            seen[tiles[k]] = i
    return following


@compiled
def _victim(held: Ints, count: int, pinned: Ints, next_use: Ints, i: int) -> int:
    """The held tile that is used last, of those that instance `i` does not use; -1 = none."""
    victim = -1
    farthest = np.int64(-1)
    for h in range(count):
        tile = held[h]
        if pinned[tile] != i and next_use[tile] > farthest:
            farthest, victim = next_use[tile], tile
    return victim


@compiled
def _let_go(tile: int, held: Ints, where: Ints, tally: Floats, size: Floats) -> None:
    """Take a tile out of SBUF. `tally` is (tiles held, bytes held, bytes that are still wanted)."""
    tally[0] -= 1
    tally[1] -= size[tile]
    mover = held[int(tally[0])]
    held[where[tile]] = mover
    where[mover] = where[tile]


@compiled
def _written(start: Ints, tiles: Ints, writes: Bools, i: int, tile: int) -> bool:
    """Whether instance `i` also writes a tile."""
    found = False
    for k in range(start[i], start[i + 1]):
        found = found or (writes[k] and tiles[k] == tile)
    return found


@compiled
def _held_by(start: Ints, tiles: Ints, operand_residence: Ints, i: int, tile: int) -> int:
    """The residence that another operand of instance `i` uses a tile in; -1 = none."""
    found = -1
    for k in range(start[i], start[i + 1]):
        if tiles[k] == tile and operand_residence[k] >= 0:
            found = operand_residence[k]
    return found


@compiled
def _end(
    tile: int, residence: Ints, space: Ints, sunk: Bools, held: Ints, where: Ints, tally: Floats,
    size: Floats,
) -> None:  # fmt: skip
    """A tile is used for the last time."""
    residence[tile] = -1
    if space[tile] == SBUF:
        _let_go(tile, held, where, tally, size)
        if not sunk[tile]:  # no instance defines it, so it was never counted
            tally[2] -= size[tile]


@compiled
def _residences(
    start: Ints, tiles: Ints, writes: Bools, space: Ints, size: Floats, clean: Bools,
    epoch: Ints, sunk: Bools, capacity: float,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:  # fmt: skip
    count, num_tiles = len(start) - 1, len(space)
    following = _following_uses(start, tiles, num_tiles)
    # Each operand starts at most one residence, which is saved and reloaded at most once.
    kind = np.empty(count + 2 * len(tiles), dtype=np.int64)
    subject = np.empty(len(kind), dtype=np.int64)
    events = 0
    operand_residence = np.full(len(tiles), -1, dtype=np.int64)
    res_tile = np.empty(len(tiles), dtype=np.int64)
    res_first = np.empty(len(tiles), dtype=np.int64)
    res_last = np.empty(len(tiles), dtype=np.int64)
    num_res = 0
    residence = np.full(num_tiles, -1, dtype=np.int64)
    defined = sunk.copy()
    saved = np.zeros(num_tiles, dtype=np.bool_)
    next_use = np.full(num_tiles, NEVER, dtype=np.int64)
    pinned = np.full(num_tiles, -1, dtype=np.int64)
    held = np.empty(num_tiles, dtype=np.int64)
    where = np.full(num_tiles, -1, dtype=np.int64)
    tally = np.zeros(3)
    for i in range(count):
        leaves = i > 0 and epoch[i] != epoch[i - 1] and epoch[i - 1] >= 0
        if leaves and tally[2] > capacity:
            # A sequential loop is compiled one iteration at a time: what is carried over and does
            # not fit goes through HBM.
            while tally[0] > 0:
                tile = held[int(tally[0]) - 1]
                if not clean[tile] and not saved[tile]:
                    kind[events], subject[events] = SAVE, residence[tile]
                    res_last[residence[tile]] = events
                    events += 1
                    saved[tile] = True
                residence[tile] = -1
                _let_go(tile, held, where, tally, size)
        for k in range(start[i], start[i + 1]):
            pinned[tiles[k]] = i
        # Tiles that are read for the last time make room for what the instance writes.
        for writing in (False, True):
            for k in range(start[i], start[i + 1]):
                tile = tiles[k]
                if writes[k] != writing:
                    continue
                next_use[tile] = following[k]
                on_sbuf = space[tile] == SBUF
                if on_sbuf and not defined[tile]:
                    tally[2] += size[tile]
                if residence[tile] < 0:
                    while on_sbuf and tally[1] + size[tile] > capacity:
                        victim = _victim(held, int(tally[0]), pinned, next_use, i)
                        if victim < 0:
                            break
                        if not clean[victim] and not saved[victim]:
                            kind[events], subject[events] = SAVE, residence[victim]
                            res_last[residence[victim]] = events
                            events += 1
                            saved[victim] = True
                        residence[victim] = -1
                        _let_go(victim, held, where, tally, size)
                    if on_sbuf:
                        held[int(tally[0])] = tile
                        where[tile] = int(tally[0])
                        tally[0] += 1
                        tally[1] += size[tile]
                    res_tile[num_res] = tile
                    res_first[num_res] = -1
                    residence[tile] = num_res
                    if defined[tile] and on_sbuf:
                        kind[events] = REFETCH if clean[tile] else RELOAD
                        subject[events] = num_res
                        res_first[num_res] = events
                        events += 1
                    num_res += 1
                defined[tile] = True
            if writing:
                continue
            for k in range(start[i], start[i + 1]):
                tile = tiles[k]
                if writes[k] or residence[tile] < 0:
                    continue
                operand_residence[k] = residence[tile]
                if following[k] == NEVER and not _written(start, tiles, writes, i, tile):
                    _end(tile, residence, space, sunk, held, where, tally, size)
        kind[events], subject[events] = INSTANCE, i
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            if operand_residence[k] < 0:
                # The second read of a tile that ends here, or a write.
                operand_residence[k] = _held_by(start, tiles, operand_residence, i, tile)
            if operand_residence[k] < 0:
                operand_residence[k] = residence[tile]
            holder = operand_residence[k]
            if res_first[holder] < 0:
                res_first[holder] = events
            res_last[holder] = events
            if writes[k]:
                saved[tile] = False
                if following[k] == NEVER and residence[tile] >= 0:
                    _end(tile, residence, space, sunk, held, where, tally, size)
        events += 1
    return (
        kind[:events],
        subject[:events],
        operand_residence,
        res_tile[:num_res],
        res_first[:num_res],
        res_last[:num_res],
    )
