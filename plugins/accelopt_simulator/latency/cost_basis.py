"""What cost rules see and give, and the costs that an engine's instructions have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def fast_mode(self) -> float:
        """Share of the usual cycles that a copy or a scalar operation takes on 16-bit operands.

        From generation 3 on: a quarter when all is contiguous in SBUF, else half [doc].
        """
        moved = [r for role, r in self.regions.items() if role in ("dst", "data", "src")]
        if not self.timing.dve_fast_modes or any(r.itemsize > 2 for r in moved):
            return 1.0
        packed = all(
            r.space is Space.SBUF and r.inner_stride_bytes in (0, r.itemsize) for r in moved
        )
        return 0.25 if packed else 0.5

    def stride_factor(self) -> float:
        """2 when an operand's innermost stride exceeds 16 bytes: half the bandwidth [doc]."""
        on_chip = (r for r in self.regions.values() if r.space is not Space.HBM)
        return 2.0 if any(r.inner_stride_bytes > 16 for r in on_chip) else 1.0


@dataclass(frozen=True)
class Cost:
    """Cost of an instruction.

    Attributes:
        engine: where it runs.
        busy_ns: how long it holds the engine, per instance.
        latency_ns: from the end of that until a dependent may start.
        descriptors: contiguous pieces that a DMA is made of, per instance; None for others.
    """

    engine: Engine
    busy_ns: Floats
    latency_ns: float
    descriptors: Floats | None = None


def dma_cost(timing: Timing, descriptors: Floats, total_bytes: Floats) -> Cost:
    """DMA of some bytes in some contiguous pieces, spread over all engines."""
    row = descriptors / timing.dma_engines * timing.dma_row_ns
    stream = total_bytes / timing.dma_engines / timing.dma_engine_bytes_per_ns
    return Cost(Engine.DMA, row + stream, timing.dma_latency_ns, descriptors)


Rule = Callable[[CostInput], Cost]


def vector_cost(c: CostInput, factor: float, extra_cycles: float = 0.0) -> Cost:
    """Vector engine: `factor` cycles per element of a partition."""
    t = c.timing
    cycles = np.maximum(t.min_cycles, factor * c.free * c.stride_factor()) + extra_cycles
    return Cost(Engine.VECTOR, cycles / t.dve_ghz + t.dve_overhead_ns, t.result_latency_ns)


def scalar_cost(c: CostInput, extra_cycles: float = 0.0) -> Cost:
    """Scalar engine: a cycle per element of a partition."""
    t = c.timing
    cycles = np.maximum(t.min_cycles, c.free * c.stride_factor()) + extra_cycles
    return Cost(Engine.SCALAR, cycles / t.act_ghz + t.act_overhead_ns, t.result_latency_ns)


def gpsimd_cost(c: CostInput) -> Cost:
    """GpSimd engine: start-up and a cycle per element of a partition."""
    t = c.timing
    cycles = t.pool_start_cycles + c.free * c.stride_factor()
    return Cost(Engine.GPSIMD, cycles / t.pool_ghz, t.result_latency_ns)


def by_engine_cost(c: CostInput, default: Engine, factor: float, extra: float = 0.0) -> Cost:
    """The cost on the engine the kernel asked for, else on the default one."""
    engine = default if c.hint is Engine.UNKNOWN else c.hint
    if engine is Engine.SCALAR:
        return scalar_cost(c, extra)
    return gpsimd_cost(c) if engine is Engine.GPSIMD else vector_cost(c, factor, extra)
