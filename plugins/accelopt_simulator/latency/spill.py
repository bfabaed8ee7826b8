"""Which tiles stay in SBUF: residences of tiles in program order, with spills where they don't fit.

Farthest-next-use eviction over program order, the optimal replacement policy; in the feasibility
study it came within 2 % of the measured spill bytes. A tile that only loads wrote is dropped and
fetched again; a computed one is saved to HBM once and reloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from accelopt_simulator.latency.jit import compiled
from numpy.typing import NDArray

from accelopt_simulator.latency.program import Program
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
        int(Space.SBUF),
    )
    return Residences(*result)


def partition_share(partitions: Ints) -> Floats:
    """Share of a partition range that a tile blocks.

    Small tiles start at partition 0, 32, 64 or 96, so four rows of up to 32 partitions stand side by
    side [doc]; larger ones are given the whole range [meas: bmm].
    """
    return np.where(partitions <= 32, 0.25, 1.0)


@compiled
def _residences(start, tiles, writes, space, size, clean, epoch, sunk, capacity, sbuf):
    count = len(start) - 1
    num_tiles = len(space)
    # next use of each operand's tile, as an instance position; 2**62 = never
    never = np.int64(2**62)
    following = np.empty(len(tiles), dtype=np.int64)
    seen = np.full(num_tiles, never, dtype=np.int64)
    for i in range(count - 1, -1, -1):
        for k in range(start[i], start[i + 1]):
            if tiles[k] >= 0:
                following[k] = seen[tiles[k]]
        for k in range(start[i], start[i + 1]):
            if tiles[k] >= 0:
                seen[tiles[k]] = i
    # Each operand starts at most one residence, which is saved and reloaded at most once.
    room = count + 2 * len(tiles)
    kind = np.empty(room, dtype=np.int64)
    subject = np.empty(room, dtype=np.int64)
    events = 0
    operand_residence = np.full(len(tiles), -1, dtype=np.int64)
    res_tile = np.empty(len(tiles), dtype=np.int64)
    res_first = np.empty(len(tiles), dtype=np.int64)
    res_last = np.empty(len(tiles), dtype=np.int64)
    num_res = 0
    residence = np.full(num_tiles, -1, dtype=np.int64)
    defined = sunk.copy()
    saved = np.zeros(num_tiles, dtype=np.bool_)
    next_use = np.full(num_tiles, never, dtype=np.int64)
    pinned = np.full(num_tiles, -1, dtype=np.int64)
    held = np.empty(num_tiles, dtype=np.int64)
    where = np.full(num_tiles, -1, dtype=np.int64)
    num_held = 0
    live = 0.0
    wanted = 0.0
    for i in range(count):
        if i and epoch[i] != epoch[i - 1] and epoch[i - 1] >= 0 and wanted > capacity:
            # A sequential loop is compiled one iteration at a time: what is carried over and does
            # not fit goes through HBM.
            for h in range(num_held - 1, -1, -1):
                other = held[h]
                if not clean[other] and not saved[other]:
                    kind[events] = 1
                    subject[events] = residence[other]
                    res_last[residence[other]] = events
                    events += 1
                    saved[other] = True
                residence[other] = -1
                live -= size[other]
            num_held = 0
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            if tile >= 0:
                pinned[tile] = i
        # Tiles that die here make room for what the instance writes.
        for step in range(2):
            for k in range(start[i], start[i + 1]):
                tile = tiles[k]
                if tile < 0 or writes[k] != (step == 1):
                    continue
                next_use[tile] = following[k]
                if residence[tile] < 0:
                    if space[tile] == sbuf:
                        extra = size[tile]
                        while live + extra > capacity:
                            victim = -1
                            farthest = np.int64(-1)
                            for h in range(num_held):
                                other = held[h]
                                if pinned[other] == i:
                                    continue
                                if next_use[other] > farthest:
                                    farthest = next_use[other]
                                    victim = other
                            if victim < 0:
                                break
                            if not clean[victim] and not saved[victim] and next_use[victim] < never:
                                kind[events] = 1
                                subject[events] = residence[victim]
                                res_last[residence[victim]] = events
                                events += 1
                                saved[victim] = True
                            residence[victim] = -1
                            live -= size[victim]
                            num_held -= 1
                            mover = held[num_held]
                            held[where[victim]] = mover
                            where[mover] = where[victim]
                        live += extra
                        held[num_held] = tile
                        where[tile] = num_held
                        num_held += 1
                    res_tile[num_res] = tile
                    residence[tile] = num_res
                    if defined[tile] and space[tile] == sbuf:
                        kind[events] = 3 if clean[tile] else 2
                        subject[events] = num_res
                        res_first[num_res] = events
                        res_last[num_res] = events
                        events += 1
                    else:
                        res_first[num_res] = -1
                    num_res += 1
                if not defined[tile] and space[tile] == sbuf:
                    wanted += size[tile]
                defined[tile] = True
            if step == 0:
                for k in range(start[i], start[i + 1]):
                    tile = tiles[k]
                    if tile >= 0 and not writes[k] and residence[tile] >= 0:
                        operand_residence[k] = residence[tile]
                for k in range(start[i], start[i + 1]):
                    tile = tiles[k]
                    if tile >= 0 and not writes[k] and following[k] == never:
                        used_again = False
                        for j in range(start[i], start[i + 1]):
                            if tiles[j] == tile and writes[j]:
                                used_again = True
                        if not used_again and residence[tile] >= 0:
                            res_last[residence[tile]] = -2  # set to this event below
                            if space[tile] == sbuf:
                                live -= size[tile]
                                wanted -= size[tile]
                                num_held -= 1
                                mover = held[num_held]
                                held[where[tile]] = mover
                                where[mover] = where[tile]
                            residence[tile] = -1
        kind[events] = 0
        subject[events] = i
        for k in range(start[i], start[i + 1]):
            tile = tiles[k]
            if tile < 0:
                continue
            if operand_residence[k] < 0:
                operand_residence[k] = residence[tile]
            holder = operand_residence[k]
            if res_first[holder] < 0:
                res_first[holder] = events
            res_last[holder] = events
            if writes[k]:
                saved[tile] = False
                if following[k] == never and residence[tile] >= 0:
                    residence[tile] = -1
                    if space[tile] == sbuf:
                        live -= size[tile]
                        wanted -= size[tile]
                        num_held -= 1
                        mover = held[num_held]
                        held[where[tile]] = mover
                        where[mover] = where[tile]
        events += 1
    return (
        kind[:events],
        subject[:events],
        operand_residence,
        res_tile[:num_res],
        res_first[:num_res],
        res_last[:num_res],
    )
