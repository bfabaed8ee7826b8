"""What every event waits for: values, and room in on-chip memory.

Values: read-after-write within a residence, through overlapping boxes. Room: a write waits for
earlier uses of the bytes that it overwrites; a new residence waits for those whose room it takes,
in the order in which room becomes free, and for the copy of its tensor that it replaces: the
compiler gives a tensor a few physical copies that rotate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from accelopt_simulator.latency.jit import compiled
from numpy.typing import NDArray

from accelopt_simulator.latency.program import Program
from accelopt_simulator.latency.spill import Kind, Residences, partition_share
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass
class Waits:
    """Predecessors of each event, in compressed rows.

    Attributes:
        start: row offsets.
        before: events that must come first.
        value: whether the value is needed (then its result latency counts too) or only the room.
    """

    start: Ints
    before: Ints
    value: Bools


def find_waits(
    program: Program,
    residences: Residences,
    engine: Ints,
    *,
    sbuf_bytes: float,
    psum_banks: int,
    psum_bank_bytes: float,
    copies: int,
    ring_bytes: float,
    sequential_barrier: bool,
) -> Waits:
    """Find what every event waits for.

    Args:
        program: the program.
        residences: its events.
        engine: engine code of each event.
        sbuf_bytes: bytes per partition that SBUF has.
        psum_banks, psum_bank_bytes: PSUM banks, and bytes per partition of each.
        copies: physical copies of a tensor's live tiles.
        ring_bytes: small tiles get more copies, up to this many bytes per copy.
        sequential_barrier: whether the next iteration's loads wait for this one's computing.
    """
    storage = program.tile_storage[residences.tile]
    space = program.tile_space[residences.tile]
    quadrants = partition_share(program.tile_partitions[residences.tile])
    room = program.tile_bytes[residences.tile] * np.where(space == Space.SBUF, quadrants, 1.0)
    banks = np.ceil(room / psum_bank_bytes)
    rotates = program.tile_rotates[residences.tile]
    per_tile = np.where(space == Space.SBUF, np.maximum(1, ring_bytes / np.maximum(room, 1)), 1)
    replaced = _replaced(residences, storage, np.where(rotates, copies * per_tile, 1).astype(np.int64))
    order = np.argsort(residences.last_event, kind="stable")
    starts, before, value = _waits(
        residences.kind,
        residences.subject,
        program.operand_start,
        residences.operand_residence,
        program.operand_write,
        program.operand_box,
        residences.tile,
        residences.first_event,
        residences.last_event,
        space,
        room,
        banks,
        replaced,
        order,
        engine,
        program.sequential_epoch,
        program.is_load,
        program.added,
        sequential_barrier,
        sbuf_bytes,
        float(psum_banks),
        len(program.tile_storage),
    )
    return Waits(starts, before, value)


def _replaced(residences: Residences, storage: Ints, copies: Ints) -> Ints:
    """For each residence, the earlier one of its tensor whose copy it takes; -1 = none."""
    result = np.full(len(storage), -1, dtype=np.int64)
    planned = residences.kind[residences.first_event] >= Kind.RELOAD
    # Refills that the compiler itself adds have their distance planned: they only need room.
    storage = np.where(planned, -1 - np.arange(len(storage)), storage)
    by_start = np.lexsort((residences.first_event, storage))
    groups = np.split(by_start, np.flatnonzero(np.diff(storage[by_start])) + 1)
    for group in groups:
        first, last = residences.first_event[group], residences.last_event[group]
        # Most that are live at once: starts up to each start, less ends before it.
        ended = np.searchsorted(np.sort(last), first, side="left")
        live = int((np.arange(1, len(group) + 1) - ended).max())
        distance = live * int(copies[group[0]])
        if distance < len(group):
            result[group[distance:]] = group[:-distance]
    return result


@compiled
def _waits(
    kind, subject, start, operand_residence, writes, box,
    res_tile, res_first, res_last, space, room, banks, replaced, release_order, engine,
    epoch, is_load, added, barriers, sbuf_bytes, psum_banks, num_tiles,
):  # fmt: skip
    events, num_res = len(kind), len(res_tile)
    capacity = 4 * events + 1024
    before = np.empty(capacity, dtype=np.int64)
    value = np.empty(capacity, dtype=np.bool_)
    row_start = np.empty(events + 1, dtype=np.int64)
    used = 0
    mark = np.full(events, -1, dtype=np.int64)
    slot = np.zeros(events, dtype=np.int64)
    accessor = np.full((num_res, 6), -1, dtype=np.int64)
    write_head = np.full(num_res, -1, dtype=np.int64)
    read_head = np.full(num_res, -1, dtype=np.int64)
    link = np.full(len(writes), -1, dtype=np.int64)
    by = np.full(len(writes), -1, dtype=np.int64)
    filled = np.full(num_res, -1, dtype=np.int64)
    save_event = np.full(num_tiles, -1, dtype=np.int64)
    free = np.array([sbuf_bytes, psum_banks])
    pointer = np.zeros(2, dtype=np.int64)
    left = np.zeros(num_res, dtype=np.float64)
    for r in range(num_res):
        left[r] = room[r] if space[r] == 1 else banks[r]
    found = np.empty(4096, dtype=np.int64)
    needs = np.empty(4096, dtype=np.bool_)
    current = np.int64(-1)
    recent = np.full(6, -1, dtype=np.int64)
    barrier = np.full(6, -1, dtype=np.int64)
    for e in range(events):
        row_start[e] = used
        n = 0
        if kind[e] == 0 and epoch[subject[e]] != current:
            # The iterations of a sequential loop do not overlap: the next one's loads start when
            # the computing of this one has ended.
            current = epoch[subject[e]]
            for engine_code in range(6):
                barrier[engine_code] = recent[engine_code] if current >= 0 and barriers else -1
            recent[:] = -1
        if kind[e] != 1 and (kind[e] != 0 or is_load[subject[e]]):
            for engine_code in range(6):
                if barrier[engine_code] >= 0:
                    found[n], needs[n] = barrier[engine_code], False
                    n += 1
        elif kind[e] == 0 and engine[e] != 4 and current >= 0 and not added[subject[e]]:
            recent[engine[e]] = e
        # -- residences that start here take room --------------------------------------------------
        first_k, last_k = 0, 0
        single = -1
        if kind[e] == 0:
            first_k, last_k = start[subject[e]], start[subject[e] + 1]
        elif kind[e] != 1:
            single = subject[e]
        for k in range(first_k, last_k if single < 0 else first_k + 1):
            r = single if single >= 0 else operand_residence[k]
            if r < 0 or res_first[r] != e or space[r] == 0:
                continue
            if mark[e] == r + num_res:  # the same residence twice in one instance
                continue
            pool = 0 if space[r] == 1 else 1
            want = room[r] if pool == 0 else banks[r]
            take = min(free[pool], want)
            free[pool] -= take
            want -= take
            while want > 1e-9 and pointer[pool] < num_res:
                other = release_order[pointer[pool]]
                other_pool = 0 if space[other] == 1 else 1
                if space[other] == 0 or other_pool != pool:
                    pointer[pool] += 1
                    continue
                if res_last[other] >= e:
                    break
                take = min(left[other], want)
                left[other] -= take
                want -= take
                for engine_code in range(6):
                    event = accessor[other, engine_code]
                    if event >= 0 and n < 4000:
                        found[n], needs[n] = event, False
                        n += 1
                if left[other] <= 1e-9:
                    pointer[pool] += 1
            other = replaced[r]
            if other >= 0:
                for engine_code in range(6):
                    event = accessor[other, engine_code]
                    if event >= 0 and n < 4000:
                        found[n], needs[n] = event, False
                        n += 1
        # -- values, and overwritten bytes -----------------------------------------------------------
        if kind[e] == 0:
            for k in range(first_k, last_k):
                r = operand_residence[k]
                if r < 0:
                    continue
                if filled[r] >= 0 and n < 4000:
                    found[n], needs[n] = filled[r], not writes[k]
                    n += 1
                w = write_head[r]
                while w >= 0:
                    if (
                        box[k, 0] <= box[w, 1]
                        and box[w, 0] <= box[k, 1]
                        and box[k, 2] <= box[w, 3]
                        and box[w, 2] <= box[k, 3]
                        and n < 4000
                    ):
                        found[n], needs[n] = by[w], not writes[k]
                        n += 1
                    w = link[w]
                if writes[k]:
                    w = read_head[r]
                    while w >= 0:
                        if (
                            box[k, 0] <= box[w, 1]
                            and box[w, 0] <= box[k, 1]
                            and box[k, 2] <= box[w, 3]
                            and box[w, 2] <= box[k, 3]
                            and n < 4000
                        ):
                            found[n], needs[n] = by[w], False
                            n += 1
                        w = link[w]
            for k in range(first_k, last_k):
                r = operand_residence[k]
                if r < 0:
                    continue
                by[k] = e
                if writes[k]:
                    for which in range(2):
                        previous = -1
                        w = write_head[r] if which == 0 else read_head[r]
                        while w >= 0:
                            following = link[w]
                            if (
                                box[k, 0] <= box[w, 0]
                                and box[w, 1] <= box[k, 1]
                                and box[k, 2] <= box[w, 2]
                                and box[w, 3] <= box[k, 3]
                            ):
                                if previous >= 0:
                                    link[previous] = following
                                elif which == 0:
                                    write_head[r] = following
                                else:
                                    read_head[r] = following
                            else:
                                previous = w
                            w = following
                    link[k] = write_head[r]
                    write_head[r] = k
                else:
                    link[k] = read_head[r]
                    read_head[r] = k
                accessor[r, engine[e]] = e
        elif kind[e] == 1:
            r = subject[e]
            if filled[r] >= 0:
                found[n], needs[n] = filled[r], True
                n += 1
            w = write_head[r]
            while w >= 0 and n < 4000:
                found[n], needs[n] = by[w], True
                n += 1
                w = link[w]
            save_event[res_tile[r]] = e
            accessor[r, engine[e]] = e
        else:
            r = subject[e]
            if kind[e] == 2:
                found[n], needs[n] = save_event[res_tile[r]], True
                n += 1
            filled[r] = e
            accessor[r, engine[e]] = e
        # -- each predecessor once ----------------------------------------------------------------------
        if used + n + 8 > capacity:
            capacity = 2 * capacity + n
            grown = np.empty(capacity, dtype=np.int64)
            grown[:used] = before[:used]
            before = grown
            flags = np.empty(capacity, dtype=np.bool_)
            flags[:used] = value[:used]
            value = flags
        for j in range(n):
            event = found[j]
            if event < 0 or event >= e:
                continue
            if mark[event] == e:
                if needs[j]:
                    value[slot[event]] = True
                continue
            mark[event] = e
            slot[event] = used
            before[used] = event
            value[used] = needs[j]
            used += 1
    row_start[events] = used
    return row_start, before[:used], value[:used]
