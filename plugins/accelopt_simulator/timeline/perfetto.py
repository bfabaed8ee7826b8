"""A predicted execution in the Chrome trace event format, for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accelopt_simulator.latency.critical_path import WAIT_NAMES, critical_path
from accelopt_simulator.latency.execution import (
    Execution,
    Floats,
    Ints,
    MemoryUse,
    Transfer,
    Wait,
)
from accelopt_simulator.latency.explain import queue_gaps, wait_text
from accelopt_simulator.timeline.lanes import Lane, lanes, rows
from accelopt_simulator.timeline.sampling import Bools, Kept, keep_windows, step_maxima

Event = dict[str, Any]

PID = 1
PATH_TID = 1
LANE_TIDS = 100
"""Thread numbers per lane, for the rows of a lane whose instances overlap."""
MIN_EVENTS = 1000
"""Below this, metadata and counters would leave no room for instances."""
MAX_SOURCE = 120
"""Characters of a source line that are shown."""
TRANSFERS = {
    Transfer.LOAD: "load",
    Transfer.STORE: "store",
    Transfer.SPILL_SAVE: "spill save",
    Transfer.SPILL_RELOAD: "spill reload",
}


def to_trace_events(
    execution: Execution,
    *,
    source_lines: Sequence[str],
    title: str,
    max_events: int = 200_000,
) -> dict[str, Any]:
    """The run as one JSON object; times in microseconds.

    A thread per engine and per DMA queue, one for the critical path, arrows from what was waited
    for as data, and counters of the on-chip memories. Of a run with more events, the beginning, the
    middle and the end are kept as whole stretches of time; `otherData` and an instant event say
    what is missing. Memory counters then show the maximum of each of many short bins.

    Args:
        execution: the run.
        source_lines: the kernel's text by line.
        title: name of the process, such as `silu on trn1`.
        max_events: most events of the result, at least `MIN_EVENTS`.

    Raises:
        ValueError: `max_events` is below `MIN_EVENTS`.
    """
    if max_events < MIN_EVENTS:
        raise ValueError(f"max_events is {max_events}, at least {MIN_EVENTS} are needed")
    # Whole nanoseconds, rounded the same way everywhere, so that neighbours never overlap.
    start = np.rint(execution.start_ns).astype(np.int64)
    end = np.maximum(start, np.rint(execution.end_ns).astype(np.int64))
    path = critical_path(execution)
    tids, names = _threads(lanes(execution), start, end)
    metadata = _metadata(title, names)
    counters = [
        *_counter(execution.sbuf, "SBUF", execution.makespan_ns, max_events // 20),
        *_counter(execution.psum, "PSUM", execution.makespan_ns, max_events // 20),
    ]
    arrows = _arrows(execution, start, end, tids)
    cost = (tids > 0) + 2 * arrows.astype(np.int64)
    cost[path.instances] += 1
    # Three places are kept for the instant events.
    kept = keep_windows(execution, cost, max_events - len(metadata) - len(counters) - 3)
    shown = np.flatnonzero(kept.mask & (tids > 0))
    arrows &= kept.mask & kept.mask[np.maximum(execution.cause, 0)]
    events = [
        *_slices(execution, shown, start, end, tids, source_lines),
        *_path_slices(execution, path.instances, path.from_ns, path.to_ns, kept),
        *_flows(execution, np.flatnonzero(arrows), start, end, tids),
        *counters,
        *_instants(execution, kept),
    ]
    # Stable: at one time a slice stays before the arrow that binds to it.
    events.sort(key=lambda event: event["ts"])
    return {
        "traceEvents": metadata + events,
        "displayTimeUnit": "ns",
        "otherData": {
            "title": title,
            "makespan_us": _us(execution.makespan_ns),
            "repeats": execution.repeats,
            "instances": len(execution),
            "instances_shown": len(shown),
            "windows_us": [[_us(low), _us(high)] for low, high in kept.windows_ns],
            "left_out": _left_out(execution, kept),
        },
    }


def _threads(among: list[Lane], start: Ints, end: Ints) -> tuple[Ints, dict[int, str]]:
    """Thread of each instance (0 = none), and names by thread."""
    tids = np.zeros(len(start), dtype=np.int64)
    names = {PATH_TID: "critical path"}
    for position, lane in enumerate(among):
        base = (position + 1) * LANE_TIDS
        row = rows(start[lane.members], end[lane.members])
        tids[lane.members] = base + row
        for used in range(int(row.max(initial=0)) + 1):
            names[base + used] = lane.name if not used else f"{lane.name} {used + 1}"
    return tids, names


def _metadata(title: str, names: dict[int, str]) -> list[Event]:
    events: list[Event] = [_meta(0, "process_name", name=title)]
    for tid, name in names.items():
        events.append(_meta(tid, "thread_name", name=name))
        events.append(_meta(tid, "thread_sort_index", sort_index=tid))
    return events


def _meta(tid: int, kind: str, **args: Any) -> Event:
    return {"ph": "M", "pid": PID, "tid": tid, "ts": 0, "name": kind, "args": args}


def _slices(
    execution: Execution, shown: Ints, start: Ints, end: Ints, tids: Ints, source: Sequence[str]
) -> list[Event]:
    columns = zip(
        shown.tolist(),
        tids[shown].tolist(),
        start[shown].tolist(),
        end[shown].tolist(),
        execution.op[shown].tolist(),
        execution.line[shown].tolist(),
        execution.transfer[shown].tolist(),
        execution.bytes[shown].tolist(),
        execution.tensor[shown].tolist(),
        execution.cause[shown].tolist(),
        execution.wait[shown].tolist(),
        _waited_ns(execution)[shown].tolist(),
        np.nan_to_num(execution.done_ns - execution.end_ns)[shown].tolist(),
        strict=True,
    )
    lines, ops = execution.line.tolist(), execution.op.tolist()
    engines = execution.engine.tolist()
    events = []
    for row in columns:
        index, tid, begin, finish, op, line, transfer, size, tensor = row[:9]
        cause, wait, waited, result = row[9:]
        args: dict[str, Any] = {"instance": index, "line": line}
        if 0 < line <= len(source):
            args["source"] = source[line - 1].strip()[:MAX_SOURCE]
        if 0 <= tensor < len(execution.tensor_names):
            args["tensor"] = execution.tensor_names[tensor]
        if transfer:
            args["moves"] = TRANSFERS[Transfer(transfer)]
            args["bytes"] = round(size)
        if cause >= 0:
            args["waited for"] = wait_text(
                WAIT_NAMES[Wait(wait)],
                lines[cause],
                execution.op_names[ops[cause]],
                elsewhere=engines[cause] != engines[index],
            )
            args["waited us"] = _us(waited)
        args["result after us"] = _us(result)
        events.append(_slice(tid, execution.op_names[op], begin, finish, args))
    return events


def _slice(tid: int, name: str, begin_ns: int, end_ns: int, args: dict[str, Any]) -> Event:
    return {
        "ph": "X",
        "pid": PID,
        "tid": tid,
        "ts": begin_ns / 1e3,
        "dur": (end_ns - begin_ns) / 1e3,
        "name": name,
        "cat": "path" if tid == PATH_TID else "instance",
        "args": args,
    }


def _waited_ns(execution: Execution) -> Floats:
    """How long each instance waited: its queue stood still, or it was ready and had no turn."""
    _, gap = queue_gaps(execution)
    ready = np.maximum(execution.data_ready_ns, execution.space_ready_ns)
    in_line = np.maximum(0.0, execution.start_ns - np.maximum(0.0, ready))
    waited = np.where(execution.wait == int(Wait.ENGINE), in_line, gap)
    return np.nan_to_num(waited, posinf=0.0)


def _path_slices(
    execution: Execution, path: Ints, from_ns: Floats, to_ns: Floats, kept: Kept
) -> list[Event]:
    begin, finish = np.rint(from_ns).astype(np.int64), np.rint(to_ns).astype(np.int64)
    events = []
    for step in np.flatnonzero(kept.mask[path]).tolist():
        index = int(path[step])
        args = {"instance": index, "line": int(execution.line[index])}
        name = execution.op_names[execution.op[index]]
        events.append(_slice(PATH_TID, name, int(begin[step]), int(finish[step]), args))
    return events


def _arrows(execution: Execution, start: Ints, end: Ints, tids: Ints) -> Bools:
    """Instances that an arrow from their cause can be drawn to: both need some length to bind."""
    cause = np.maximum(execution.cause, 0)
    drawable = (end > start) & (tids > 0)
    waits: Bools = (execution.cause >= 0) & (execution.wait == int(Wait.DATA))
    return waits & drawable & drawable[cause] & (end[cause] <= start)


def _flows(
    execution: Execution, consumers: Ints, start: Ints, end: Ints, tids: Ints
) -> list[Event]:
    events: list[Event] = []
    for index, cause in zip(consumers.tolist(), execution.cause[consumers].tolist(), strict=True):
        common = {"pid": PID, "name": "data", "cat": "data", "id": index}
        # Its last nanosecond: at the end itself the next slice of the thread may begin.
        leaves = (int(end[cause]) - 1) / 1e3
        events.append({"ph": "s", "tid": int(tids[cause]), "ts": leaves, **common})
        arrives = int(start[index]) / 1e3
        events.append({"ph": "f", "bp": "e", "tid": int(tids[index]), "ts": arrives, **common})
    return events


def _counter(use: MemoryUse, name: str, makespan_ns: float, most: int) -> list[Event]:
    times, values = use.times_ns, use.bytes_per_partition
    if len(times) > most and makespan_ns > 0:
        edges = np.linspace(0.0, makespan_ns, most + 1)
        times, values = edges[:-1], step_maxima(use, edges)
    return [
        {
            "ph": "C",
            "pid": PID,
            "tid": 0,
            "ts": _us(at),
            "name": f"{name} (KiB per partition, of {use.capacity_bytes / 1024:.4g})",
            "args": {"KiB": round(value / 1024, 3)},
        }
        for at, value in zip(times.tolist(), np.nan_to_num(values).tolist(), strict=True)
    ]


def _instants(execution: Execution, kept: Kept) -> list[Event]:
    events = []
    if not kept.everything:
        for (_, low), (high, _) in zip(kept.windows_ns, kept.windows_ns[1:], strict=False):
            events.append(_instant(low, f"left out: {_us(low)} to {_us(high)} us"))
    if execution.repeats > 1:
        events.append(_instant(0.0, f"this stretch stands for {execution.repeats:g} of its kind"))
    return events


def _instant(at_ns: float, name: str) -> Event:
    return {"ph": "i", "pid": PID, "tid": PATH_TID, "ts": _us(at_ns), "s": "g", "name": name}


def _left_out(execution: Execution, kept: Kept) -> str:
    if kept.everything:
        return ""
    missing = len(execution) - int(kept.mask.sum())
    return (
        f"{missing} of {len(execution)} instances; the beginning, the middle and the end of the "
        "run are complete"
    )


def _us(ns: float) -> float:
    return round(ns / 1e3, 3)
