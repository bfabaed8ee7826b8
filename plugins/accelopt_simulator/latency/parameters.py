"""The parameters of the latency model that are fitted to measurements, with their priors.

Everything else in `hardware.Timing` is documented or read off published counters and stays as it
is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from accelopt_simulator.hardware import Timing

KIB = 1024


@dataclass(frozen=True)
class Parameter:
    """A fitted field of `Timing`.

    Attributes:
        name: the field.
        prior: value before any fit.
        values: what is tried, ascending; holds the prior.
        unit: unit of the values.
        meaning: what it stands for.
        source: where prior and range come from.
    """

    name: str
    prior: float
    values: tuple[float, ...]
    unit: str
    meaning: str
    source: str


FITTED = (
    Parameter(
        "pe_ghz", 2.45, (2.37, 2.39, 2.41, 2.43, 2.45, 2.47, 2.5), "GHz",
        "columns per second that the tensor engine sustains",
        "published matmul rates: 2.37-2.5; documented 2.8 is not reached",
    ),
    Parameter(
        "dma_row_ns", 30.0, (10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0), "ns",
        "cost of a DMA descriptor beside its bytes",
        "30-35 from three published DMA-bound kernels; 0-60 possible",
    ),
    Parameter(
        "dma_latency_ns", 2000.0,
        (1000.0, 1250.0, 1500.0, 1750.0, 2000.0, 2250.0, 2500.0, 3000.0), "ns",
        "from a DMA's last byte to the start of what waits for it",
        "about 2 us in a profile screenshot; 1-4 possible",
    ),
    Parameter(
        "dve_overhead_ns", 60.0, (5.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0), "ns",
        "start-up of a vector instruction that does not overlap with its predecessor",
        "4 ns between tiny independent instructions, 93-103 from busy times; 60-200 as a proxy",
    ),
    Parameter(
        "window", 40.0, (10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0, 40.0, 56.0, 80.0),
        "instructions",
        "how far the compiler's schedule moves an instruction up",
        "36-80 in the feasibility study, whose buffers were more generous",
    ),
    Parameter(
        "keep_bytes", 150.0 * KIB, (*(k * KIB for k in range(140, 177, 4)), 150.0 * KIB),
        "bytes",
        "SBUF per partition that the allocator fills before it spills",
        "spill bytes of the two attention kernels: about 150 KiB of the 176 KiB there are",
    ),
    Parameter(
        "sequential_barrier", 1.0, (0.0, 1.0), "switch",
        "whether loads of a sequential loop's next iteration wait for this one's computing",
        "sequential_range promises the order of iterations; published rope measurement",
    ),
    Parameter(
        "overhead_us", 95.0, tuple(float(v) for v in range(35, 136, 10)), "us",
        "what total_time holds beside the kernel's run",
        "total_time minus the time base of the utilisation counters: 53-132 us",
    ),
)  # fmt: skip
"""At most eight, each with a physical meaning."""


def names() -> tuple[str, ...]:
    """Names of the fitted parameters, in order."""
    return tuple(parameter.name for parameter in FITTED)


def with_values(timing: Timing, values: Mapping[str, float]) -> Timing:
    """A timing with some fields replaced, each in its own type."""
    typed = {
        name: int(value) if isinstance(getattr(timing, name), int) else float(value)
        for name, value in values.items()
    }
    return replace(timing, **typed)  # type: ignore[arg-type]
