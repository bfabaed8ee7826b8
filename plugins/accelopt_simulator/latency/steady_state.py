"""Steady state: a long outer loop is replayed for some iterations and extrapolated.

All instances are replayed up to a limit. Beyond it, the top-level loop with the most instances is
cut to three lengths; when time and counters grow alike between them, and the iterations that are
left out do the same as those that are replayed, the rest of the loop is taken to go on like that.
Where there is no steady state, everything is replayed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accelopt.device import DeviceSpec
from accelopt_simulator.hardware import Timing
from accelopt_simulator.isa import OPS
from accelopt_simulator.latency.compiled import compile_trace, durations, makespan_ns, run
from accelopt_simulator.latency.counters import count
from accelopt_simulator.latency.stream import MAX_INSTANCES
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace

REPLAY_LIMIT = 300_000
"""Instances that are always replayed in full."""

STRETCH = 60_000
"""About this many instances of the cut loop are replayed per length."""

AGREEMENT = 0.01
"""Relative difference of the time per iteration that counts as steady, and share of the iterations
that may do less than the others (at the edge of a tensor)."""


@dataclass(frozen=True)
class SteadyState:
    """How a replayed stretch stands for the whole kernel.

    Attributes:
        repeats: instances of the whole over those of the stretch; 1 = everything is replayed.
        stretch_us, slope_us, missing: makespan of the stretch, time per iteration, and iterations
            that were left out.
        counters, counter_slopes: counters of the stretch and per iteration.
        note: one line for people.
    """

    repeats: float = 1.0
    stretch_us: float = 0.0
    slope_us: float = 0.0
    missing: int = 0
    counter_slopes: dict[str, float] | None = None
    note: str = ""

    def latency_us(self, stretch_us: float) -> float:
        """Time of the whole from that of the stretch (which may have been changed by a what-if)."""
        if not self.missing:
            return stretch_us
        return stretch_us + self.missing * self.slope_us * stretch_us / self.stretch_us

    def counter(self, name: str, value: float) -> float:
        """Counter of the whole from that of the stretch."""
        slopes = self.counter_slopes or {}
        return value + self.missing * slopes.get(name, 0.0)


def shortened(
    analysis: Analysis, device: DeviceSpec, timing: Timing
) -> tuple[Analysis, SteadyState]:
    """A trace to replay, and how it stands for the given one."""
    trace = analysis.trace
    total = _instances(analysis)
    loop, per_iteration = _heaviest(analysis)
    if total <= REPLAY_LIMIT or loop < 0:
        return analysis, SteadyState()
    trips = analysis.max_trips(loop)
    length = max(2, round(STRETCH / per_iteration))
    if 3 * length >= trips or not _alike(analysis, loop, 2 * length):
        return analysis, SteadyState()
    cuts = [Analysis(_cut(trace, analysis, loop, k * length)) for k in (1, 2, 3)]
    spans, totals = [], []
    for cut in cuts:
        compiled = compile_trace(cut, device, timing)
        busy, latency = durations(compiled, timing)
        spans.append(makespan_ns(run(compiled, busy, latency, timing), latency) / 1e3)
        totals.append(count(compiled))
    early, late = spans[1] - spans[0], spans[2] - spans[1]
    if not late or abs(early - late) > AGREEMENT * late:
        return analysis, SteadyState()
    grown = [_difference(totals[k], totals[k + 1]) for k in (0, 1)]
    if any(abs(grown[0][name] - value) > AGREEMENT * value for name, value in grown[1].items()):
        return analysis, SteadyState()
    missing = trips - 3 * length
    slopes = {name: value / length for name, value in grown[1].items()}
    replayed = total - missing * per_iteration
    return cuts[2], SteadyState(
        repeats=total / replayed,
        stretch_us=spans[2],
        slope_us=late / length,
        missing=missing,
        counter_slopes=slopes,
        note=f"{3 * length} of {trips} iterations of the loop in line {trace.loop_line[loop]} are "
        "replayed; the rest goes on like them",
    )


def _instances(analysis: Analysis) -> int:
    return sum(analysis.instances(int(loop)) for loop in analysis.innermost)


def _heaviest(analysis: Analysis) -> tuple[int, float]:
    """The top-level loop with fixed bounds that holds most instances, and those per iteration."""
    best, most = -1, 0.0
    for loop in analysis.children(-1):
        if not analysis.always_runs(loop):
            continue
        inside = [int(inner) for inner in analysis.innermost if loop in analysis.chain(int(inner))]
        held = sum(analysis.instances(inner) for inner in inside)
        if held > most:
            best, most = loop, held
    return best, most / max(1, analysis.max_trips(best)) if best >= 0 else 0.0


def _difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _alike(analysis: Analysis, loop: int, first: int) -> bool:
    """Whether a loop's iterations from the given one on do the same, but for a few that do less."""
    trace = analysis.trace
    for inner in range(trace.num_loops):
        bounds = (int(trace.loop_start[inner]), int(trace.loop_stop[inner]))
        if any(loop in analysis.loops_in(bound) for bound in bounds):
            return False
    for instruction in range(trace.num_instructions):
        if int(trace.ins_pred[instruction]) < 0:
            continue
        work = _work(analysis, instruction, loop)
        if work is None:
            return False
        usual = work[first]
        fewer = (work[first:] < usual).any(axis=1)
        if (work[first:] > usual).any() or fewer.sum() > AGREEMENT * len(work):
            return False
    return True


