"""Expands a trace's loops into instruction instances, as columns in program order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.hardware import Timing
from accelopt_simulator.isa import DMA_OPS, OPS
from accelopt_simulator.latency.costs import RULES, CostInput
from accelopt_simulator.latency.regions import Region, boxes, region_of
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Engine, OperandKind, Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_INSTANCES = 2_000_000


class TooManyInstancesError(Exception):
    """The trace has more instances than the latency model expands."""


@dataclass
class InstructionInstances:
    """All instances of one recorded instruction, in order of execution.

    Attributes:
        instruction: its position in the trace.
        op: opcode name.
        attrs: its attributes.
        engine: where it runs.
        busy_ns, latency_ns: its cost.
        rows, free: extents after masking.
        alive: false where a predicate switches the instance off.
        key: sort key columns (position, iteration, position, iteration, ...), most significant
            first.
        operands: per tensor operand its region, whether it is written, and its boxes.
        loops: loop variable values.
    """

    instruction: int
    op: str
    attrs: dict[str, Any]
    engine: Engine
    busy_ns: Floats
    latency_ns: float
    rows: Floats
    free: Floats
    alive: NDArray[np.bool_]
    key: list[Ints]
    operands: list[tuple[str, Region, bool, tuple[Ints, Ints, Ints, Ints, Ints]]]
    loops: dict[int, Ints]


def expand(analysis: Analysis, timing: Timing) -> list[InstructionInstances]:
    """Instances of every instruction.

    Raises:
        TooManyInstancesError: more than `MAX_INSTANCES`.
    """
    trace = analysis.trace
    total = sum(analysis.instances(int(loop)) for loop in analysis.innermost)
    if total > MAX_INSTANCES:
        raise TooManyInstancesError(f"{total} instruction instances, at most {MAX_INSTANCES}")
    return [_expand_one(analysis, timing, i) for i in range(trace.num_instructions)]


def _expand_one(analysis: Analysis, timing: Timing, instruction: int) -> InstructionInstances:
    trace = analysis.trace
    spec = OPS[trace.ops[trace.ins_op[instruction]]]
    chain = analysis.loops_of(instruction)
    loops = analysis.iterations(chain)
    count = len(next(iter(loops.values()))) if loops else 1
    regions: dict[str, Region] = {}
    dtypes: dict[str, int] = {}
    operands: list[tuple[str, Region, bool, tuple[Ints, Ints, Ints, Ints, Ints]]] = []
    for role, kind, ref in trace.operands(instruction):
        if kind is not OperandKind.ACCESS:
            continue
        region = region_of(analysis, ref)
        regions[role] = region
        dtypes[role] = int(trace.tensor_dtype[region.tensor])
        written = role in spec.writes or role.startswith("reduce_res")
        operands.append((role, region, written, boxes(analysis, region, loops, count)))
    grid = regions["data" if spec.grid == "data" else "dst"].grid
    rows, free, alive = _extents(analysis, instruction, grid, loops, count)
    cost = RULES[spec.name](
        CostInput(
            attrs=trace.attr(instruction),
            hint=Engine(int(trace.ins_engine[instruction])),
            regions=regions,
            dtypes=dtypes,
            free=free,
            rows=rows,
            timing=timing,
        )
    )
    return InstructionInstances(
        instruction=instruction,
        op=spec.name,
        attrs=trace.attr(instruction),
        engine=cost.engine,
        busy_ns=np.broadcast_to(cost.busy_ns, count),
        latency_ns=cost.latency_ns,
        rows=rows,
        free=free,
        alive=alive,
        key=_key(analysis, instruction, chain, loops, count),
        operands=operands,
        loops=loops,
    )


def _extents(
    analysis: Analysis, instruction: int, grid: tuple[int, ...], loops: dict[int, Ints], count: int
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Partitions and elements per partition of each instance after masking."""
    predicate = int(analysis.trace.ins_pred[instruction])
    free_full = 1
    for extent in grid[1:]:
        free_full *= extent
    if predicate < 0:
        ones = np.ones(count)
        return ones * grid[0], ones * free_full, np.ones(count, dtype=bool)
    lows, highs, alive, _ = analysis.axis_window(predicate, grid, loops)
    sizes: list[Any] = [
        np.broadcast_to(np.maximum(0, np.asarray(h) - np.asarray(lo)), count).astype(np.float64)
        for lo, h in zip(lows, highs, strict=True)
    ]
    free: Any = np.ones(count)
    for size in sizes[1:]:
        free = free * size
    return sizes[0], free, np.broadcast_to(np.asarray(alive), count).astype(bool)


def _key(
    analysis: Analysis, instruction: int, chain: tuple[int, ...], loops: dict[int, Ints], count: int
) -> list[Ints]:
    columns: list[Ints] = []
    for loop in chain:
        columns.append(np.full(count, analysis.trace.loop_first[loop], dtype=np.int64))
        columns.append(loops[loop])
    columns.append(np.full(count, instruction, dtype=np.int64))
    return columns


def program_order(instances: list[InstructionInstances]) -> tuple[Ints, Ints]:
    """(which instruction, which of its instances) in order of execution."""
    depth = max(len(item.key) for item in instances)
    counts = [len(item.alive) for item in instances]
    columns = []
    for level in range(depth):
        columns.append(
            np.concatenate(
                [
                    item.key[level] if level < len(item.key) else np.zeros(n, dtype=np.int64)
                    for item, n in zip(instances, counts, strict=True)
                ]
            )
        )
    which = np.repeat(np.arange(len(instances)), counts)
    within = np.concatenate([np.arange(n) for n in counts])
    # A loop that opens where an instruction stands: instructions before the loop sort first because
    # a loop's position is that of its first instruction, which itself carries a longer key.
    order = np.lexsort(columns[::-1])
    return which[order], within[order]


def is_load(item: InstructionInstances) -> bool:
    """Whether an instruction reads HBM by DMA."""
    return item.op in DMA_OPS and any(
        role == "src" and region.space is Space.HBM for role, region, _, _ in item.operands
    )
