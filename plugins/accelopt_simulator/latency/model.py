"""The latency model: from a trace to latency, counters, what bounds it, and where the time goes.

First version, with documented and published constants; nothing is fitted here, and its output says
`uncalibrated`. Spills are only estimated, and noted when they happen. Not modelled: PSUM bank
conflicts, engine exclusion on SBUF and PSUM ports, activation table switches, compiler fusion.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt.device import DeviceSpec
from accelopt.evaluation import Profile
from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.capacity import occupancy
from accelopt_simulator.latency.counters import count
from accelopt_simulator.latency.dependences import find_dependences
from accelopt_simulator.latency.generations import fresh_tile_loops
from accelopt_simulator.latency.old_reuse import repeated_loads
from accelopt_simulator.latency.schedule import Schedule, simulate
from accelopt_simulator.latency.stream import InstructionInstances, expand, program_order
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Engine, Space, TensorRole, Trace

ENGINE_NAMES = {
    Engine.TENSOR: "tensor",
    Engine.VECTOR: "vector",
    Engine.SCALAR: "scalar",
    Engine.GPSIMD: "gpsimd",
    Engine.DMA: "dma",
}
SPILL_ROW_BYTES = 4096
BOUND_SHARE = 0.6
"""An engine that is busy for less than this share of the time does not bound the kernel."""


@dataclass(frozen=True, kw_only=True)
class LatencyReport:
    """What the model says.

    Attributes:
        latency_us: predicted device time, fixed overhead included.
        profile: counters.
        bound: `dma`, `tensor`, `vector`, `scalar`, `gpsimd` or `latency`.
        busy_us: busy time per engine.
        line_facts: what the lines with the most engine time cost.
        features: named numbers that describe the kernel.
        notes: what a reader must know.
    """

    latency_us: float
    profile: Profile
    bound: str
    busy_us: dict[str, float]
    line_facts: dict[int, str]
    features: dict[str, float]
    notes: tuple[str, ...]


def estimate_latency(trace: Trace, device: DeviceSpec, timing: Timing) -> LatencyReport:
    """Predict the latency of a trace that passed the constraints.

    Raises:
        TooManyInstancesError: the trace is too large for this model.
    """
    analysis = Analysis(trace)
    instances = expand(analysis, timing)
    loops = fresh_tile_loops(analysis)
    space = occupancy(analysis, device.sbuf_bytes_per_partition, timing.buffer_copies)
    skipped = repeated_loads(trace, instances, space.working_set_bytes, timing)
    which, within = program_order(instances)
    tracked = _tracked_hbm(trace, instances)
    deps = find_dependences(
        instances, which, within,
        generation_loops=loops, tracked_hbm=tracked, copies=space.copies,
    )  # fmt: skip
    engine, busy, latency = _columns(instances, skipped, which, within)
    schedule = simulate(engine, busy, latency, deps, timing)
    busy_us = {
        name: float(busy[engine == int(code)].sum()) / 1e3 for code, name in ENGINE_NAMES.items()
    }
    busy_us["dma"] += _spill_us(space.spill_bytes, timing)
    # Spill traffic overlaps with everything else; the DMA engines can't do more than they can.
    span_us = max(schedule.makespan / 1e3, busy_us["dma"])
    latency_us = span_us + timing.overhead_us
    stores = sum(_stores(item) for item in instances)
    busy_us["gpsimd"] += stores * timing.trigger_ns / 1e3
    top = max(busy_us, key=lambda name: busy_us[name])
    bound = top if span_us and busy_us[top] >= BOUND_SHARE * span_us else "latency"
    counters = count(instances, skipped)
    counters["spill_save_bytes"] = counters["spill_reload_bytes"] = float(space.spill_bytes)
    for name in ("hbm_read_bytes", "hbm_write_bytes"):
        counters[name] = counters.get(name, 0.0) + space.spill_bytes
    notes = [f"latency from the {timing.version} cost model, no error bound yet"]
    if space.excess_bytes:
        notes.append(
            f"tiles of {space.working_set_bytes // 1024} KiB per partition exceed SBUF by "
            f"{space.excess_bytes // 1024} KiB: the compiler would spill; the estimate assumes one "
            "save and one reload, overlapped with all other work"
        )
    return LatencyReport(
        latency_us=latency_us,
        profile=_profile(counters, busy_us, latency_us, timing),
        bound=bound,
        busy_us=busy_us,
        line_facts=_line_facts(trace, instances, skipped, schedule),
        features=_features(instances, busy_us, span_us, counters),
        notes=tuple(notes),
    )


def _columns(
    instances: list[InstructionInstances],
    skipped: dict[int, NDArray[np.bool_]],
    which: NDArray[np.int64],
    within: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Engine, busy time and latency of each instance in program order; -1 = takes no time."""
    offsets = np.concatenate(([0], np.cumsum([len(item.alive) for item in instances])))
    engines, busy, latency = [], [], []
    for item in instances:
        runs = item.alive & ~skipped.get(item.instruction, np.zeros(len(item.alive), dtype=bool))
        engines.append(np.where(runs, int(item.engine), -1))
        busy.append(np.where(runs, item.busy_ns, 0.0))
        latency.append(np.where(runs, item.latency_ns, 0.0))
    flat = offsets[which] + within
    return (
        np.concatenate(engines)[flat],
        np.concatenate(busy)[flat],
        np.concatenate(latency)[flat],
    )


