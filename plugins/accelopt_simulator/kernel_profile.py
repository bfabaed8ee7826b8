"""A kernel's predicted profile as data: from a prediction to what people and models are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from accelopt.device import DeviceSpec, roofline_latency_us
from accelopt.evaluation import Profile
from accelopt.kernel import Work
from accelopt_simulator.latency.execution import Execution
from accelopt_simulator.latency.explain import (
    EngineTime,
    LineShare,
    RooflinePosition,
    bound,
    engine_times,
    line_table,
    roofline_position,
)


class Prediction(Protocol):
    """What the latency model says about a kernel, as far as a profile needs it."""

    @property
    def execution(self) -> Execution:
        """The predicted run."""
        ...

    @property
    def latency_us(self) -> float:
        """Predicted latency in microseconds, fixed overhead included."""
        ...

    @property
    def low_us(self) -> float:
        """Lower end of its uncertainty."""
        ...

    @property
    def high_us(self) -> float:
        """Upper end of its uncertainty."""
        ...

    @property
    def profile(self) -> Profile:
        """The profiler's counters."""
        ...

    @property
    def spills(self) -> dict[str, tuple[float, float]]:
        """Bytes saved and reloaded, by tensor name."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        ...

    def what_if(self) -> list[tuple[str, float]]:
        """(what would change, latency in microseconds if it did)."""
        ...


@dataclass(frozen=True, kw_only=True)
class KernelProfile:
    """Where the predicted time of a kernel goes.

    Attributes:
        latency_us: predicted latency in microseconds, fixed overhead included.
        low_us, high_us: its uncertainty.
        peak_latency_us: roofline latency of the task; None when it is not known.
        bound: `dma`, `tensor`, `vector`, `scalar`, `gpsimd` or `latency`.
        engine_times: by engine name, in microseconds of the whole run without fixed overhead.
        lines: the lines that hold most of the critical path, in the same unit.
        what_if: (what would change, latency in microseconds if it did).
        spills: bytes saved and reloaded, by tensor name.
        roofline: position on the device's roofline, if known.
        counters: the profiler's counters.
        notes: what a reader must know.
        source_lines: the kernel's text by line.
    """

    latency_us: float
    low_us: float
    high_us: float
    peak_latency_us: float | None = None
    bound: str
    engine_times: dict[str, EngineTime]
    lines: tuple[LineShare, ...]
    what_if: tuple[tuple[str, float], ...] = ()
    spills: dict[str, tuple[float, float]] = field(default_factory=dict)
    roofline: RooflinePosition | None = None
    counters: Profile | None = None
    notes: tuple[str, ...] = ()
    source_lines: tuple[str, ...] = ()

    @property
    def percent_of_peak(self) -> float | None:
        """Roofline latency over latency, in percent."""
        return (
            None if self.peak_latency_us is None else 100 * self.peak_latency_us / self.latency_us
        )

    def source(self, line: int) -> str:
        """Text of a kernel line, stripped; empty when there is no such line."""
        return self.source_lines[line - 1].strip() if 0 < line <= len(self.source_lines) else ""

    def to_json(self) -> dict[str, Any]:
        """The stable machine-readable form."""
        return {
            "latency_us": self.latency_us,
            "low_us": self.low_us,
            "high_us": self.high_us,
            "peak_latency_us": self.peak_latency_us,
            "percent_of_peak": self.percent_of_peak,
            "bound": self.bound,
            "engine_times": {name: asdict(times) for name, times in self.engine_times.items()},
            "lines": [asdict(share) | {"source": self.source(share.line)} for share in self.lines],
            "what_if": [
                {"change": label, "latency_us": us, "change_percent": self.change_percent(us)}
                for label, us in self.what_if
            ],
            "spills": {
                name: {"saved_bytes": saved, "reloaded_bytes": reloaded}
                for name, (saved, reloaded) in self.spills.items()
            },
            "roofline": None if self.roofline is None else asdict(self.roofline),
            "profile": None
            if self.counters is None
            else self.counters.model_dump(exclude_none=True),
            "notes": list(self.notes),
        }

    def change_percent(self, latency_us: float) -> float:
        """How another latency compares, in percent; negative is faster."""
        return 100 * (latency_us / self.latency_us - 1)


def profile_of(
    prediction: Prediction,
    work: Work | None,
    device: DeviceSpec,
    source_text: str,
    *,
    what_if: bool = True,
) -> KernelProfile:
    """The profile of a prediction.

    Args:
        prediction: what the latency model says.
        work: what the task cannot avoid; its useful FLOPs are held against the roofline. None: not
            known.
        device: what the kernel is for.
        source_text: the kernel file.
        what_if: whether to predict the changed runs too.
    """
    execution, counters = prediction.execution, prediction.profile
    times = engine_times(execution)
    # The recorded stretch stands for the whole run; shares stay what they are.
    scale = max(1.0, execution.repeats)
    moved = (counters.hbm_read_bytes or 0.0) + (counters.hbm_write_bytes or 0.0)
    return KernelProfile(
        latency_us=prediction.latency_us,
        low_us=prediction.low_us,
        high_us=prediction.high_us,
        peak_latency_us=None if work is None else roofline_latency_us(work, device),
        bound=bound(times),
        engine_times={name: _scaled_times(part, scale) for name, part in times.items()},
        lines=tuple(_scaled_share(share, scale) for share in line_table(execution)),
        what_if=tuple(prediction.what_if()) if what_if else (),
        spills=dict(prediction.spills),
        roofline=None
        if work is None
        else roofline_position(
            float(work.matmul_flops or work.vector_flops),
            moved,
            prediction.latency_us,
            device,
            unit="matmul" if work.matmul_flops else "vector",
        ),
        counters=counters,
        notes=prediction.notes,
        source_lines=tuple(source_text.splitlines()),
    )


def _scaled_times(times: EngineTime, scale: float) -> EngineTime:
    return EngineTime(
        busy_us=times.busy_us * scale,
        waiting_for_data_us=times.waiting_for_data_us * scale,
        waiting_for_space_us=times.waiting_for_space_us * scale,
        idle_us=times.idle_us * scale,
    )


def _scaled_share(share: LineShare, scale: float) -> LineShare:
    return replace(
        share,
        path_us=share.path_us * scale,
        path_busy_us=share.path_busy_us * scale,
        busy_us={name: us * scale for name, us in share.busy_us.items()},
    )
