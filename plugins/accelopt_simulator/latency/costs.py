"""One cost rule per instruction: engine, busy time and result latency.

Sources: documented cycle formulas of the NKI ISA reference for NeuronCore-v2 (SDK 2.26) with the
effective rates measured on Trainium 1; every constant is a field of `Timing` with its source.
An instruction of the table without a rule here is `unsupported_op`, never free.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from accelopt_simulator.dtypes import BFLOAT16, DTYPES
from accelopt_simulator.latency import costs_calls
from accelopt_simulator.latency.cost_basis import (
    Cost,
    CostInput,
    Rule,
    by_engine_cost,
    dma_cost,
    scalar_cost,
    vector_cost,
)
from accelopt_simulator.trace.schema import Engine

__all__ = ["RULES", "Cost", "CostInput"]


def _activation(c: CostInput) -> Cost:
    return scalar_cost(c, c.timing.min_cycles if "reduce_res" in c.regions else 0.0)


def _tensor_scalar(c: CostInput) -> Cost:
    # The compiler gives scale and shift to the scalar engine and the rest to the vector engine
    # [meas].
    ops = {c.attrs["op0"], c.attrs.get("op1", c.attrs["op0"])}
    simple = ops <= {"multiply", "add"} and "reduce_res" not in c.regions
    extra = c.timing.min_cycles if "reduce_res" in c.regions else 0.0
    engine = Engine.SCALAR if simple else Engine.VECTOR
    return by_engine_cost(c, engine, c.fast_mode(), extra)


def _tensor_tensor(c: CostInput) -> Cost:
    one_psum = c.in_psum("data1") != c.in_psum("data2")
    all_bf16 = all(code == BFLOAT16 for code in c.dtypes.values())
    narrow = all(region.itemsize <= 2 for region in c.regions.values())
    fast = (
        one_psum
        or (all_bf16 and c.attrs["op"] in ("add", "multiply", "subtract"))
        or (c.timing.dve_fast_modes and narrow and not c.in_psum("data1"))
    )
    engine = Engine.GPSIMD if c.attrs["op"] == "power" else Engine.VECTOR
    return by_engine_cost(c, engine, 1.0 if fast else 2.0)


def _scalar_tensor_tensor(c: CostInput) -> Cost:
    bf16 = c.dtypes["data"] == BFLOAT16 == c.dtypes["operand1"]
    fast = bf16 and c.attrs["op0"] == "subtract" and c.attrs["op1"] == "multiply"
    return vector_cost(c, 1.0 if fast else 2.0)


def _tensor_reduce(c: CostInput) -> Cost:
    bf16 = c.dtypes["data"] == BFLOAT16 == c.dtypes["dst"]
    return vector_cost(c, 0.5 if bf16 and c.attrs["op"] in ("add", "maximum") else 1.0)


def _tensor_copy(c: CostInput) -> Cost:
    return by_engine_cost(c, Engine.SCALAR, c.fast_mode())


def _tensor_copy_dynamic(c: CostInput) -> Cost:
    # At least 600 cycles [doc: MIN_II_DYNAMIC].
    cost = by_engine_cost(c, Engine.SCALAR, 1.0)
    clock = {Engine.SCALAR: c.timing.act_ghz, Engine.VECTOR: c.timing.dve_ghz}
    least = 600 / clock.get(cost.engine, c.timing.pool_ghz)
    return Cost(cost.engine, np.maximum(cost.busy_ns, least), cost.latency_ns)


def _memset(c: CostInput) -> Cost:
    return by_engine_cost(c, Engine.VECTOR, 1.0)


def _matmul(c: CostInput) -> Cost:
    t = c.timing
    width = DTYPES[c.dtypes["moving"]].float_bits
    passes = t.fp32_passes if width == 32 else 1
    # Rows in pairs: two rows per cycle [doc: "doubles throughput"].
    pairs = 2 if "perf_mode" in c.attrs else 1
    columns = np.maximum(
        min(64, c.regions["stationary"].free_elements // pairs),
        c.regions["moving"].free_elements // pairs,
    )
    # Masks do not shorten matmuls [meas: transpose_matmul].
    busy = np.full_like(c.free, passes * columns / t.pe_ghz)
    return Cost(Engine.TENSOR, busy, t.pe_latency_ns)


def _transpose(c: CostInput) -> Cost:
    if c.hint is Engine.VECTOR:
        return vector_cost(c, 1.0)
    t = c.timing
    passes = t.fp32_passes if DTYPES[c.dtypes["data"]].float_bits == 32 else 1
    columns = max(c.regions["data"].grid[0], min(64, c.regions["data"].free_elements))
    return Cost(Engine.TENSOR, np.full_like(c.free, passes * columns / t.pe_ghz), t.pe_latency_ns)


def _partition_broadcast(c: CostInput) -> Cost:
    t = c.timing
    busy = t.broadcast_passes * np.maximum(64, c.free) / t.pe_ghz
    return Cost(Engine.TENSOR, busy, t.pe_latency_ns)


def _dma(c: CostInput) -> Cost:
    t = c.timing
    dst, src = c.regions["dst"], c.regions["src"]
    # One descriptor per contiguous run on both sides, at least one per partition.
    run = min(r.contiguous_elements() for r in (dst, src))
    run = min(run, max(1, dst.free_elements))
    elements = c.rows * c.free
    itemsize = max(dst.itemsize, src.itemsize)
    return dma_cost(t, np.ceil(elements / run), elements * itemsize)


RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "dma_copy": _dma,
        "nc_matmul": _matmul,
        "nc_transpose": _transpose,
        "partition_broadcast": _partition_broadcast,
        "activation": _activation,
        "tensor_tensor": _tensor_tensor,
        "tensor_scalar": _tensor_scalar,
        "scalar_tensor_tensor": _scalar_tensor_tensor,
        "tensor_tensor_scan": lambda c: vector_cost(c, 2.0),
        "tensor_reduce": _tensor_reduce,
        "tensor_copy": _tensor_copy,
        "tensor_copy_dynamic": _tensor_copy_dynamic,
        "reciprocal": lambda c: vector_cost(c, float(c.timing.reciprocal_factor)),
        "memset": _memset,
        **costs_calls.RULES,
    }
)