def _tracked_hbm(trace: Trace, instances: list[InstructionInstances]) -> set[int]:
    written: set[int] = set()
    read: set[int] = set()
    for item in instances:
        for _, region, write, _ in item.operands:
            if region.space is Space.HBM:
                (written if write else read).add(region.storage)
    return {t for t in written & read if trace.tensor_role[t] != TensorRole.INPUT}


def _stores(item: InstructionInstances) -> int:
    to_hbm = item.op == "dma_copy" and any(
        w and r.space is Space.HBM for _, r, w, _ in item.operands
    )
    return int(item.alive.sum()) if to_hbm else 0


def _spill_us(spill_bytes: int, timing: Timing) -> float:
    """DMA time of saving and reloading what spills, in rows of 4 KiB [doc: default packet size]."""
    rows = 2 * spill_bytes / SPILL_ROW_BYTES
    row_ns = timing.dma_row_ns + SPILL_ROW_BYTES / timing.dma_engine_bytes_per_ns
    return rows / timing.dma_engines * row_ns / 1e3


def _profile(
    counters: dict[str, float], busy_us: dict[str, float], latency_us: float, timing: Timing
) -> Profile:
    flops = counters.get("hardware_flops", 0.0)
    transposes = counters.get("transpose_flops", 0.0)
    hbm = counters.get("hbm_read_bytes", 0.0) + counters.get("hbm_write_bytes", 0.0)
    names = [
        "hbm_read_bytes",
        "hbm_write_bytes",
        "psum_read_bytes",
        "psum_write_bytes",
        "sbuf_read_bytes",
        "sbuf_write_bytes",
        "spill_save_bytes",
        "spill_reload_bytes",
    ]
    return Profile(
        latency_us=latency_us,
        **{name: counters.get(name, 0.0) for name in names},
        hardware_flops=flops,
        transpose_flops=transposes,
        peak_flops_bandwidth_ratio=timing.peak_flops_bandwidth_ratio,
        mm_arithmetic_intensity=(flops - transposes) / hbm if hbm else 0.0,
        hfu_estimated_percent=flops / (timing.hfu_peak_flops_per_s * latency_us * 1e-6),
        **{
            f"{name}_engine_active_time_percent": busy_us[name] / latency_us
            for name in ("scalar", "vector", "gpsimd", "tensor")
        },
        dma_active_time_percent=busy_us["dma"] / latency_us,
    )


def _line_facts(
    trace: Trace,
    instances: list[InstructionInstances],
    skipped: dict[int, NDArray[np.bool_]],
    schedule: Schedule,
) -> dict[int, str]:
    """The ten lines with the most engine time."""
    by_line: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for item in instances:
        line = int(trace.ins_line[item.instruction])
        runs = item.alive & ~skipped.get(item.instruction, np.zeros(len(item.alive), dtype=bool))
        by_line[line][ENGINE_NAMES[item.engine]] += float(item.busy_ns[runs].sum()) / 1e3
    ranked = sorted(by_line, key=lambda line: -max(by_line[line].values()))[:10]
    span = max(schedule.makespan / 1e3, 1e-9)
    return {
        line: ", ".join(
            f"{name} {us:.0f} us ({100 * us / span:.0f} % of the time)"
            for name, us in sorted(by_line[line].items(), key=lambda item: -item[1])
            if us > 0
        )
        or "no engine time"
        for line in sorted(ranked)
        if line > 0
    }


def _features(
    instances: list[InstructionInstances],
    busy_us: dict[str, float],
    span_us: float,
    counters: dict[str, float],
) -> dict[str, float]:
    features = {f"busy_{name}": us / max(span_us, 1e-9) for name, us in busy_us.items()}
    for item in instances:
        features[f"count_{item.op}"] = features.get(f"count_{item.op}", 0.0) + float(
            item.alive.sum()
        )
    features |= {k: v for k, v in counters.items() if k.endswith(("_bytes", "_flops"))}
    return features
