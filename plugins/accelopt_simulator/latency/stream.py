"""Expands a trace's loops into instruction instances, as columns in program order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.hardware import Timing
from accelopt_simulator.isa import OPS
from accelopt_simulator.latency.costs import RULES, CostInput
from accelopt_simulator.latency.placement import placed_in_psum
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
        descriptors: contiguous pieces of a DMA, else 0.
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
    descriptors: Floats
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
    in_psum = placed(analysis, timing)
    items = []
    for instruction in range(trace.num_instructions):
        item = _expand_one(analysis, timing, instruction, in_psum)
        items.append(item)
        if _needs_move(analysis, item):
            items.append(_move(item, timing))
    return items


def placed(analysis: Analysis, timing: Timing) -> frozenset[int]:
    """Tensors declared in SBUF that the compiler is expected to put into PSUM."""
    return placed_in_psum(analysis) if timing.places_in_psum else frozenset()


def _needs_move(analysis: Analysis, item: InstructionInstances) -> bool:
    """Whether a two-input instruction writes other partitions than it reads.

    Operands of one need compatible placement; the compiler computes in place and adds a copy [doc;
    the published rope counters show two scalar-engine copies per tile where the source has one].
    """
    if item.op != "tensor_tensor":
        return False
    start = {role: box[1] for role, _, _, box in item.operands}
    dst = next(region for role, region, _, _ in item.operands if role == "dst")
    return dst.space is Space.SBUF and bool(np.any(start["dst"] != start["data1"]))


def _move(item: InstructionInstances, timing: Timing) -> InstructionInstances:
    """The copy that follows such an instruction, in place of its result."""
    result = [operand for operand in item.operands if operand[0] == "dst"]
    source = [("src", region, False, box) for _, region, _, box in result]
    cycles = np.maximum(timing.min_cycles, item.free)
    return replace(
        item,
        op="tensor_copy",
        attrs={"accumulate": True},
        engine=Engine.SCALAR,
        busy_ns=cycles / timing.act_ghz + timing.act_overhead_ns,
        latency_ns=timing.result_latency_ns,
        key=[*item.key[:-1], item.key[-1] + 1],
        operands=[*source, *result],
    )


def _expand_one(
    analysis: Analysis, timing: Timing, instruction: int, in_psum: frozenset[int]
) -> InstructionInstances:
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
        if region.storage in in_psum:
            region = replace(region, space=Space.PSUM)
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
        descriptors=np.broadcast_to(0.0 if cost.descriptors is None else cost.descriptors, count),
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
        columns.append(np.full(count, 2 * analysis.trace.loop_first[loop], dtype=np.int64))
        columns.append(loops[loop])
    # Even positions are the kernel's instructions, odd ones what the compiler adds behind them.
    columns.append(np.full(count, 2 * instruction, dtype=np.int64))
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
