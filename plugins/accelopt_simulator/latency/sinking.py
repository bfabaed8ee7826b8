"""Loads that the compiler moves to where their tiles are used.

A buffer that a kernel loads before a loop and that is too large to be kept through it is not kept
in part: its loads move into the loop and run again in each iteration. Seen in the published matmul
baseline, whose 160 KiB of weights per partition are read once per row block.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.program import Program
from accelopt_simulator.latency.reuse import drop_useless
from accelopt_simulator.latency.stream import InstructionInstances
from accelopt_simulator.trace.schema import Space

Ints = NDArray[np.int64]


def sink_large_loads(
    program: Program, instances: list[InstructionInstances], keep_bytes: float
) -> Program:
    """The program with a tile of its own for each iteration that uses a sunk tile.

    Args:
        program: without repeats.
        instances: what it was built from.
        keep_bytes: bytes per partition that the live tiles of one loaded tensor may take.
    """
    owner = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    loaded = (program.tile_fetch_descriptors > 0) & (program.tile_space == Space.SBUF)
    for storage in np.unique(program.tile_storage[loaded]):
        mine = (program.tile_storage == storage)[program.operand_tile]
        writes = np.flatnonzero(mine & program.operand_write)
        reads = np.flatnonzero(mine & ~program.operand_write)
        if not len(writes) or not len(reads) or not _too_large(program, storage, owner, keep_bytes):
            continue
        loads = np.unique(program.item[owner[writes]])
        loops_of_loads = {lp for item in loads for lp in instances[item].loops}
        epochs = _epochs(program, instances, owner[reads], loops_of_loads)
        if epochs is None:
            continue
        # Each use fetches only what it reads of the tile.
        box = program.operand_box[reads]
        pieces = np.stack([program.operand_tile[reads], epochs, box[:, 2], box[:, 3]])
        distinct, renamed = np.unique(pieces, axis=1, return_inverse=True)
        origin = distinct[0]
        whole = _free_extent(program, origin)
        share = np.minimum(1.0, (distinct[3] - distinct[2] + 1) / whole)
        tiles = program.operand_tile.copy()
        tiles[reads] = len(program.tile_storage) + renamed.reshape(-1)
        program = replace(
            program,
            operand_tile=tiles,
            tile_storage=np.concatenate([program.tile_storage, program.tile_storage[origin]]),
            tile_space=np.concatenate([program.tile_space, program.tile_space[origin]]),
            tile_bytes=np.concatenate([program.tile_bytes, share * program.tile_bytes[origin]]),
            tile_partitions=np.concatenate(
                [program.tile_partitions, program.tile_partitions[origin]]
            ),
            tile_fetch_descriptors=np.concatenate(
                [program.tile_fetch_descriptors, share * program.tile_fetch_descriptors[origin]]
            ),
            tile_rotates=np.concatenate([program.tile_rotates, program.tile_rotates[origin]]),
            tile_sunk=np.concatenate([program.tile_sunk, np.ones(len(origin), dtype=np.bool_)]),
        )
    return drop_useless(program) if program.tile_sunk.any() else program


def _free_extent(program: Program, tiles: Ints) -> Ints:
    """Elements per partition that the writes of each tile span."""
    low = np.full(len(program.tile_storage), 2**62, dtype=np.int64)
    high = np.full(len(program.tile_storage), -1, dtype=np.int64)
    writes = program.operand_write
    np.minimum.at(low, program.operand_tile[writes], program.operand_box[writes, 2])
    np.maximum.at(high, program.operand_tile[writes], program.operand_box[writes, 3])
    return (high - low + 1)[tiles]


def _too_large(program: Program, storage: int, owner: Ints, keep_bytes: float) -> bool:
    """Whether the tiles of a tensor that are live at once, in program order, exceed the limit."""
    mine = (program.tile_storage == storage)[program.operand_tile]
    tiles, where = program.operand_tile[mine], owner[mine]
    first = np.full(len(program.tile_storage), len(program), dtype=np.int64)
    last = np.full(len(program.tile_storage), -1, dtype=np.int64)
    np.minimum.at(first, tiles, where)
    np.maximum.at(last, tiles, where)
    used = np.unique(tiles)
    step = np.zeros(len(program) + 1)
    np.add.at(step, first[used], program.tile_bytes[used])
    np.add.at(step, last[used] + 1, -program.tile_bytes[used])
    return bool(np.cumsum(step).max() > keep_bytes)


def _epochs(
    program: Program, instances: list[InstructionInstances], readers: Ints, of_loads: set[int]
) -> Ints | None:
    """For each reading instance, its iteration of the outermost loop that the loads are not in.

    None when some reader is in no such loop: there is nothing to sink into.
    """
    epochs = np.zeros(len(readers), dtype=np.int64)
    for index in np.unique(program.item[readers]):
        item = instances[index]
        at = np.flatnonzero(program.item[readers] == index)
        rows = program.row[readers[at]]
        number = np.zeros(len(rows), dtype=np.int64)
        for loop, values in item.loops.items():
            number = number * (int(values.max()) + 1) + values[rows]
            if loop not in of_loads:
                break
        else:
            return None
        epochs[at] = number
    return epochs