def _work(analysis: Analysis, instruction: int, loop: int) -> NDArray[np.float64] | None:
    """Elements that a predicate leaves in each iteration of a loop: (iteration, inner iterations).

    None when that takes too long to say. One row per iteration, all equal, when they don't differ.
    """
    trace, predicate = analysis.trace, int(analysis.trace.ins_pred[instruction])
    exprs = [expr for clause in trace.clauses(predicate) for expr, _ in clause]
    loops = sorted({lp for expr in exprs for lp in analysis.loops_in(expr)})
    trips = analysis.max_trips(loop)
    if loop not in loops:
        return np.ones((trips, 1))
    sizes = [analysis.max_trips(lp) for lp in loops]
    if any(analysis.is_dynamic(expr) for expr in exprs) or math.prod(sizes) > MAX_INSTANCES:
        return None
    steps = np.indices(sizes).reshape(len(loops), -1)
    values = {
        lp: analysis.loop_range[lp][0] + int(trace.loop_step[lp]) * step
        for lp, step in zip(loops, steps, strict=True)
    }
    spans = "data" if OPS[trace.ops[trace.ins_op[instruction]]].grid == "data" else "dst"
    access = next(ref for role, _, ref in trace.operands(instruction) if role == spans)
    lows, highs, alive, _ = analysis.axis_window(predicate, trace.access_shape(access), values)
    work = np.broadcast_to(np.asarray(alive, dtype=np.float64), steps.shape[1]).copy()
    for low, high in zip(lows, highs, strict=True):
        work *= np.maximum(0, np.asarray(high) - np.asarray(low))
    by_loop = np.moveaxis(work.reshape(sizes), loops.index(loop), 0)
    return by_loop.reshape(trips, -1)


def _cut(trace: Trace, analysis: Analysis, loop: int, trips: int) -> Trace:
    """The trace with a loop that ends after some iterations."""
    start, _ = analysis.loop_range[loop]
    stop = start + trips * int(trace.loop_step[loop])
    columns = dict(trace.columns)
    columns["expr_const"] = np.append(columns["expr_const"], stop)
    columns["expr_start"] = np.append(columns["expr_start"], columns["expr_start"][-1])
    stops = columns["loop_stop"].copy()
    stops[loop] = len(columns["expr_const"]) - 1
    columns["loop_stop"] = stops
    return replace(trace, columns=columns, _hash=[])
