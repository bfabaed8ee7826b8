"""The latency model: from a trace to a predicted run, with counters and an uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt.device import DeviceSpec
from accelopt.evaluation import Profile
from accelopt_simulator.hardware import DEVICES, Timing
from accelopt_simulator.latency.calibration import timing_for
from accelopt_simulator.latency.compiled import Compiled, compile_trace, durations, makespan_ns, run
from accelopt_simulator.latency.counters import count, spills_by_tensor
from accelopt_simulator.latency.execution import Execution, Transfer
from accelopt_simulator.latency.queues import Schedule
from accelopt_simulator.latency.recording import record
from accelopt_simulator.latency.steady_state import SteadyState, shortened
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Engine, Trace

Floats = NDArray[np.float64]

ENGINES = {
    Engine.TENSOR: "tensor",
    Engine.VECTOR: "vector",
    Engine.SCALAR: "scalar",
    Engine.GPSIMD: "gpsimd",
    Engine.DMA: "dma",
}
STORE_START_US = 1.0
"""Time that the gpsimd queue shows as active besides its store triggers [meas]."""

INTERVAL = 1.2816
"""Half-width of the stated interval in standard deviations: 80 % of normally distributed errors."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What the model says about a kernel.

    Attributes:
        latency_us: predicted latency, fixed overhead included.
        low_us, high_us: the interval that holds 80 % of measurements, from the calibration's
            leave-one-out residuals.
        profile: the profiler's counters.
        busy_us: busy time per engine.
        execution: when everything ran.
        spills: bytes saved and reloaded, by tensor name.
        notes: what a reader must know.
        device, timing: what it was predicted for, and with.
    """

    latency_us: float
    low_us: float
    high_us: float
    profile: Profile
    busy_us: dict[str, float]
    execution: Execution
    spills: dict[str, tuple[float, float]]
    notes: tuple[str, ...]
    device: DeviceSpec
    timing: Timing
    compiled: Compiled
    scale: SteadyState

    def what_if(self) -> list[tuple[str, float]]:
        """(what would change, latency in microseconds if it did).

        Each busy engine twice as fast, no spills, each of the three heaviest loads free, and all
        results there at once.
        """
        base_busy, base_latency = durations(self.compiled, self.timing)
        rows: list[tuple[str, float]] = []

        def row(label: str, busy: Floats, latency: Floats) -> None:
            schedule = run(self.compiled, busy, latency, self.timing)
            span = makespan_ns(schedule, latency) / 1e3
            rows.append((label, self.scale.latency_us(span) + self.timing.overhead_us))

        for code, name in ENGINES.items():
            mine = self.compiled.engine == code
            if self.busy_us[name] >= 0.1 * self.latency_us:
                row(
                    f"{name} engine twice as fast",
                    np.where(mine, base_busy / 2, base_busy),
                    base_latency,
                )
        transfer, line = self.execution.transfer, self.execution.line
        spilled = (transfer == Transfer.SPILL_SAVE) | (transfer == Transfer.SPILL_RELOAD)
        if spilled.any():
            row("no spills", np.where(spilled, 0, base_busy), np.where(spilled, 0, base_latency))
        loads = transfer == Transfer.LOAD
        lines, where = np.unique(line[loads], return_inverse=True)
        weight = np.zeros(len(lines))
        np.add.at(weight, where, base_busy[loads])
        for at in np.argsort(-weight, kind="stable")[:3]:
            free = loads & (line == lines[at])
            row(
                f"load of line {lines[at]} free",
                np.where(free, 0, base_busy),
                np.where(free, 0, base_latency),
            )
        row("no waiting for results", base_busy, np.zeros_like(base_latency))
        return rows


def predict(trace: Trace, device_name: str, timing: Timing | None = None) -> Prediction:
    """Predict a run of a trace that passed the constraints.

    Args:
        trace: the kernel.
        device_name: `trn1` or `trn2`.
        timing: constants; those of the calibration in use by default.

    Raises:
        TooManyInstancesError: the trace is too large for this model.
    """
    return predict_on(trace, DEVICES[device_name], timing or timing_for(device_name))


def predict_on(trace: Trace, device: DeviceSpec, timing: Timing) -> Prediction:
    """Predict a run with given constants.

    Raises:
        TooManyInstancesError: the trace is too large for this model.
    """
    short, scale = shortened(Analysis(trace), device, timing)
    compiled = compile_trace(short, device, timing)
    busy, latency = durations(compiled, timing)
    schedule = run(compiled, busy, latency, timing)
    span_us = scale.latency_us(makespan_ns(schedule, latency) / 1e3)
    execution = record(compiled, schedule, latency, device, scale.repeats)
    stores = float((execution.transfer == Transfer.STORE).sum()) * scale.repeats
    busy_us = {
        name: scale.repeats * float(busy[compiled.engine == code].sum()) / 1e3
        for code, name in ENGINES.items()
    }
    busy_us["gpsimd"] += stores * timing.trigger_ns / 1e3
    active_us = _active_us(compiled, schedule, busy_us, stores, scale, timing)
    latency_us = span_us + timing.overhead_us
    counters = {name: scale.counter(name, value) for name, value in count(compiled).items()}
    spread = math.exp(INTERVAL * timing.log_error)
    return Prediction(
        latency_us=latency_us,
        low_us=latency_us / spread,
        high_us=latency_us * spread,
        profile=_profile(counters, active_us, latency_us, span_us, timing),
        busy_us=busy_us,
        execution=execution,
        spills=spills_by_tensor(compiled),
        notes=_notes(counters, scale, timing),
        device=device,
        timing=timing,
        compiled=compiled,
        scale=scale,
    )


def _active_us(
    compiled: Compiled,
    schedule: Schedule,
    busy_us: dict[str, float],
    stores: float,
    scale: SteadyState,
    timing: Timing,
) -> dict[str, float]:
    """Active time as the profiler shows it.

    A vector instruction that nothing follows closely shows a tail; a store's trigger shows on the
    gpsimd queue.
    """
    active = dict(busy_us)
    vector = np.flatnonzero(compiled.engine == Engine.VECTOR)
    if len(vector):
        order = vector[np.argsort(schedule.start[vector], kind="stable")]
        gaps = np.append(schedule.start[order][1:] - schedule.end[order][:-1], np.inf)
        tail = max(0.0, timing.dve_tail_ns - timing.dve_overhead_ns)
        active["vector"] += scale.repeats * float(np.clip(gaps, 0.0, tail).sum()) / 1e3
    if stores:
        active["gpsimd"] += STORE_START_US
    return active


def _profile(
    counters: dict[str, float],
    active_us: dict[str, float],
    latency_us: float,
    span_us: float,
    timing: Timing,
) -> Profile:
    flops = counters.get("hardware_flops", 0.0)
    transposes = counters.get("transpose_flops", 0.0)
    hbm = counters.get("hbm_read_bytes", 0.0) + counters.get("hbm_write_bytes", 0.0)
    byte_names = [
        f"{memory}_{way}_bytes" for memory in ("hbm", "psum", "sbuf") for way in ("read", "write")
    ]
    return Profile(
        latency_us=latency_us,
        **{name: counters.get(name, 0.0) for name in byte_names},
        spill_save_bytes=counters.get("spill_save_bytes", 0.0),
        spill_reload_bytes=counters.get("spill_reload_bytes", 0.0),
        hardware_flops=flops,
        transpose_flops=transposes,
        peak_flops_bandwidth_ratio=timing.peak_flops_bandwidth_ratio,
        mm_arithmetic_intensity=(flops - transposes) / hbm if hbm else 0.0,
        # Shares are of the run itself, as in the published profiles, without the fixed overhead.
        hfu_estimated_percent=flops / (timing.hfu_peak_flops_per_s * max(span_us, 1e-9) * 1e-6),
        **{
            f"{name}_engine_active_time_percent": min(1.0, active_us[name] / max(span_us, 1e-9))
            for name in ("scalar", "vector", "gpsimd", "tensor")
        },
        dma_active_time_percent=min(1.0, active_us["dma"] / max(span_us, 1e-9)),
    )


def _notes(counters: dict[str, float], scale: SteadyState, timing: Timing) -> tuple[str, ...]:
    percent = 100 * (math.exp(timing.log_error) - 1)
    notes = [f"latency model {timing.version}, typical error {percent:.0f} %"]
    saved = counters.get("spill_save_bytes", 0.0)
    if saved:
        notes.append(f"{saved / 1e6:.1f} MB go through HBM because they do not fit SBUF")
    if scale.repeats > 1:
        notes.append(scale.note)
    return tuple(notes)
