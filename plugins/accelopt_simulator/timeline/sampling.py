"""What is kept of a run that is too long to show whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.execution import Execution, Floats, Ints, MemoryUse
from accelopt_simulator.timeline.lanes import Lane

Bools = NDArray[np.bool_]

ZOOM_INSTANCES = 48
"""Instances of a detail window."""
ZOOM_CANDIDATES = 21


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Instances that stay.

    Attributes:
        mask: which.
        windows_ns: the whole stretches of time whose starts they are, ascending.
    """

    mask: Bools
    windows_ns: tuple[tuple[float, float], ...]

    @property
    def everything(self) -> bool:
        """Whether nothing was left out."""
        return bool(self.mask.all())


def keep_windows(execution: Execution, cost: Ints, budget: int) -> Kept:
    """Keep the beginning, the middle and the end of a run, as much as costs `budget` together.

    Args:
        execution: the run.
        cost: of each instance.
        budget: what the kept ones may cost.
    """
    count = len(execution)
    if int(cost.sum()) <= budget:
        return Kept(mask=np.ones(count, dtype=np.bool_), windows_ns=((0.0, execution.makespan_ns),))
    order = np.argsort(execution.start_ns, kind="stable")
    starts = execution.start_ns[order]
    spent = np.concatenate(([0], np.cumsum(cost[order])))
    part = budget // 3
    first = int(np.searchsorted(spent, part, side="right")) - 1
    last = int(np.searchsorted(spent, spent[-1] - part, side="left"))
    centre = int(np.searchsorted(starts, execution.makespan_ns / 2))
    # The middle never meets the other two: together they cost more than the budget allows.
    centre = min(max(centre, first), last)
    low = int(np.searchsorted(spent, spent[centre] - part // 2, side="left"))
    low = max(low, first)
    high = int(np.searchsorted(spent, spent[low] + part, side="right")) - 1
    high = min(high, last)
    mask = np.zeros(count, dtype=np.bool_)
    windows = []
    for begin, stop in ((0, first), (low, high), (last, count)):
        if begin >= stop:
            continue
        mask[order[begin:stop]] = True
        # To the start of what follows: up to there, all that started is kept.
        until = float(starts[stop]) if stop < count else execution.makespan_ns
        windows.append((float(starts[begin]), until))
    return Kept(mask=mask, windows_ns=tuple(windows))


def step_maxima(use: MemoryUse, edges_ns: Floats) -> Floats:
    """The largest value of a step function in each bin `edges_ns[i] .. edges_ns[i + 1]`."""
    if not len(use.times_ns):
        return np.zeros(len(edges_ns) - 1)
    # The value that holds at a bin's left edge counts, too.
    times = np.concatenate((use.times_ns, edges_ns[:-1]))
    at_edges = np.searchsorted(use.times_ns, edges_ns[:-1], side="right") - 1
    held = np.where(at_edges >= 0, use.bytes_per_partition[np.maximum(at_edges, 0)], 0.0)
    values = np.concatenate((use.bytes_per_partition, held))
    bins = np.clip(np.searchsorted(edges_ns, times, side="right") - 1, 0, len(edges_ns) - 2)
    bins[len(use.times_ns) :] = np.arange(len(edges_ns) - 1)
    result = np.zeros(len(edges_ns) - 1)
    np.maximum.at(result, bins, values)
    return result


def coverage(start_ns: Floats, end_ns: Floats, edges_ns: Floats) -> Floats:
    """Share, 0 to 1, of each bin that intervals cover; overlaps count once.

    Args:
        start_ns, end_ns: intervals, ascending by start.
        edges_ns: borders of the bins, ascending.
    """
    if not len(start_ns):
        return np.zeros(len(edges_ns) - 1)
    latest = np.maximum.accumulate(end_ns)
    begin = np.maximum(start_ns, np.concatenate(([-np.inf], latest[:-1])))
    finish = np.maximum(begin, latest)
    total = np.cumsum(finish - begin)
    points = np.stack((begin, finish), axis=1).ravel()
    values = np.stack((total - (finish - begin), total), axis=1).ravel()
    covered: Floats = np.diff(np.interp(edges_ns, points, values)) / np.diff(edges_ns)
    return np.clip(covered, 0.0, 1.0)


def zoom_window(execution: Execution, among: list[Lane]) -> tuple[float, float]:
    """A stretch near the middle of the run that shows what its steady state looks like.

    About `ZOOM_INSTANCES` instances start in it; of several places near the middle, one where most
    lanes have work.
    """
    starts = np.sort(execution.start_ns)
    if len(starts) <= ZOOM_INSTANCES:
        return 0.0, execution.makespan_ns
    middle = int(np.searchsorted(starts, execution.makespan_ns / 2))
    middle = min(max(0, middle - ZOOM_INSTANCES // 2), len(starts) - ZOOM_INSTANCES)
    reach = min(middle, len(starts) - ZOOM_INSTANCES - middle, len(starts) // 5)
    offsets = np.linspace(0, reach, ZOOM_CANDIDATES // 2 + 1).astype(np.int64)
    best, most = (0.0, 0.0), -1
    # Nearest first: a later place must show more lanes to be preferred.
    for first in (middle + sign * int(offset) for offset in offsets for sign in (1, -1)):
        low = float(starts[first])
        stop = first + ZOOM_INSTANCES
        high = float(starts[stop]) if stop < len(starts) else execution.makespan_ns
        shown = sum(_starts_within(execution, lane, low, high) for lane in among)
        if shown > most and high > low:
            best, most = (low, high), shown
    return best if most >= 0 else (0.0, execution.makespan_ns)


def _starts_within(execution: Execution, lane: Lane, low: float, high: float) -> bool:
    first, stop = np.searchsorted(execution.start_ns[lane.members], [low, high])
    return bool(stop > first)
