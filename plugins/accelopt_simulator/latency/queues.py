"""Event simulation of the engine queues.

Every engine is a server that starts the lowest-numbered ready event within a window of its queue
(the compiler's scheduler reorders a little, not without bound); DMA is one aggregated server of 16
engines. A dependent waits for the producer's busy time, its result latency, and a semaphore hop
when it runs on another engine.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from accelopt_simulator.latency.jit import compiled
from numpy.typing import NDArray

from accelopt_simulator.latency.waits import Waits
from accelopt_simulator.trace.schema import Engine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass
class Schedule:
    """When every event ran, in nanoseconds.

    Attributes:
        start, end: when it holds its queue.
        cause: event that it waited for last, -1 for none.
        wait: `execution.Wait` code of that.
        data_ready, space_ready: when its values were there, and its room.
    """

    start: Floats
    end: Floats
    cause: Ints
    wait: Ints
    data_ready: Floats
    space_ready: Floats


def run_queues(
    engine: Ints,
    busy_ns: Floats,
    latency_ns: Floats,
    waits: Waits,
    *,
    window: int,
    dma_window: int,
    semaphore_ns: float,
) -> Schedule:
    """Run the queues.

    Args:
        engine: engine code of each event, in program order.
        busy_ns: time each holds its engine.
        latency_ns: result latency of each.
        waits: what each waits for; only earlier events.
        window: computing instructions, of all engines together, that may run ahead of the oldest
            unfinished one.
        dma_window: the same for transfers.
        semaphore_ns: hop between engines.
    """
    return Schedule(
        *_run(
            engine, busy_ns, latency_ns, waits.start, waits.before, waits.value,
            window, dma_window, semaphore_ns, int(Engine.DMA),
        )
    )  # fmt: skip


@compiled
def _run(engine, busy, latency, row_start, before, value, window, dma_window, hop, dma):
    count = len(engine)
    # followers, in compressed rows
    degree = np.zeros(count + 1, dtype=np.int64)
    for k in range(len(before)):
        degree[before[k] + 1] += 1
    out_start = np.cumsum(degree)
    fill = out_start[:-1].copy()
    out = np.empty(len(before), dtype=np.int64)
    out_value = np.empty(len(before), dtype=np.bool_)
    missing = np.empty(count, dtype=np.int64)
    for i in range(count):
        missing[i] = row_start[i + 1] - row_start[i] + 1  # one for the window
        for k in range(row_start[i], row_start[i + 1]):
            at = fill[before[k]]
            out[at] = i
            out_value[at] = value[k]
            fill[before[k]] += 1
    # Two windows: over the computing instructions of all engines, and over transfers.
    members = np.empty(count, dtype=np.int64)
    bounds = np.zeros(3, dtype=np.int64)
    for group in range(2):
        at = bounds[group]
        for i in range(count):
            if (engine[i] == dma) == (group == 1):
                members[at] = i
                at += 1
        bounds[group + 1] = at
    widths = (window, dma_window)
    opened = bounds[:2].copy()
    oldest = bounds[:2].copy()
    finished_by = np.zeros(2)
    queues = 6
    free = np.zeros(queues, dtype=np.float64)
    last = np.full(queues, -1, dtype=np.int64)
    future = [[(0.0, np.int64(-1))] for _ in range(queues)]
    now = [[np.int64(-1)] for _ in range(queues)]
    for q in range(queues):
        future[q].pop()
        now[q].pop()
    started = np.zeros(count, dtype=np.bool_)
    start = np.zeros(count)
    end = np.zeros(count)
    cause = np.full(count, -1, dtype=np.int64)
    wait = np.zeros(count, dtype=np.int64)
    data_ready = np.zeros(count)
    space_ready = np.zeros(count)
    order_ready = np.zeros(count)
    data_cause = np.full(count, -1, dtype=np.int64)
    space_cause = np.full(count, -1, dtype=np.int64)
    order_cause = np.full(count, -1, dtype=np.int64)
    slowest = np.full(2, -1, dtype=np.int64)
    for group in range(2):
        while opened[group] < min(bounds[group + 1], bounds[group] + widths[group]):
            i = members[opened[group]]
            opened[group] += 1
            missing[i] -= 1
            if missing[i] == 0:
                heapq.heappush(future[engine[i]], (0.0, i))
    for _ in range(count):
        best = -1
        best_time = np.inf
        for q in range(queues):
            while len(future[q]) and future[q][0][0] <= free[q]:
                heapq.heappush(now[q], heapq.heappop(future[q])[1])
            if len(now[q]):
                when = free[q]
            elif len(future[q]):
                when = future[q][0][0]
            else:
                continue
            if when < best_time:
                best, best_time = q, when
        q = best
        i = heapq.heappop(now[q]) if len(now[q]) else heapq.heappop(future[q])[1]
        finish = best_time + busy[i]
        start[i], end[i] = best_time, finish
        ready = max(data_ready[i], space_ready[i])
        if max(free[q], order_ready[i]) > ready:
            if free[q] >= order_ready[i] and last[q] >= 0:
                cause[i], wait[i] = last[q], 1
            else:
                cause[i], wait[i] = order_cause[i], 1
        elif data_cause[i] >= 0 and data_ready[i] >= space_ready[i]:
            cause[i], wait[i] = data_cause[i], 2
        elif space_cause[i] >= 0:
            cause[i], wait[i] = space_cause[i], 3
        elif last[q] >= 0:
            cause[i], wait[i] = last[q], 1
        free[q], last[q] = finish, i
        started[i] = True
        group = 1 if q == dma else 0
        while oldest[group] < opened[group] and started[members[oldest[group]]]:
            done = members[oldest[group]]
            if end[done] >= finished_by[group]:
                finished_by[group], slowest[group] = end[done], done
            oldest[group] += 1
            if opened[group] < bounds[group + 1]:
                j = members[opened[group]]
                opened[group] += 1
                order_ready[j], order_cause[j] = finished_by[group], slowest[group]
                missing[j] -= 1
                if missing[j] == 0:
                    ready = max(order_ready[j], max(data_ready[j], space_ready[j]))
                    heapq.heappush(future[engine[j]], (ready, j))
        for k in range(out_start[i], out_start[i + 1]):
            j = out[k]
            other = engine[j]
            # A DMA has read its source only when it has completed.
            done_at = finish + (latency[i] if out_value[k] or q == dma else 0.0)
            if other != q:
                done_at += hop
            if out_value[k]:
                if done_at >= data_ready[j]:
                    data_ready[j], data_cause[j] = done_at, i
            elif done_at >= space_ready[j]:
                space_ready[j], space_cause[j] = done_at, i
            missing[j] -= 1
            if missing[j] == 0:
                ready = max(order_ready[j], max(data_ready[j], space_ready[j]))
                heapq.heappush(future[other], (ready, j))
    return start, end, cause, wait, data_ready, space_ready
