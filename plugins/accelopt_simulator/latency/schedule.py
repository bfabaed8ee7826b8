"""Event simulation of the engine queues.

Every engine is a server that starts the lowest-numbered ready instruction within a window of its
queue (the compiler's scheduler reorders a little, not without bound); DMA is one aggregated server
of 16 engines. A dependent waits for the producer's busy time, its result latency, and a semaphore
hop when it runs on another engine.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.dependences import Dependences
from accelopt_simulator.trace.schema import Engine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WINDOW = 40
"""Instructions of one queue that may overtake its oldest one [fitted 36-80 in the feasibility
study]."""


@dataclass
class Schedule:
    """When everything ran, in nanoseconds.

    Attributes:
        start, end: busy interval of each instance.
        makespan: end of the last one, result latency included.
        cause: instance that each one waited for last, -1 when it waited for nothing.
    """

    start: Floats
    end: Floats
    makespan: float
    cause: Ints


class _Queue:
    """One engine's queue: its instances in program order, and which of them are ready."""

    def __init__(self, members: list[int]) -> None:
        self.members = members
        self.slot = {instance: i for i, instance in enumerate(members)}
        self.started = [False] * len(members)
        self.head = 0
        self.free = 0.0
        self.last = -1
        self.future: list[tuple[float, int]] = []
        self.now: list[int] = []
        self.parked: list[tuple[int, float]] = []

    def offer(self, instance: int, ready: float) -> None:
        """An instance has all it waits for, from time `ready` on."""
        slot = self.slot[instance]
        if slot < self.head + WINDOW:
            heapq.heappush(self.future, (ready, slot))
        else:
            heapq.heappush(self.parked, (slot, ready))

    def next_start(self) -> float | None:
        """When the next instance can start; None when there is none."""
        while self.future and self.future[0][0] <= self.free:
            heapq.heappush(self.now, heapq.heappop(self.future)[1])
        if self.now:
            return self.free
        return self.future[0][0] if self.future else None

    def take(self) -> int:
        """Start the instance that `next_start` spoke of; its slot's instance is returned."""
        slot = heapq.heappop(self.now) if self.now else heapq.heappop(self.future)[1]
        self.started[slot] = True
        while self.head < len(self.members) and self.started[self.head]:
            self.head += 1
        while self.parked and self.parked[0][0] < self.head + WINDOW:
            waiting, ready = heapq.heappop(self.parked)
            heapq.heappush(self.future, (ready, waiting))
        return self.members[slot]


def simulate(
    engine: Ints, busy_ns: Floats, latency_ns: Floats, deps: Dependences, timing: Timing
) -> Schedule:
    """Run the queues.

    Args:
        engine: engine code of each instance, in program order; -1 = free of cost (a repeated load).
        busy_ns: time each holds its engine.
        latency_ns: result latency of each.
        deps: what each waits for; only earlier instances.
        timing: constants.
    """
    count = len(engine)
    engines, busy, latency = engine.tolist(), busy_ns.tolist(), latency_ns.tolist()
    dep_start, before, needs = deps.start.tolist(), deps.before.tolist(), deps.data.tolist()
    followers: list[list[tuple[int, bool]]] = [[] for _ in range(count)]
    missing = [dep_start[i + 1] - dep_start[i] for i in range(count)]
    for instance in range(count):
        for k in range(dep_start[instance], dep_start[instance + 1]):
            followers[before[k]].append((instance, needs[k]))
    queues = {
        int(code): _Queue(np.flatnonzero(engine == code).tolist()) for code in np.unique(engine)
    }
    ready = [0.0] * count
    cause = [-1] * count
    start, end = [0.0] * count, [0.0] * count
    for instance in range(count):
        if missing[instance] == 0:
            queues[engines[instance]].offer(instance, 0.0)
    agenda: list[tuple[float, int]] = []
    for code, queue in queues.items():
        first = queue.next_start()
        if first is not None:
            heapq.heappush(agenda, (first, code))
    makespan = 0.0
    hop, dma = timing.semaphore_ns, int(Engine.DMA)
    while agenda:
        when, code = heapq.heappop(agenda)
        queue = queues[code]
        actual = queue.next_start()
        if actual is None:
            continue
        if actual > when:
            heapq.heappush(agenda, (actual, code))
            continue
        instance = queue.take()
        begin = max(actual, ready[instance])
        finish = begin + busy[instance]
        start[instance], end[instance] = begin, finish
        if queue.free >= ready[instance] and queue.last >= 0:
            cause[instance] = queue.last
        queue.free, queue.last = finish, instance
        makespan = max(makespan, finish + latency[instance])
        woken = {code}
        for follower, value in followers[instance]:
            other = engines[follower]
            # A DMA has read its source only when it has completed.
            wait = latency[instance] if value or code == dma else 0.0
            at = finish + wait + (hop if other != code else 0.0)
            if at >= ready[follower]:
                ready[follower], cause[follower] = at, instance
            missing[follower] -= 1
            if missing[follower] == 0:
                queues[other].offer(follower, ready[follower])
                woken.add(other)
        for other in woken:
            upcoming = queues[other].next_start()
            if upcoming is not None:
                heapq.heappush(agenda, (upcoming, other))
    return Schedule(np.array(start), np.array(end), makespan, np.array(cause, dtype=np.int64))
