"""The chain of instances that the predicted latency consists of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelopt_simulator.latency.execution import Execution, Floats, Ints, Wait
from accelopt_simulator.trace.schema import Engine

ENGINE_NAMES = {
    Engine.TENSOR: "tensor",
    Engine.VECTOR: "vector",
    Engine.SCALAR: "scalar",
    Engine.GPSIMD: "gpsimd",
    Engine.DMA: "dma",
}
"""Names by engine code, in the order in which they are shown."""

WAIT_NAMES = {
    Wait.NOTHING: "nothing",
    Wait.ENGINE: "engine",
    Wait.DATA: "data",
    Wait.SPACE: "space",
}


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """Instances of which each waited for the one before, from time 0 to the makespan.

    Step i is the instance `instances[i]`; its segment begins where that of step i - 1 ends. All
    totals add up to the makespan of the recorded stretch; where `Execution.repeats` is above 1,
    shares stay valid and the caller scales the totals.

    Attributes:
        instances: indices into the execution, in order of time.
        from_ns, to_ns: the segments.
        busy_ns: part of a segment in which the instance holds its engine.
        result_ns: part after it, until its result can be used.
        hand_over_ns: part before it: semaphores, and gaps that no cause explains.
        line_us: total by kernel line (0 = no line).
        engine_us: total by engine name.
        wait_us: total of the segments by what their instance waited for last.
        kind_us: total by `busy`, `result latency` and `hand-over`.
    """

    instances: Ints
    from_ns: Floats
    to_ns: Floats
    busy_ns: Floats
    result_ns: Floats
    hand_over_ns: Floats
    line_us: dict[int, float]
    engine_us: dict[str, float]
    wait_us: dict[str, float]
    kind_us: dict[str, float]

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def length_ns(self) -> Floats:
        """Length of each step's segment."""
        return self.to_ns - self.from_ns


def critical_path(execution: Execution) -> CriticalPath:
    """Walk back from the instance whose result comes last.

    A step takes over from its cause at the end of the cause when it waited for the engine, else
    when the cause's result was there (never later than it started itself).

    Raises:
        ValueError: the causes form a cycle, so the execution is not one.
    """
    path = _chain(execution)
    start, end = execution.start_ns[path], execution.end_ns[path]
    borders = _borders(execution, path)
    left, right = borders[:-1], borders[1:]
    begin = np.clip(start, left, right)
    finish = np.clip(end, begin, right)
    length = right - left
    busy, result, hand_over = finish - begin, right - finish, begin - left
    return CriticalPath(
        instances=path,
        from_ns=left,
        to_ns=right,
        busy_ns=busy,
        result_ns=result,
        hand_over_ns=hand_over,
        line_us=_totals_us(execution.line[path], length),
        engine_us={
            ENGINE_NAMES.get(Engine(code), "unknown"): us
            for code, us in _totals_us(execution.engine[path], length).items()
        },
        wait_us={
            WAIT_NAMES[Wait(code)]: us
            for code, us in _totals_us(execution.wait[path], length).items()
        },
        kind_us={
            "busy": float(busy.sum()) / 1e3,
            "result latency": float(result.sum()) / 1e3,
            "hand-over": float(hand_over.sum()) / 1e3,
        },
    )


def _chain(execution: Execution) -> Ints:
    if not len(execution):
        return np.zeros(0, dtype=np.int64)
    cause = execution.cause.tolist()
    at = int(np.argmax(execution.done_ns))
    chain: list[int] = []
    while at >= 0:
        if len(chain) == len(cause):
            raise ValueError("the causes of an execution form a cycle")
        chain.append(at)
        at = cause[at]
    return np.array(chain[::-1], dtype=np.int64)


def _borders(execution: Execution, path: Ints) -> Floats:
    """Where segments meet: 0, the hand-overs, the makespan."""
    if not len(path):
        return np.zeros(1)
    before, after = path[:-1], path[1:]
    finished = np.where(
        execution.wait[after] == int(Wait.ENGINE),
        execution.end_ns[before],
        execution.done_ns[before],
    )
    inner = np.minimum(finished, execution.start_ns[after])
    inner = np.clip(np.maximum.accumulate(inner), 0.0, execution.makespan_ns)
    return np.concatenate(([0.0], inner, [execution.makespan_ns]))


def _totals_us(keys: Ints, lengths_ns: Floats) -> dict[int, float]:
    """Sum by key, largest first."""
    distinct, where = np.unique(keys, return_inverse=True)
    sums = np.bincount(where, weights=lengths_ns, minlength=len(distinct)) / 1e3
    order = np.argsort(-sums, kind="stable")
    return {int(distinct[i]): float(sums[i]) for i in order}
