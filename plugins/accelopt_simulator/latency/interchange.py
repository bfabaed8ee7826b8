"""Loops that the compiler turns round so that repeated work can move out of them.

Work that does not depend on a loop can only leave it when that loop is the outermost one: then it
is done once, before the loop. Where the loop stands alone inside another affine loop, the two are
exchanged. Seen in the published bmm counters: three sweeps over the transposed operand are
reloaded, as if the loop over output columns stood outside the one over batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.program import Program
from accelopt_simulator.latency.stream import InstructionInstances
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import LoopKind

Ints = NDArray[np.int64]


def exchanged_loops(
    analysis: Analysis,
    instances: list[InstructionInstances],
    program: Program,
    merged: Ints,
) -> list[tuple[int, int]]:
    """(outer, inner) pairs of perfectly nested loops to exchange.

    Args:
        analysis: facts about the trace.
        instances: expanded instructions.
        program: as written.
        merged: for each tile, the equal one that is read instead of it.
    """
    first = program.first_writer()
    repeats = np.flatnonzero(merged != np.arange(len(merged)))
    # Loads alone move without their loop; only computed tiles ask for an exchange.
    repeats = repeats[(program.tile_fetch_descriptors[repeats] == 0)]
    repeats = repeats[~np.isin(repeats, program.broadcast_tiles)]
    pairs: list[tuple[int, int]] = []
    seen: set[int] = set()
    for tile in repeats[np.argsort(first[repeats], kind="stable")]:
        storage = int(program.tile_storage[tile])
        if storage in seen:
            continue
        seen.add(storage)
        here, there = int(first[tile]), int(first[merged[tile]])
        item = instances[program.item[here]]
        if program.item[here] != program.item[there]:
            continue
        a, b = program.row[here], program.row[there]
        moving = [loop for loop, values in item.loops.items() if values[a] != values[b]]
        if len(moving) == 1:
            outer = int(analysis.trace.loop_parent[moving[0]])
            if _perfectly_nested(analysis, outer, moving[0]) and (outer, moving[0]) not in pairs:
                pairs.append((outer, moving[0]))
    return pairs


def exchange(
    analysis: Analysis, instances: list[InstructionInstances], pairs: list[tuple[int, int]]
) -> list[InstructionInstances]:
    """The instructions with their order of execution changed."""
    result = []
    for item in instances:
        key = list(item.key)
        loops = list(item.loops)
        for outer, inner in pairs:
            if outer in item.loops and inner in item.loops:
                a, b = 2 * loops.index(outer) + 1, 2 * loops.index(inner) + 1
                key[a], key[b] = key[b], key[a]
        result.append(replace(item, key=key))
    return result


def _perfectly_nested(analysis: Analysis, outer: int, inner: int) -> bool:
    trace = analysis.trace
    if outer < 0:
        return False
    same = (
        trace.loop_first[outer] == trace.loop_first[inner]
        and trace.loop_last[outer] == trace.loop_last[inner]
    )
    affine = all(trace.loop_kind[loop] == LoopKind.AFFINE for loop in (outer, inner))
    fixed = not trace.terms(int(trace.loop_start[inner])) and not trace.terms(
        int(trace.loop_stop[inner])
    )
    return bool(same and affine and fixed)
