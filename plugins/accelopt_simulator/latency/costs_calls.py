"""Cost rules of selections, searches, statistics, random numbers, GpSimd and transposing DMA.

Documented cycles are those of spec 3.7. Where the documentation has none, the rule is a [prior] and
says so.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from accelopt_simulator.latency.cost_basis import (
    Cost,
    CostInput,
    Floats,
    Rule,
    dma_cost,
    gpsimd_cost,
    vector_cost,
)
from accelopt_simulator.trace.schema import Engine

LANES_PER_CORE = 16
"""Partitions that one of the eight GpSimd cores works on [doc]."""


def _plain(c: CostInput) -> Cost:
    return vector_cost(c, 1.0)


def _predicated(c: CostInput) -> Cost:
    # [doc] one of source and predicate in PSUM: one read port each.
    return vector_cost(c, 1.0 if c.in_psum("src") != c.in_psum("predicate") else 2.0)


def _select(c: CostInput) -> Cost:
    # range_select [doc]; select_reduce [prior: the same]. Reading the registers is another
    # instruction [prior: as documented for activation_reduce].
    return vector_cost(c, 1.0, c.timing.min_cycles if "reduce_res" in c.regions else 0.0)


def _gpsimd_cycles(c: CostInput, cycles: Floats) -> Cost:
    busy = (c.timing.pool_start_cycles + cycles) / c.timing.pool_ghz
    return Cost(Engine.GPSIMD, busy, c.timing.result_latency_ns)


def _partition_reduce(c: CostInput) -> Cost:
    # [prior] each core adds up its 16 partitions at one row per cycle, then the cores' rows.
    return _gpsimd_cycles(c, c.rows * c.free / LANES_PER_CORE)


def _sequence_bounds(c: CostInput) -> Cost:
    # [prior] one pass forward for the starts, one backward for the ends.
    return _gpsimd_cycles(c, 2.0 * c.free)


def _local_gather(c: CostInput) -> Cost:
    # [doc] spec 3.4
    elements, cycles_per_start = c.attrs["elements"], 4
    work = cycles_per_start * elements
    packed = min(4 / c.regions["src"].itemsize, elements)
    rate = ((28 + work) / work) / packed
    return _gpsimd_cycles(c, np.full_like(c.free, c.attrs["valid"] * elements / rate))


def _dma_transpose(c: CostInput) -> Cost:
    # [prior] one descriptor per element: the documentation says that a transposing DMA loses most
    # of the bandwidth, and gives no figure.
    itemsize = max(c.regions["dst"].itemsize, c.regions["src"].itemsize)
    elements = c.rows * c.free
    return dma_cost(c.timing, elements, elements * itemsize)


RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "bn_stats": _plain,  # [doc]
        "bn_aggr": lambda c: vector_cost(c, 13 / 3),  # [doc]
        "tensor_copy_predicated": _predicated,
        "select_reduce": _select,
        "range_select": _select,
        "nc_stream_shuffle": _plain,  # [doc]
        "max8": _plain,  # [doc]
        "nc_find_index8": _plain,  # [doc]
        "nc_match_replace8": _plain,  # [doc], where max is meant by "min(MIN_II, N)"
        "rand": _plain,  # [prior: as dropout]
        "dropout": _plain,  # [doc]
        "iota": gpsimd_cost,  # [doc]
        "affine_select": gpsimd_cost,  # [doc]
        "tensor_partition_reduce": _partition_reduce,
        "sequence_bounds": _sequence_bounds,
        "local_gather": _local_gather,
        "gather_flattened": gpsimd_cost,  # [prior: one element per lane and cycle]
        "dma_transpose": _dma_transpose,
    }
)
"""Opcode -> rule."""
