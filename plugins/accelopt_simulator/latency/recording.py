"""From a schedule to the recorded execution that explanations and timelines are made from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelopt.device import DeviceSpec
from accelopt_simulator.latency.compiled import Compiled
from accelopt_simulator.latency.execution import Execution, MemoryUse, Transfer
from accelopt_simulator.latency.queues import Schedule
from accelopt_simulator.latency.spill import Kind, partition_share
from accelopt_simulator.trace.schema import Engine, Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_COMPILER_OPS = {
    Kind.SAVE: "spill_save",
    Kind.RELOAD: "spill_reload",
    Kind.REFETCH: "load_again",
}
_TRANSFERS = {
    Kind.SAVE: Transfer.SPILL_SAVE,
    Kind.RELOAD: Transfer.SPILL_RELOAD,
    Kind.REFETCH: Transfer.LOAD,
}


def record(
    compiled: Compiled, schedule: Schedule, latency_ns: Floats, device: DeviceSpec, repeats: float
) -> Execution:
    """The execution of a compiled kernel.

    Args:
        compiled: the kernel.
        schedule: when its events ran.
        latency_ns: result latency of each event.
        device: capacities.
        repeats: how many times the recorded stretch stands for itself.
    """
    trace, program, kind = compiled.analysis.trace, compiled.program, compiled.residences.kind
    names = [item.op for item in compiled.items]
    op_names = tuple(dict.fromkeys([*names, *_COMPILER_OPS.values()]))
    index = {name: k for k, name in enumerate(op_names)}
    op_of_item = np.array([index[name] for name in names], dtype=np.int64)
    line_of_item = np.array([trace.ins_line[item.instruction] for item in compiled.items])
    instances = kind == Kind.INSTANCE
    subject = compiled.residences.subject[instances]
    count = len(kind)
    op, line, transfer = (np.zeros(count, dtype=np.int64) for _ in range(3))
    moved = np.zeros(count)
    op[instances] = op_of_item[program.item[subject]]
    line[instances] = line_of_item[program.item[subject]]
    is_dma = program.engine[subject] == Engine.DMA
    transfer[instances] = np.where(
        is_dma, np.where(program.is_load[subject], Transfer.LOAD, Transfer.STORE), Transfer.NONE
    )
    moved[instances] = program.bytes[subject]
    events, tiles = compiled.moved_tiles()
    storage = program.tile_storage[tiles]
    for code, name in _COMPILER_OPS.items():
        op[events[kind[events] == code]] = index[name]
        transfer[events[kind[events] == code]] = _TRANSFERS[code]
    line[events] = trace.tensor_line[storage]
    moved[events] = program.tile_bytes[tiles] * program.tile_partitions[tiles]
    tensor = np.zeros(count, dtype=np.int64)
    tensor[instances] = _tensor_of_item(compiled)[program.item[subject]]
    tensor[events] = storage
    done = schedule.end + latency_ns
    uses = _memory_use(compiled, schedule, done)
    return Execution(
        op_names=op_names,
        op=op,
        line=line,
        engine=compiled.engine,
        start_ns=schedule.start,
        end_ns=schedule.end,
        done_ns=done,
        data_ready_ns=schedule.data_ready,
        space_ready_ns=schedule.space_ready,
        cause=schedule.cause,
        wait=schedule.wait,
        transfer=transfer,
        bytes=moved,
        tensor=tensor,
        tensor_names=tuple(
            name or f"line {line}"
            for name, line in zip(trace.tensor_names, trace.tensor_line.tolist(), strict=True)
        ),
        makespan_ns=float(done.max()) if count else 0.0,
        repeats=repeats,
        sbuf=_over_time(uses, Space.SBUF, device.sbuf_bytes_per_partition),
        psum=_over_time(uses, Space.PSUM, device.psum_bytes_per_partition),
    )


def _tensor_of_item(compiled: Compiled) -> Ints:
    """What each expanded instruction writes; for a store, what it stores."""
    result = []
    for item in compiled.items:
        regions = {role: region for role, region, _, _ in item.operands}
        region = regions["dst"]
        if region.space is Space.HBM and "src" in regions:
            region = regions["src"]
        result.append(region.storage)
    return np.array(result, dtype=np.int64)


def _memory_use(
    compiled: Compiled, schedule: Schedule, done: Floats
) -> tuple[Floats, Floats, Floats, Ints]:
    """(from, to, bytes per partition, memory) of each residence.

    A load takes its room when it starts, a computed tile when it is there: it may take the place of
    an operand of the same instruction.
    """
    residences, program = compiled.residences, compiled.program
    first, last = residences.first_event, residences.last_event
    loaded = compiled.engine == Engine.DMA
    begin = np.where(loaded[first], schedule.start[first], schedule.end[first])
    end = np.maximum(np.where(loaded[last], done[last], schedule.end[last]), begin)
    event_of = np.empty(len(program), dtype=np.int64)
    event_of[residences.subject[compiled.is_instance]] = np.flatnonzero(compiled.is_instance)
    owner = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    held = residences.operand_residence >= 0
    np.maximum.at(end, residences.operand_residence[held], schedule.end[event_of[owner[held]]])
    tiles = residences.tile
    in_sbuf = program.tile_space[tiles] == Space.SBUF
    share = np.where(in_sbuf, partition_share(program.tile_partitions[tiles]), 1.0)
    return begin, end, program.tile_bytes[tiles] * share, program.tile_space[tiles]


def _over_time(
    uses: tuple[Floats, Floats, Floats, Ints], space: Space, capacity_bytes: int
) -> MemoryUse:
    begin, end, size, where = uses
    mine = where == space
    times = np.concatenate([begin[mine], end[mine]])
    change = np.concatenate([size[mine], -size[mine]])
    at, index = np.unique(times, return_inverse=True)
    total = np.zeros(len(at))
    np.add.at(total, index, change)
    if not len(at):
        at, total = np.zeros(1), np.zeros(1)
    return MemoryUse(
        times_ns=at,
        bytes_per_partition=np.maximum(0.0, np.cumsum(total)),
        capacity_bytes=capacity_bytes,
    )
