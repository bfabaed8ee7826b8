"""Profiler counters of a compiled kernel, counted as the profiler counts them.

Instruction shares of SBUF and PSUM bytes are per partition and count only the first source operand;
tensor_tensor and scan reads are left out; fp32 PE results and operands count twice; DMA shares are
full bytes. `hardware_flops` counts fp32 matmuls twice and ignores masks. Traffic of an HBM tensor
that a kernel declares for itself counts as spill, as the profiler counts it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.isa import DMA_OPS, OPS
from accelopt_simulator.latency.compiled import Compiled
from accelopt_simulator.latency.regions import Region
from accelopt_simulator.latency.spill import Kind
from accelopt_simulator.latency.stream import InstructionInstances
from accelopt_simulator.trace.schema import Space, TensorRole, Trace

Bools = NDArray[np.bool_]
Totals = defaultdict[str, float]

_FIRST_SOURCE = ("data", "src", "stationary")
_UNCOUNTED_READS = frozenset({"tensor_tensor", "tensor_tensor_scan"})
_IDENTITY_BYTES = 128 * 128 * 4
"""The identity that transposes which no line asks for need is loaded once [meas]."""


def count(compiled: Compiled) -> dict[str, float]:
    """Byte and FLOP counters by their profiler names."""
    totals: Totals = defaultdict(float)
    trace = compiled.analysis.trace
    implied = False
    for index, item in enumerate(compiled.items):
        runs = np.zeros(len(item.alive), dtype=np.bool_)
        runs[compiled.program.row[compiled.program.item == index]] = True
        regions = {role: region for role, region, _, _ in item.operands}
        if item.op in DMA_OPS:
            _count_dma(totals, trace, item, runs, regions)
        elif item.op in ("nc_matmul", "nc_transpose", "partition_broadcast"):
            transposes = item.attrs.get("is_transpose") is True
            _count_pe(totals, item, int(runs.sum()), regions, is_transpose=transposes)
            implied |= item.attrs.get("implied") is True and bool(runs.any())
        else:
            _count_engine(totals, item, runs, regions)
    if implied:
        totals["hbm_read_bytes"] += _IDENTITY_BYTES
        totals["sbuf_write_bytes"] += _IDENTITY_BYTES
    _count_moves(totals, compiled)
    return dict(totals)


def hbm_bytes(compiled: Compiled) -> float:
    """HBM bytes read and written."""
    moves = Totals(float)
    _count_moves(moves, compiled)
    kernel = float(compiled.program.bytes.sum())
    return kernel + moves["hbm_read_bytes"] + moves["hbm_write_bytes"]


def spills_by_tensor(compiled: Compiled) -> dict[str, tuple[float, float]]:
    """Bytes saved to HBM and reloaded, by tensor name."""
    trace, program = compiled.analysis.trace, compiled.program
    events, tiles = compiled.moved_tiles()
    kind = compiled.residences.kind[events]
    size = program.tile_bytes[tiles] * program.tile_partitions[tiles]
    result: dict[str, tuple[float, float]] = {}
    for storage in np.unique(program.tile_storage[tiles]):
        mine = program.tile_storage[tiles] == storage
        name = trace.tensor_names[storage] or f"the tensor of line {trace.tensor_line[storage]}"
        saved, reloaded = result.get(name, (0.0, 0.0))
        saved += float(size[mine & (kind == Kind.SAVE)].sum())
        reloaded += float(size[mine & (kind == Kind.RELOAD)].sum())
        if saved or reloaded:
            result[name] = (saved, reloaded)
    return result


def _count_moves(totals: Totals, compiled: Compiled) -> None:
    """Spill saves, reloads, and loads that are done again."""
    events, tiles = compiled.moved_tiles()
    kind = compiled.residences.kind[events]
    size = compiled.program.tile_bytes[tiles] * compiled.program.tile_partitions[tiles]
    saved = float(size[kind == Kind.SAVE].sum())
    reloaded = float(size[kind == Kind.RELOAD].sum())
    read = reloaded + float(size[kind == Kind.REFETCH].sum())
    for name, value in (
        ("spill_save_bytes", saved),
        ("hbm_write_bytes", saved),
        ("sbuf_read_bytes", saved),
        ("spill_reload_bytes", reloaded),
        ("hbm_read_bytes", read),
        ("sbuf_write_bytes", read),
    ):
        totals[name] += value


def _count_dma(
    totals: Totals,
    trace: Trace,
    item: InstructionInstances,
    runs: Bools,
    regions: dict[str, Region],
) -> None:
    elements = float((item.rows * item.free)[runs].sum())
    for role, word, spill in (("src", "read", "reload"), ("dst", "write", "save")):
        region = regions[role]
        moved = elements * region.itemsize
        in_hbm = region.space is Space.HBM
        totals[f"{'hbm' if in_hbm else 'sbuf'}_{word}_bytes"] += moved
        if in_hbm and trace.tensor_role[region.storage] == TensorRole.LOCAL:
            totals[f"spill_{spill}_bytes"] += moved


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
    totals: Totals, item: InstructionInstances, runs: Bools, regions: dict[str, Region]
) -> None:
    elements = float(item.free[runs].sum())
    if item.op not in _UNCOUNTED_READS:
        for role in _FIRST_SOURCE:
            if role in regions and regions[role].space is not Space.HBM:
                memory = regions[role].space.name.lower()
                totals[f"{memory}_read_bytes"] += elements * regions[role].itemsize
                break
    dst = regions["dst"]
    if item.op == "tensor_reduce" or "dst" in OPS[item.op].rowwise:
        elements = float(runs.sum()) * dst.free_elements
    totals[f"{dst.space.name.lower()}_write_bytes"] += elements * dst.itemsize
