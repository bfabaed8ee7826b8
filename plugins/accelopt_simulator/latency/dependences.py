"""Data dependences between instruction instances, from overlapping tile regions.

Read-after-write, write-after-read and write-after-write within a tile; and, between the fresh
tiles that a loop makes in each iteration, a write waits for the last use of the copy it overwrites:
the compiler gives such a tile a small number of physical copies.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.stream import InstructionInstances
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]
Box = tuple[int, int, int, int]
Iteration = tuple[int, ...]


@dataclass
class _Tile:
    """Uses of one tile (one block of one tensor), since it was last made afresh."""

    generation: Iteration | None = None
    writes: list[tuple[Box, int]] = field(default_factory=list)
    reads: list[tuple[Box, int]] = field(default_factory=list)
    retired: deque[list[int]] = field(default_factory=deque)


@dataclass
class Dependences:
    """Dependences of each instance, in compressed rows.

    Attributes:
        start: row offsets.
        before: instances that must come first.
        data: whether the value is needed (then the result latency counts too) or only the place.
    """

    start: Ints
    before: Ints
    data: NDArray[np.bool_]


def find_dependences(
    instances: list[InstructionInstances],
    which: Ints,
    within: Ints,
    *,
    generation_loops: dict[int, int],
    tracked_hbm: set[int],
    copies: int,
) -> Dependences:
    """Find what every instance waits for.

    Args:
        instances: expanded instructions.
        which, within: program order.
        generation_loops: storage tensor -> loop whose iterations make its tiles afresh, -1: never.
        tracked_hbm: HBM tensors that are both written and read.
        copies: physical copies of a tile that a loop makes afresh.
    """
    tiles: dict[tuple[int, int], _Tile] = {}
    starts = [0]
    before: list[int] = []
    data: list[bool] = []
    plans = [_plan(item, generation_loops, tracked_hbm) for item in instances]
    for position, (kind, row) in enumerate(zip(which.tolist(), within.tolist(), strict=True)):
        found: dict[int, bool] = {}
        plan = plans[kind]
        if plan.alive[row]:
            touched = []
            for operand in plan.operands:
                tile = tiles.setdefault((operand.storage, operand.blocks[row]), _Tile())
                generation = operand.generations[row]
                if generation != tile.generation:
                    _renew(tile, generation, copies)
                box = operand.boxes[row]
                _collect(tile, box, operand.written, found, copies)
                touched.append((tile, box, operand.written))
            for tile, box, written in touched:
                _record(tile, box, written, position)
        found.pop(position, None)
        before += found.keys()
        data += found.values()
        starts.append(len(before))
    return Dependences(
        np.array(starts, dtype=np.int64),
        np.array(before, dtype=np.int64),
        np.array(data, dtype=np.bool_),
    )


@dataclass
class _Operand:
    storage: int
    written: bool
    blocks: list[int]
    boxes: list[Box]
    generations: list[Iteration]


@dataclass
class _Plan:
    alive: list[bool]
    operands: list[_Operand]


def _plan(
    item: InstructionInstances, generation_loops: dict[int, int], tracked_hbm: set[int]
) -> _Plan:
    operands = []
    for _, region, written, (block, p0, p1, f0, f1) in item.operands:
        if region.space is Space.HBM and region.storage not in tracked_hbm:
            continue
        count = len(item.alive)
        loop = generation_loops.get(region.storage, -1)
        generation = _generation(item, loop, count)
        columns = [np.broadcast_to(c, count).tolist() for c in (p0, p1, f0, f1)]
        folded = loop >= 0
        operands.append(
            _Operand(
                region.storage,
                written,
                # A folded block dimension is not a place of its own: its blocks share the copies.
                [0] * count if folded and region.space is not Space.HBM and _all_folded(item, loop)
                else np.broadcast_to(block, count).tolist(),
                list(zip(*columns, strict=True)),
                generation,
            )
        )  # fmt: skip
    # Reads first: an instruction that updates a tile in place depends on its old value.
    operands.sort(key=lambda operand: operand.written)
    return _Plan(item.alive.tolist(), operands)


def _all_folded(item: InstructionInstances, loop: int) -> bool:
    return loop in item.loops


def _generation(item: InstructionInstances, loop: int, count: int) -> list[Iteration]:
    """Which iteration (of `loop` and all loops around it) each instance belongs to.

    Loop values, not a running number: another instruction may skip iterations, in an inner loop
    that does not always run, and must still meet the same generation.
    """
    if loop < 0 or loop not in item.loops:
        return [()] * count
    outer: list[list[int]] = []
    for lp, values in item.loops.items():
        outer.append(values.tolist())
        if lp == loop:
            break
    return list(zip(*outer, strict=True))


def _renew(tile: _Tile, generation: Iteration, copies: int) -> None:
    """Start a new iteration's tile: its predecessors' uses now only reserve their copies."""
    if tile.generation is not None:
        tile.retired.append([p for _, p in tile.writes] + [p for _, p in tile.reads])
        while len(tile.retired) > copies:
            tile.retired.popleft()
    tile.generation = generation
    tile.writes, tile.reads = [], []


def _collect(tile: _Tile, box: Box, written: bool, found: dict[int, bool], copies: int) -> None:
    for other, position in tile.writes:
        if _overlap(box, other):
            found[position] = found.get(position, False) or not written
    if not written:
        return
    for other, position in tile.reads:
        if _overlap(box, other):
            found.setdefault(position, False)
    if len(tile.retired) == copies:
        for position in tile.retired[0]:
            found.setdefault(position, False)


def _record(tile: _Tile, box: Box, written: bool, position: int) -> None:
    if written:
        tile.writes = [(b, p) for b, p in tile.writes if not _inside(b, box)]
        tile.writes.append((box, position))
        tile.reads = [(b, p) for b, p in tile.reads if not _inside(b, box)]
    else:
        tile.reads.append((box, position))


def _overlap(a: Box, b: Box) -> bool:
    return a[0] <= b[1] and b[0] <= a[1] and a[2] <= b[3] and b[2] <= a[3]


def _inside(a: Box, b: Box) -> bool:
    return b[0] <= a[0] and a[1] <= b[1] and b[2] <= a[2] and a[3] <= b[3]
