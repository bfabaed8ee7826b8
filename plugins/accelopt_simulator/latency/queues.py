"""Event simulation of the engine queues.

Every engine is a server that starts the oldest ready event. The computing instructions of all
engines together may run ahead of the oldest unfinished one by a window only (the compiler's
scheduler reorders a little, not without bound), transfers by a window of their own. DMA is one
aggregated server of 16 engines. A dependent waits for the producer's busy time, its result latency,
and a semaphore hop when it runs on another engine.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.execution import Wait
from accelopt_simulator.latency.jit import compiled
from accelopt_simulator.latency.waits import Waits
from accelopt_simulator.trace.schema import Engine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUEUES, DMA = len(Engine), int(Engine.DMA)
ENGINE, DATA, SPACE = int(Wait.ENGINE), int(Wait.DATA), int(Wait.SPACE)


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
    ports: Ints,
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
        ports: shared memory ports that each holds meanwhile: 1 = PSUM, 2 = SBUF, 3 = both.
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
            engine, ports, busy_ns, latency_ns, waits.start, waits.before, waits.value,
            np.array([max(1, window), max(1, dma_window)]), semaphore_ns,
        )
    )  # fmt: skip


@compiled
def _followers(row_start: Ints, before: Ints, value: Bools) -> tuple[Ints, Ints, Bools]:
    """Who waits for each event, in compressed rows: offsets, events, whether for the value."""
    count = len(row_start) - 1
    start = np.zeros(count + 1, dtype=np.int64)
    for k in range(len(before)):
        start[before[k] + 1] += 1
    start = np.cumsum(start)
    fill = start[:-1].copy()
    events = np.empty(len(before), dtype=np.int64)
    values = np.empty(len(before), dtype=np.bool_)
    for i in range(count):
        for k in range(row_start[i], row_start[i + 1]):
            at = fill[before[k]]
            events[at], values[at] = i, value[k]
            fill[before[k]] += 1
    return start, events, values


@compiled
def _groups(engine: Ints) -> tuple[Ints, Ints]:
    """Computing events in order, then transfers in order; and where each part begins and ends."""
    members = np.empty(len(engine), dtype=np.int64)
    bounds = np.zeros(3, dtype=np.int64)
    at = 0
    for group in range(2):
        for i in range(len(engine)):
            if (engine[i] == DMA) == (group == 1):
                members[at] = i
                at += 1
        bounds[group + 1] = at
    return members, bounds


@compiled
def _run(
    engine: Ints, ports: Ints, busy: Floats, latency: Floats,
    row_start: Ints, before: Ints, value: Bools, widths: Ints, hop: float,
) -> tuple[Floats, Floats, Ints, Ints, Floats, Floats]:  # fmt: skip
    count = len(engine)
    out_start, out, out_value = _followers(row_start, before, value)
    missing = row_start[1:] - row_start[:-1] + 1  # one for the window
    members, bounds = _groups(engine)
    opened = bounds[:2].copy()
    oldest = bounds[:2].copy()
    finished_by = np.zeros(2)
    slowest = np.full(2, -1, dtype=np.int64)
    free = np.zeros(QUEUES, dtype=np.float64)
    port_free = np.zeros(2)
    port_user = np.full(2, -1, dtype=np.int64)
    port_event = np.full(2, -1, dtype=np.int64)
    last = np.full(QUEUES, -1, dtype=np.int64)
    # Typed by a first entry that is taken out again.
    future = [[(0.0, np.int64(-1))] for _ in range(QUEUES)]
    now = [[np.int64(-1)] for _ in range(QUEUES)]
    for q in range(QUEUES):
        future[q].pop()
        now[q].pop()
    started = np.zeros(count, dtype=np.bool_)
    start, end = np.zeros(count), np.zeros(count)
    cause = np.full(count, -1, dtype=np.int64)
    wait = np.zeros(count, dtype=np.int64)
    data_ready, space_ready, order_ready = np.zeros(count), np.zeros(count), np.zeros(count)
    data_cause = np.full(count, -1, dtype=np.int64)
    space_cause = np.full(count, -1, dtype=np.int64)
    order_cause = np.full(count, -1, dtype=np.int64)
    for group in range(2):
        while opened[group] < min(bounds[group + 1], bounds[group] + widths[group]):
            i = members[opened[group]]
            opened[group] += 1
            missing[i] -= 1
            if missing[i] == 0:
                heapq.heappush(future[engine[i]], (0.0, i))
    for _ in range(count):
        # The queue that can start something first; of what is ready by then, the oldest.
        q = -1
        begin = np.inf
        for other in range(QUEUES):
            while len(future[other]) and future[other][0][0] <= free[other]:
                heapq.heappush(now[other], heapq.heappop(future[other])[1])
            if len(now[other]):
                when, i = free[other], now[other][0]
            elif len(future[other]):
                when, i = future[other][0]
            else:
                continue
            for port in range(2):
                # An engine that used the port last goes on; another one waits until it is free.
                if ports[i] >> port & 1 and port_user[port] != other:
                    when = max(when, port_free[port])
            if when < begin:
                q, begin = other, when
        i = heapq.heappop(now[q]) if len(now[q]) else heapq.heappop(future[q])[1]
        finish = begin + busy[i]
        start[i], end[i] = begin, finish
        ready = max(data_ready[i], space_ready[i])
        if begin > max(ready, max(free[q], order_ready[i])):
            wait[i] = ENGINE
            held = ports[i] & 1 and port_free[0] == begin
            cause[i] = port_event[0] if held else port_event[1]
        elif max(free[q], order_ready[i]) > ready:
            wait[i] = ENGINE
            queue_held = free[q] >= order_ready[i] and last[q] >= 0
            cause[i] = last[q] if queue_held else order_cause[i]
        elif data_cause[i] >= 0 and data_ready[i] >= space_ready[i]:
            cause[i], wait[i] = data_cause[i], DATA
        elif space_cause[i] >= 0:
            cause[i], wait[i] = space_cause[i], SPACE
        elif last[q] >= 0:
            cause[i], wait[i] = last[q], ENGINE
        free[q], last[q] = finish, i
        for port in range(2):
            if ports[i] >> port & 1:
                port_free[port], port_user[port], port_event[port] = finish, q, i
        started[i] = True
        group = 1 if q == DMA else 0
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
            # A DMA has read its source only when it has completed.
            at = finish + (latency[i] if out_value[k] or q == DMA else 0.0)
            if engine[j] != q:
                at += hop
            if out_value[k]:
                if at >= data_ready[j]:
                    data_ready[j], data_cause[j] = at, i
            elif at >= space_ready[j]:
                space_ready[j], space_cause[j] = at, i
            missing[j] -= 1
            if missing[j] == 0:
                ready = max(order_ready[j], max(data_ready[j], space_ready[j]))
                heapq.heappush(future[engine[j]], (ready, j))
    return start, end, cause, wait, data_ready, space_ready
