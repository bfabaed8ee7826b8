"""Where the predicted time goes: per engine, per kernel line, against the roofline.

Everything speaks of the recorded stretch of an execution. Where `Execution.repeats` is above 1 that
stretch stands for more of its kind: shares stay valid, and the caller scales the totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from accelopt.device import DeviceSpec
from accelopt_simulator.latency.critical_path import (
    ENGINE_NAMES,
    WAIT_NAMES,
    CriticalPath,
    critical_path,
)
from accelopt_simulator.latency.execution import Execution, Floats, Ints, Wait
from accelopt_simulator.trace.schema import Engine

__all__ = [
    "CriticalPath",
    "EngineTime",
    "LineShare",
    "RooflinePosition",
    "bound",
    "critical_path",
    "engine_times",
    "line_table",
    "queue_gaps",
    "roofline_position",
    "wait_text",
]

BOUND_SHARE = 0.6
"""An engine that is busy for less than this share of the time does not bound the kernel."""


@dataclass(frozen=True, kw_only=True)
class EngineTime:
    """What an engine did, in microseconds; the four add up to the makespan.

    Attributes:
        busy_us: it had work.
        waiting_for_data_us: its next instance waited for a value.
        waiting_for_space_us: its next instance waited for a buffer that others still used.
        idle_us: nothing was left to do, or the next instance's turn had not come.
    """

    busy_us: float
    waiting_for_data_us: float
    waiting_for_space_us: float
    idle_us: float

    @property
    def total_us(self) -> float:
        """The makespan."""
        return self.busy_us + self.waiting_for_data_us + self.waiting_for_space_us + self.idle_us


@dataclass(frozen=True, kw_only=True)
class LineShare:
    """A kernel line's part of the critical path.

    Attributes:
        line: 1-based kernel line, 0 for what no line stands for.
        path_us: time of its segments on the critical path.
        share: of the makespan, 0 to 1.
        path_busy_us: part of `path_us` in which its engine worked; the rest is latency.
        engines, ops: of its steps on the path, most time first.
        wait: what its steps waited for most often: `nothing`, `engine`, `data` or `space`.
        wait_line, wait_op, wait_engine: of the instance that they then waited for; 0 and empty when
            there was none.
        busy_us: engine time of all its instances, on the path or not, by engine name.
    """

    line: int
    path_us: float
    share: float
    path_busy_us: float
    engines: tuple[str, ...]
    ops: tuple[str, ...]
    wait: str
    wait_line: int
    wait_op: str
    wait_engine: str
    busy_us: dict[str, float]

    @property
    def wait_text(self) -> str:
        """What it mostly waited for, for people."""
        elsewhere = self.wait_engine not in self.engines
        return wait_text(self.wait, self.wait_line, self.wait_op, elsewhere=elsewhere)


@dataclass(frozen=True, kw_only=True)
class RooflinePosition:
    """A kernel against the roofline of its device.

    Attributes:
        flops, hbm_bytes: what was counted.
        intensity_flops_per_byte: None without memory traffic.
        balance_flops_per_byte: intensity above which the device is bound by compute.
        peak_flops_per_s: peak of the unit.
        attainable_flops_per_s: what the roofline allows at this intensity.
        achieved_flops_per_s: what the latency gives.
        achieved_hbm_bytes_per_s: memory traffic over latency.
        hbm_share: of the peak memory bandwidth, 0 to 1.
    """

    flops: float
    hbm_bytes: float
    intensity_flops_per_byte: float | None
    balance_flops_per_byte: float
    peak_flops_per_s: float
    attainable_flops_per_s: float
    achieved_flops_per_s: float
    achieved_hbm_bytes_per_s: float
    hbm_share: float


def wait_text(wait: str, line: int, op: str, *, elsewhere: bool = False) -> str:
    """What an instance waited for, for people.

    Args:
        wait: `nothing`, `engine`, `data` or `space`.
        line, op: of the instance that it waited for; line 0 for what no line stands for.
        elsewhere: that one ran on another engine: then a wait for the engine is one for its turn.
    """
    if wait == "nothing":
        return "nothing"
    where = f"{op} (line {line})" if line else f"{op} (of the compiler)"
    return {
        "engine": f"its turn, after {where}" if elsewhere else f"its engine, busy with {where}",
        "data": f"data of {where}",
        "space": f"a buffer that {where} still uses",
    }[wait]


def queue_gaps(execution: Execution) -> tuple[Floats, Floats]:
    """When each instance's queue last worked before it, and how long it then stood still.

    Returns:
        `free_ns`, the latest end of what started earlier on the same engine (0 for the first), and
        `gap_ns` from then to the instance's start, by instance.
    """
    free, gap = np.zeros(len(execution)), np.zeros(len(execution))
    for code in ENGINE_NAMES:
        members = _in_order(execution, code)
        if not len(members):
            continue
        latest = np.maximum.accumulate(execution.end_ns[members])
        free[members] = np.concatenate(([0.0], latest[:-1]))
        gap[members] = np.maximum(0.0, execution.start_ns[members] - free[members])
    return free, gap


def engine_times(execution: Execution) -> dict[str, EngineTime]:
    """What each engine did over the recorded stretch, by engine name.

    A gap before an instance belongs to what came last, its data or its space (data on a tie). Where
    it waited for its turn after both were there, that part is idle, like the time after an engine's
    last instance.
    """
    free, gap = queue_gaps(execution)
    ready = np.maximum(execution.data_ready_ns, execution.space_ready_ns)
    by_space = execution.space_ready_ns > execution.data_ready_ns
    explained = np.where(
        execution.wait == int(Wait.ENGINE), np.minimum(ready, execution.start_ns) - free, gap
    )
    explained = np.where(ready > free, np.clip(explained, 0.0, gap), 0.0)
    makespan = execution.makespan_ns
    result = {}
    for code, name in ENGINE_NAMES.items():
        members = execution.engine == int(code)
        data = float(explained[members & ~by_space].sum())
        space = float(explained[members & by_space].sum())
        last = float(execution.end_ns[members].max(initial=0.0))
        # Instances that overlap on an aggregated queue count once: busy is what no gap covers.
        busy = last - float(gap[members].sum())
        result[name] = EngineTime(
            busy_us=busy / 1e3,
            waiting_for_data_us=data / 1e3,
            waiting_for_space_us=space / 1e3,
            idle_us=max(0.0, makespan - busy - data - space) / 1e3,
        )
    return result


def bound(times: Mapping[str, EngineTime]) -> str:
    """What bounds a kernel: the busiest engine's name, or `latency`.

    An engine that is busy for less than `BOUND_SHARE` of the makespan does not bound it.
    """
    top = max(times, key=lambda name: times[name].busy_us)
    total = times[top].total_us
    return top if total > 0 and times[top].busy_us >= BOUND_SHARE * total else "latency"


def line_table(
    execution: Execution, top: int = 10, path: CriticalPath | None = None
) -> list[LineShare]:
    """The lines that hold most of the critical path, largest first.

    Args:
        execution: the run.
        top: how many lines at most.
        path: its critical path, if the caller has it.
    """
    path = critical_path(execution) if path is None else path
    lines = execution.line[path.instances]
    chosen = [line for line, us in path.line_us.items() if us > 0][:top]
    return [_line_share(execution, path, line, np.flatnonzero(lines == line)) for line in chosen]


def _line_share(execution: Execution, path: CriticalPath, line: int, steps: Ints) -> LineShare:
    instances = path.instances[steps]
    length = path.length_ns[steps]
    wait, cause = _most_often(execution, instances)
    path_us = path.line_us[line]
    members = execution.line == line
    held = execution.end_ns - execution.start_ns
    busy = {
        name: float(held[members & (execution.engine == int(code))].sum()) / 1e3
        for code, name in ENGINE_NAMES.items()
    }
    return LineShare(
        line=line,
        path_us=path_us,
        share=path_us * 1e3 / execution.makespan_ns if execution.makespan_ns else 0.0,
        path_busy_us=float(path.busy_ns[steps].sum()) / 1e3,
        engines=tuple(_engine_name(code) for code in _ranked(execution.engine[instances], length)),
        ops=tuple(execution.op_names[op] for op in _ranked(execution.op[instances], length)),
        wait=WAIT_NAMES[wait],
        wait_line=int(execution.line[cause]) if cause >= 0 else 0,
        wait_op=execution.op_names[execution.op[cause]] if cause >= 0 else "",
        wait_engine=_engine_name(int(execution.engine[cause])) if cause >= 0 else "",
        busy_us={name: us for name, us in busy.items() if us > 0},
    )


def _most_often(execution: Execution, instances: Ints) -> tuple[Wait, int]:
    """The most frequent (wait, line and op of the cause), as a wait and one such cause."""
    cause = execution.cause[instances]
    known = cause >= 0
    wait = np.where(known, execution.wait[instances], int(Wait.NOTHING))
    line = np.where(known, execution.line[cause], -1)
    op = np.where(known, execution.op[cause], -1)
    # One number per combination: NumPy sorts rows far slower than integers.
    spans = int(line.max()) + 2, len(execution.op_names) + 1
    keys = (wait * spans[0] + line + 1) * spans[1] + op + 1
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    example = int(first[np.argmax(counts)])
    return Wait(int(wait[example])), int(cause[example])


def _engine_name(code: int) -> str:
    return ENGINE_NAMES.get(Engine(code), "unknown")


def _ranked(keys: Ints, weights: Floats) -> list[int]:
    distinct, where = np.unique(keys, return_inverse=True)
    sums = np.bincount(where, weights=weights)
    return [int(distinct[i]) for i in np.argsort(-sums, kind="stable")]


def _in_order(execution: Execution, code: Engine) -> Ints:
    members = np.flatnonzero(execution.engine == int(code))
    return members[np.argsort(execution.start_ns[members], kind="stable")]


def roofline_position(
    flops: float,
    hbm_bytes: float,
    latency_us: float,
    device: DeviceSpec,
    *,
    unit: Literal["matmul", "vector"] = "matmul",
) -> RooflinePosition:
    """Where a kernel lies on the roofline.

    Args:
        flops: useful FLOPs of the task, or those that the hardware executed.
        hbm_bytes: bytes that the kernel moves from and to HBM.
        latency_us: its latency in microseconds, above 0.
        device: the peaks.
        unit: whose peak the FLOPs are held against.
    """
    peak = device.fp32_matmul_flops_per_s if unit == "matmul" else device.vector_flops_per_s
    bandwidth = device.hbm_bandwidth_bytes_per_s
    intensity = flops / hbm_bytes if hbm_bytes else None
    per_s = 1e6 / latency_us
    return RooflinePosition(
        flops=flops,
        hbm_bytes=hbm_bytes,
        intensity_flops_per_byte=intensity,
        balance_flops_per_byte=peak / bandwidth,
        peak_flops_per_s=peak,
        attainable_flops_per_s=peak if intensity is None else min(peak, intensity * bandwidth),
        achieved_flops_per_s=flops * per_s,
        achieved_hbm_bytes_per_s=hbm_bytes * per_s,
        hbm_share=hbm_bytes * per_s / bandwidth,
    )
