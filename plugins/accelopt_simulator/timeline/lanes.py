"""The lanes of a timeline: one per engine and per DMA queue, and what runs in them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.latency.critical_path import ENGINE_NAMES
from accelopt_simulator.latency.execution import Execution, Ints, Transfer
from accelopt_simulator.trace.schema import Engine

Numbers = NDArray[np.int64] | NDArray[np.float64]

DMA_LANES = {
    "DMA loads": (Transfer.LOAD, Transfer.NONE),
    "DMA stores": (Transfer.STORE,),
    "DMA spills": (Transfer.SPILL_SAVE, Transfer.SPILL_RELOAD),
}
OPTIONAL_LANES = frozenset({"DMA spills"})
"""Left out when nothing runs in them."""

MAX_ROWS = 16
"""Rows of a lane whose instances overlap: as many as a core has DMA engines."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A lane.

    Attributes:
        name: for people.
        members: indices into the execution, ascending by start.
    """

    name: str
    members: Ints


def lanes(execution: Execution) -> list[Lane]:
    """The lanes of a run, compute engines first."""
    result = []
    for code, name in ENGINE_NAMES.items():
        on_engine = execution.engine == int(code)
        if code is not Engine.DMA:
            result.append(_lane(execution, name, on_engine))
            continue
        for title, transfers in DMA_LANES.items():
            moved = on_engine & np.isin(execution.transfer, [int(t) for t in transfers])
            if moved.any() or title not in OPTIONAL_LANES:
                result.append(_lane(execution, title, moved))
    return result


def _lane(execution: Execution, name: str, mask: NDArray[np.bool_]) -> Lane:
    members = np.flatnonzero(mask)
    order = np.argsort(execution.start_ns[members], kind="stable")
    return Lane(name=name, members=members[order])


def lane_of(execution: Execution, among: list[Lane]) -> Ints:
    """Position in `among` of each instance's lane, -1 for an instance of no known engine."""
    result = np.full(len(execution), -1, dtype=np.int64)
    for position, lane in enumerate(among):
        result[lane.members] = position
    return result


def rows(start_ns: Numbers, end_ns: Numbers) -> Ints:
    """Row of each interval, so that no two of a row overlap; row 0 alone where none do.

    Beyond `MAX_ROWS` at a time, intervals share rows after all.

    Args:
        start_ns, end_ns: intervals, ascending by start.
    """
    result = np.zeros(len(start_ns), dtype=np.int64)
    latest = np.maximum.accumulate(end_ns)
    if len(start_ns) < 2 or bool((start_ns[1:] >= latest[:-1]).all()):
        return result
    busy: list[tuple[float, int]] = []
    vacant: list[int] = list(range(MAX_ROWS))
    for i, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while busy and (busy[0][0] <= start or not vacant):
            heapq.heappush(vacant, heapq.heappop(busy)[1])
        row = heapq.heappop(vacant)
        result[i] = row
        heapq.heappush(busy, (end, row))
    return result
