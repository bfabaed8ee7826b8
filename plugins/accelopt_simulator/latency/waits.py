"""What every event waits for: values, and room in on-chip memory.

Values: read-after-write within a residence, through overlapping boxes. Room: a write waits for
earlier uses of the bytes that it overwrites; a new residence waits for those whose room it takes,
in the order in which room becomes free, and for the copy of its tensor that it replaces: the
compiler gives a tensor a few physical copies that rotate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.boxes import covers, meets
from accelopt_simulator.latency.jit import compiled
from accelopt_simulator.latency.program import Program
from accelopt_simulator.latency.spill import Kind, Residences, partition_share
from accelopt_simulator.trace.schema import Engine, Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUEUES = len(Engine)
INSTANCE, SAVE, RELOAD = int(Kind.INSTANCE), int(Kind.SAVE), int(Kind.RELOAD)
HBM, SBUF, DMA = int(Space.HBM), int(Space.SBUF), int(Engine.DMA)


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
    in_sbuf = space == Space.SBUF
    share = partition_share(program.tile_partitions[residences.tile])
    taken = program.tile_bytes[residences.tile] * np.where(in_sbuf, share, 1.0)
    room = np.where(in_sbuf, taken, np.ceil(taken / psum_bank_bytes))
    per_tile = np.where(in_sbuf, np.maximum(1, ring_bytes / np.maximum(taken, 1)), 1)
    rotates = program.tile_rotates[residences.tile]
    replaced = _replaced(
        residences, storage, np.where(rotates, copies * per_tile, 1).astype(np.int64)
    )
    barriers = _barriers(program, residences, engine) if sequential_barrier else NO_BARRIERS
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
        replaced,
        np.argsort(residences.last_event, kind="stable"),
        engine,
        barriers,
        np.array([sbuf_bytes, float(psum_banks)]),
        len(program.tile_storage),
    )
    return Waits(starts, before, value)


NO_BARRIERS = np.empty((0, QUEUES), dtype=np.int64)


def _replaced(residences: Residences, storage: Ints, copies: Ints) -> Ints:
    """For each residence, the earlier one of its tensor whose copy it takes; -1 = none."""
    result = np.full(len(storage), -1, dtype=np.int64)
    planned = residences.kind[residences.first_event] >= Kind.RELOAD
    # Refills that the compiler itself adds have their distance planned: they only need room.
    storage = np.where(planned, -1 - np.arange(len(storage)), storage)
    by_start = np.lexsort((residences.first_event, storage))
    groups = np.split(by_start, np.flatnonzero(np.diff(storage[by_start])) + 1)
    for group in groups:
        if len(group) < 2:
            continue
        first, last = residences.first_event[group], residences.last_event[group]
        # Most that are live at once: starts up to each start, less ends before it.
        ended = np.searchsorted(np.sort(last), first, side="left")
        live = int((np.arange(1, len(group) + 1) - ended).max())
        distance = live * int(copies[group[0]])
        if distance < len(group):
            result[group[distance:]] = group[:-distance]
    return result


def _barriers(program: Program, residences: Residences, engine: Ints) -> Ints:
    """For each event, the last computing event per engine that it waits for; -1 = none.

    The iterations of a sequential loop do not overlap: the next one's loads start when the
    computing of this one has ended. Copies that no line asks for drain behind it, as stores do.
    """
    return _barrier_rows(
        residences.kind, residences.subject, engine,
        program.sequential_epoch, program.is_load, program.added,
    )  # fmt: skip


@compiled
def _barrier_rows(
    kind: Ints, subject: Ints, engine: Ints, epoch: Ints, is_load: Bools, added: Bools
) -> Ints:
    rows = np.full((len(kind), QUEUES), -1, dtype=np.int64)
    recent = np.full(QUEUES, -1, dtype=np.int64)
    barrier = np.full(QUEUES, -1, dtype=np.int64)
    current = np.int64(-1)
    for e in range(len(kind)):
        own = kind[e] == INSTANCE
        i = subject[e]
        if own and epoch[i] != current:
            current = epoch[i]
            for q in range(QUEUES):
                barrier[q] = recent[q] if current >= 0 else -1
                recent[q] = -1
        if (own and is_load[i]) or kind[e] >= RELOAD:
            rows[e] = barrier
        elif own and engine[e] != DMA and current >= 0 and not added[i]:
            recent[engine[e]] = e
    return rows


@compiled
def _add(event: int, needed: bool, e: int, slot: Ints, found: Ints, needs: Bools, n: int) -> int:
    """Append an event that event `e` waits for; each once, so that `found` holds any number.

    `slot` is where an event stands in `found`, if it does.
    """
    if event < 0 or event >= e:
        return n
    at = slot[event]
    if at < n and found[at] == event:
        needs[at] = needs[at] or needed
        return n
    slot[event], found[n], needs[n] = n, event, needed
    return n + 1


@compiled
def _add_overlapping(
    box: Ints, link: Ints, by: Ints, head: int, k: int, needed: bool,
    e: int, slot: Ints, found: Ints, needs: Bools, n: int,
) -> int:  # fmt: skip
    """Append the events of a list of operands whose boxes meet that of operand `k`."""
    other = head
    while other >= 0:
        if meets(box, k, other):
            n = _add(by[other], needed, e, slot, found, needs, n)
        other = link[other]
    return n


@compiled
def _forget_covered(box: Ints, link: Ints, heads: Ints, r: int, k: int) -> None:
    """Take operands that operand `k` covers out of the list of residence `r`."""
    previous = -1
    other = heads[r]
    while other >= 0:
        following = link[other]
        if not covers(box, k, other):
            previous = other
        elif previous >= 0:
            link[previous] = following
        else:
            heads[r] = following
        other = following


@compiled
def _add_users(
    accessor: Ints, r: int, e: int, slot: Ints, found: Ints, needs: Bools, n: int
) -> int:
    """Append the last use of a residence by each engine."""
    for q in range(QUEUES):
        n = _add(accessor[r, q], False, e, slot, found, needs, n)
    return n


@compiled
def _add_room(
    r: int, e: int, room: Floats, space: Ints, free: Floats, pointer: Ints, left: Floats,
    release_order: Ints, res_last: Ints, accessor: Ints, slot: Ints, found: Ints, needs: Bools,
    n: int,
) -> int:  # fmt: skip
    """Append the users of the residences whose room residence `r` takes, oldest release first."""
    pool = 0 if space[r] == SBUF else 1
    take = min(free[pool], room[r])
    free[pool] -= take
    want = room[r] - take
    while want > 1e-9 and pointer[pool] < len(release_order):
        other = release_order[pointer[pool]]
        if space[other] == HBM or (space[other] == SBUF) != (pool == 0):
            pointer[pool] += 1
            continue
        if res_last[other] >= e:
            break
        take = min(left[other], want)
        left[other] -= take
        want -= take
        n = _add_users(accessor, other, e, slot, found, needs, n)
        if left[other] <= 1e-9:
            pointer[pool] += 1
    return n


@compiled
def _grown(array: Any, used: int, extra: int) -> Any:
    """The array, or a larger copy when `extra` more entries don't fit."""
    if used + extra <= len(array):
        return array
    result = np.empty(2 * len(array) + extra, dtype=array.dtype)
    result[:used] = array[:used]
    return result


