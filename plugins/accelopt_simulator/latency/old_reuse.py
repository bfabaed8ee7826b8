"""Repeated loads that the compiler keeps on chip.

The real compiler removes a load of a region that was loaded before, as long as the kept tiles fit.
The
rule here is all or nothing per load instruction: its distinct tiles, together with what else lives
on chip, must fit the part of SBUF that the compiler is seen to use for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.stream import InstructionInstances, is_load
from accelopt_simulator.trace.schema import Space, TensorRole, Trace


def repeated_loads(
    trace: Trace,
    instances: list[InstructionInstances],
    working_set_bytes: int,
    timing: Timing,
) -> dict[int, NDArray[np.bool_]]:
    """Instruction -> which of its instances reload a region that is still on chip.

    Args:
        trace: the trace.
        instances: expanded instructions.
        working_set_bytes: bytes per partition of the other tiles, copies included.
        timing: constants.
    """
    written = {
        region.storage
        for item in instances
        for _, region, write, _ in item.operands
        if write and region.space is Space.HBM
    }
    room = timing.sbuf_keep_bytes - working_set_bytes
    result: dict[int, NDArray[np.bool_]] = {}
    for item in instances:
        if trace.attr(item.instruction).get("in_place_argument") is True:
            # A mutable parameter is the same memory before and after: nothing moves.
            result[item.instruction] = np.ones(len(item.alive), dtype=bool)
            continue
        if not is_load(item) or any(role.startswith("index") for role, _, _, _ in item.operands):
            continue
        source = next(r for role, r, _, _ in item.operands if role == "src")
        if source.storage in written or trace.tensor_role[source.storage] == TensorRole.OUTPUT:
            continue
        box = next(b for role, _, _, b in item.operands if role == "src")
        keys = np.stack([np.broadcast_to(c, len(item.alive)) for c in (box[3], box[4])])
        _, first = np.unique(keys, axis=1, return_index=True)
        distinct = len(first)
        if distinct == len(item.alive):
            continue
        tile_bytes = int(source.itemsize * np.max(item.free))
        if distinct * tile_bytes <= room:
            again = np.ones(len(item.alive), dtype=bool)
            again[first] = False
            result[item.instruction] = again
            room -= distinct * tile_bytes
    return result
