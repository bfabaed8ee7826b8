"""One cost rule per instruction: engine, busy time and result latency.

Sources: documented cycle formulas of the NKI ISA reference for NeuronCore-v2 (SDK 2.26) with the
effective rates measured on Trainium 1; every constant is a field of `Timing` with its source.
An instruction of the table without a rule here is `unsupported_op`, never free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.dtypes import BFLOAT16, DTYPES
from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.regions import Region
from accelopt_simulator.trace.schema import Engine, Space

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CostInput:
    """What a cost rule sees. Arrays have one entry per instance.

    Attributes:
        attrs: attributes of the instruction.
        hint: engine the kernel asked for, or UNKNOWN.
        regions: operand regions by role.
        dtypes: element type codes by role.
        free: elements per partition of the instruction's grid, after masking.
        rows: partitions of the grid, after masking.
        timing: constants.
    """

    attrs: dict[str, Any]
    hint: Engine
    regions: dict[str, Region]
    dtypes: dict[str, int]
    free: Floats
    rows: Floats
    timing: Timing

    def in_psum(self, role: str) -> bool:
        """Whether an operand lies in PSUM."""
        return role in self.regions and self.regions[role].space is Space.PSUM

    def stride_factor(self) -> float:
        """2 when an operand's innermost stride exceeds 16 bytes: half the bandwidth [doc]."""
        return 2.0 if any(r.inner_stride_bytes > 16 for r in self.regions.values()) else 1.0


@dataclass(frozen=True)
class Cost:
    """Cost of an instruction.

    Attributes:
        engine: where it runs.
        busy_ns: how long it holds the engine, per instance.
        latency_ns: from the end of that until a dependent may start.
    """

    engine: Engine
    busy_ns: Floats
    latency_ns: float


Rule = Callable[[CostInput], Cost]


def _vector(c: CostInput, factor: float, extra_cycles: float = 0.0) -> Cost:
    t = c.timing
    cycles = np.maximum(t.min_cycles, factor * c.free * c.stride_factor()) + extra_cycles
    return Cost(Engine.VECTOR, cycles / t.dve_ghz + t.dve_overhead_ns, t.dve_latency_ns)


def _scalar(c: CostInput, extra_cycles: float = 0.0) -> Cost:
    t = c.timing
    cycles = np.maximum(t.min_cycles, c.free * c.stride_factor()) + extra_cycles
    return Cost(Engine.SCALAR, cycles / t.act_ghz + t.act_overhead_ns, t.act_latency_ns)


def _gpsimd(c: CostInput) -> Cost:
    t = c.timing
    cycles = t.pool_start_cycles + c.free * c.stride_factor()
    return Cost(Engine.GPSIMD, cycles / t.pool_ghz, t.dve_latency_ns)


def _by_engine(c: CostInput, default: Engine, factor: float, extra: float = 0.0) -> Cost:
    engine = default if c.hint is Engine.UNKNOWN else c.hint
    if engine is Engine.SCALAR:
        return _scalar(c, extra)
    return _gpsimd(c) if engine is Engine.GPSIMD else _vector(c, factor, extra)


def _activation(c: CostInput) -> Cost:
    return _scalar(c, c.timing.min_cycles if "reduce_res" in c.regions else 0.0)


def _tensor_scalar(c: CostInput) -> Cost:
    # The compiler gives scale and shift to the scalar engine and the rest to the vector engine
    # [meas].
    ops = {c.attrs["op0"], c.attrs.get("op1", c.attrs["op0"])}
    simple = ops <= {"multiply", "add"} and "reduce_res" not in c.regions
    extra = c.timing.min_cycles if "reduce_res" in c.regions else 0.0
    return _by_engine(c, Engine.SCALAR if simple else Engine.VECTOR, 1.0, extra)


def _tensor_tensor(c: CostInput) -> Cost:
    one_psum = c.in_psum("data1") != c.in_psum("data2")
    all_bf16 = all(code == BFLOAT16 for code in c.dtypes.values())
    fast = one_psum or (all_bf16 and c.attrs["op"] in ("add", "multiply", "subtract"))
    engine = Engine.GPSIMD if c.attrs["op"] == "power" else Engine.VECTOR
    return _by_engine(c, engine, 1.0 if fast else 2.0)


def _scalar_tensor_tensor(c: CostInput) -> Cost:
    bf16 = c.dtypes["data"] == BFLOAT16 == c.dtypes["operand1"]
    fast = bf16 and c.attrs["op0"] == "subtract" and c.attrs["op1"] == "multiply"
    return _vector(c, 1.0 if fast else 2.0)


def _tensor_reduce(c: CostInput) -> Cost:
    bf16 = c.dtypes["data"] == BFLOAT16 == c.dtypes["dst"]
    return _vector(c, 0.5 if bf16 and c.attrs["op"] in ("add", "maximum") else 1.0)


def _tensor_copy(c: CostInput) -> Cost:
    return _by_engine(c, Engine.SCALAR, 1.0)


def _tensor_copy_dynamic(c: CostInput) -> Cost:
    # At least 600 cycles [doc: MIN_II_DYNAMIC].
    cost = _by_engine(c, Engine.SCALAR, 1.0)
    clock = {Engine.SCALAR: c.timing.act_ghz, Engine.VECTOR: c.timing.dve_ghz}
    least = 600 / clock.get(cost.engine, c.timing.pool_ghz)
    return Cost(cost.engine, np.maximum(cost.busy_ns, least), cost.latency_ns)


def _memset(c: CostInput) -> Cost:
    return _by_engine(c, Engine.VECTOR, 1.0)


def _matmul(c: CostInput) -> Cost:
    t = c.timing
    width = DTYPES[c.dtypes["moving"]].float_bits
    passes = t.fp32_passes if width == 32 else 1
    columns = np.maximum(
        min(64, c.regions["stationary"].free_elements), c.regions["moving"].free_elements
    )
    # Masks do not shorten matmuls [meas: transpose_matmul].
    busy = np.full_like(c.free, passes * columns / t.pe_ghz)
    return Cost(Engine.TENSOR, busy, t.pe_latency_ns)


def _transpose(c: CostInput) -> Cost:
    if c.hint is Engine.VECTOR:
        return _vector(c, 1.0)
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
    descriptors = np.ceil(elements / run)
    bytes_each = elements / np.maximum(1, descriptors) * max(dst.itemsize, src.itemsize)
    busy = descriptors / t.dma_engines * (t.dma_row_ns + bytes_each / t.dma_engine_bytes_per_ns)
    return Cost(Engine.DMA, busy, t.dma_latency_ns)


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
        "tensor_tensor_scan": lambda c: _vector(c, 2.0),
        "tensor_reduce": _tensor_reduce,
        "tensor_copy": _tensor_copy,
        "tensor_copy_dynamic": _tensor_copy_dynamic,
        "reciprocal": lambda c: _vector(c, float(c.timing.reciprocal_factor)),
        "memset": _memset,
    }
)
