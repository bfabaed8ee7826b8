"""Profiler counters of a trace, counted as the profiler counts them (performance model section 10).

Instruction shares of SBUF and PSUM bytes are per partition and count only the first source operand;
tensor_tensor and scan reads are left out; fp32 PE results and operands count twice; DMA shares are
full bytes. `hardware_flops` counts fp32 matmuls twice and ignores masks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.isa import DMA_OPS, OPS
from accelopt_simulator.latency.regions import Region
from accelopt_simulator.latency.stream import InstructionInstances
from accelopt_simulator.trace.schema import Space

Bools = NDArray[np.bool_]
Totals = defaultdict[str, float]

_FIRST_SOURCE = ("data", "src", "stationary")
_UNCOUNTED_READS = frozenset({"tensor_tensor", "tensor_tensor_scan"})


def count(
    instances: list[InstructionInstances], skipped: Mapping[int, NDArray[np.bool_]]
) -> dict[str, float]:
    """Byte and FLOP counters by their profiler names.

    Args:
        instances: expanded instructions.
        skipped: per instruction, instances that do not run (repeated loads).
    """
    totals: Totals = defaultdict(float)
    for item in instances:
        alive = item.alive & ~skipped.get(item.instruction, np.zeros(len(item.alive), dtype=bool))
        regions = {role: region for role, region, _, _ in item.operands}
        if item.op in DMA_OPS:
            _count_dma(totals, item, alive, regions)
        elif item.op in ("nc_matmul", "nc_transpose", "partition_broadcast"):
            transposes = item.attrs.get("is_transpose") is True
            _count_pe(totals, item, int(alive.sum()), regions, is_transpose=transposes)
        else:
            _count_engine(totals, item, alive, regions)
    return dict(totals)


def _count_dma(
    totals: Totals, item: InstructionInstances, alive: Bools, regions: dict[str, Region]
) -> None:
    elements = float((item.rows * item.free)[alive].sum())
    for role, word in (("src", "read"), ("dst", "write")):
        memory = "hbm" if regions[role].space is Space.HBM else "sbuf"
        totals[f"{memory}_{word}_bytes"] += elements * regions[role].itemsize


def _count_pe(
    totals: Totals,
    item: InstructionInstances,
    runs: int,
    regions: dict[str, Region],
    *,
    is_transpose: bool,
) -> None:
    if item.op == "partition_broadcast":
        columns = regions["dst"].free_elements
        totals["hardware_flops"] += runs * 2.0 * 128 * columns
        totals["psum_write_bytes"] += runs * 4.0 * columns
        totals["sbuf_read_bytes"] += runs * 4.0 * columns
        return
    data = regions["stationary" if item.op == "nc_matmul" else "data"]
    twice = 2.0 if data.itemsize == 4 else 1.0
    if item.op == "nc_transpose":
        rows, columns = data.grid
        flops = runs * 2.0 * twice * rows * columns * 128
        totals["transpose_flops"] += flops
        moving = 128
    else:
        rows, columns = data.grid[0], data.free_elements
        moving = regions["moving"].free_elements
        flops = runs * 2.0 * twice * rows * columns * moving
        if is_transpose:
            totals["transpose_flops"] += flops
    totals["hardware_flops"] += flops
    out = regions["dst"].free_elements
    totals["psum_write_bytes"] += runs * twice * 4.0 * out
    totals["sbuf_read_bytes"] += runs * twice * 4.0 * (columns + moving)


def _count_engine(
    totals: Totals, item: InstructionInstances, alive: Bools, regions: dict[str, Region]
) -> None:
    elements = float(item.free[alive].sum())
    if item.op not in _UNCOUNTED_READS:
        for role in _FIRST_SOURCE:
            if role in regions and regions[role].space is not Space.HBM:
                memory = regions[role].space.name.lower()
                totals[f"{memory}_read_bytes"] += elements * regions[role].itemsize
                break
    dst = regions["dst"]
    if item.op == "tensor_reduce" or "dst" in OPS[item.op].rowwise:
        elements = float(alive.sum()) * dst.free_elements
    totals[f"{dst.space.name.lower()}_write_bytes"] += elements * dst.itemsize