@compiled
def _waits(
    kind: Ints, subject: Ints, start: Ints, operand_residence: Ints, writes: Bools, box: Ints,
    res_tile: Ints, res_first: Ints, res_last: Ints, space: Ints, room: Floats, replaced: Ints,
    release_order: Ints, engine: Ints, barriers: Ints, capacity: Floats, num_tiles: int,
) -> tuple[Ints, Ints, Bools]:  # fmt: skip
    events, num_res = len(kind), len(res_tile)
    before = np.empty(4 * events + 1024, dtype=np.int64)
    value = np.empty(len(before), dtype=np.bool_)
    row_start = np.empty(events + 1, dtype=np.int64)
    used = 0
    slot = np.zeros(events, dtype=np.int64)
    accessor = np.full((num_res, QUEUES), -1, dtype=np.int64)
    write_head = np.full(num_res, -1, dtype=np.int64)
    read_head = np.full(num_res, -1, dtype=np.int64)
    link = np.full(len(writes), -1, dtype=np.int64)
    by = np.full(len(writes), -1, dtype=np.int64)
    filled = np.full(num_res, -1, dtype=np.int64)
    save_event = np.full(num_tiles, -1, dtype=np.int64)
    begun = np.zeros(num_res, dtype=np.bool_)
    free = capacity.copy()
    pointer = np.zeros(2, dtype=np.int64)
    left = room.copy()
    found = np.empty(events, dtype=np.int64)
    needs = np.empty(events, dtype=np.bool_)
    for e in range(events):
        row_start[e] = used
        n = 0
        own = kind[e] == INSTANCE
        first = start[subject[e]] if own else 0
        last = start[subject[e] + 1] if own else 0
        if len(barriers):
            for q in range(QUEUES):
                n = _add(barriers[e, q], False, e, slot, found, needs, n)
        # Residences that start here take room.
        for at in range(last - first if own else 1):
            r = operand_residence[first + at] if own else subject[e]
            if r < 0 or begun[r] or res_first[r] != e:
                continue
            begun[r] = True
            if space[r] != HBM:
                n = _add_room(
                    r, e, room, space, free, pointer, left,
                    release_order, res_last, accessor, slot, found, needs, n,
                )  # fmt: skip
            if replaced[r] >= 0:
                n = _add_users(accessor, replaced[r], e, slot, found, needs, n)
        if own:
            for k in range(first, last):
                r = operand_residence[k]
                if r < 0:
                    continue
                n = _add(filled[r], not writes[k], e, slot, found, needs, n)
                n = _add_overlapping(
                    box, link, by, write_head[r], k, not writes[k], e, slot, found, needs, n
                )
                if writes[k]:
                    n = _add_overlapping(
                        box, link, by, read_head[r], k, False, e, slot, found, needs, n
                    )
            for k in range(first, last):
                r = operand_residence[k]
                if r < 0:
                    continue
                by[k] = e
                accessor[r, engine[e]] = e
                if writes[k]:
                    _forget_covered(box, link, write_head, r, k)
                    _forget_covered(box, link, read_head, r, k)
                    link[k], write_head[r] = write_head[r], k
                else:
                    link[k], read_head[r] = read_head[r], k
        elif kind[e] == SAVE:
            r = subject[e]
            n = _add(filled[r], True, e, slot, found, needs, n)
            other = write_head[r]
            while other >= 0:
                n = _add(by[other], True, e, slot, found, needs, n)
                other = link[other]
            save_event[res_tile[r]] = e
            accessor[r, engine[e]] = e
        else:
            r = subject[e]
            if kind[e] == RELOAD:
                n = _add(save_event[res_tile[r]], True, e, slot, found, needs, n)
            filled[r] = e
            accessor[r, engine[e]] = e
        before = _grown(before, used, n)
        value = _grown(value, used, n)
        before[used : used + n] = found[:n]
        value[used : used + n] = needs[:n]
        used += n
    row_start[events] = used
    return row_start, before[:used], value[:used]
