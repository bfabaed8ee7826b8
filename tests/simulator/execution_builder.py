"""Small executions by hand, and large ones by queue rules, for tests of what reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from accelopt_simulator.latency.execution import Execution, MemoryUse, Transfer, Wait
from accelopt_simulator.trace.schema import Engine

OPS = {
    Engine.TENSOR: "nc_matmul",
    Engine.VECTOR: "tensor_tensor",
    Engine.SCALAR: "activation",
    Engine.GPSIMD: "iota",
    Engine.DMA: "dma_copy",
}


BUFFERS = 4


@dataclass(frozen=True, kw_only=True)
class Step:
    """One instance: times in nanoseconds; ready times default to its start when it waited so."""

    engine: Engine
    start: float
    dur: float
    cause: int = -1
    wait: Wait = Wait.NOTHING
    line: int = 1
    latency: float = 0.0
    op: str = ""
    transfer: Transfer | None = None
    bytes: float = 0.0
    data_ready: float | None = None
    space_ready: float | None = None


def execution_of(steps: list[Step], *, makespan: float | None = None, repeats: float = 1.0):
    """An `Execution` of the given instances."""
    names = [s.op or OPS[s.engine] for s in steps]
    ops = tuple(dict.fromkeys(names)) or ("nc_matmul",)
    start = np.array([s.start for s in steps], dtype=float)
    end = start + np.array([s.dur for s in steps], dtype=float)
    done = end + np.array([s.latency for s in steps], dtype=float)
    last = float(done.max(initial=0.0)) if makespan is None else makespan

    def ready(given, step, wait):
        if given is not None:
            return given
        return step.start if step.wait == wait else 0.0

    def transfer(step):
        if step.transfer is not None:
            return step.transfer
        return Transfer.LOAD if step.engine == Engine.DMA else Transfer.NONE

    def ints(values):
        return np.array(list(values), dtype=np.int64)

    return Execution(
        op_names=ops,
        op=ints(ops.index(n) for n in names),
        line=ints(s.line for s in steps),
        engine=ints(s.engine for s in steps),
        start_ns=start,
        end_ns=end,
        done_ns=done,
        data_ready_ns=np.array([ready(s.data_ready, s, Wait.DATA) for s in steps], dtype=float),
        space_ready_ns=np.array([ready(s.space_ready, s, Wait.SPACE) for s in steps], dtype=float),
        cause=ints(s.cause for s in steps),
        wait=ints(s.wait for s in steps),
        transfer=ints(transfer(s) for s in steps),
        bytes=np.array([s.bytes for s in steps], dtype=float),
        tensor=ints(0 for _ in steps),
        tensor_names=("tile",),
        makespan_ns=last,
        repeats=repeats,
        sbuf=memory(last, 176 * 1024),
        psum=memory(last, 16 * 1024),
    )


def memory(makespan: float, capacity: int, changes: int = 8) -> MemoryUse:
    """Memory that fills and empties."""
    times = np.linspace(0.0, makespan, changes, endpoint=False)
    share = 0.5 + 0.4 * np.sin(np.arange(changes))
    return MemoryUse(
        times_ns=times, bytes_per_partition=np.round(share * capacity), capacity_bytes=capacity
    )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One instance that `scheduled` is to find a time for."""

    engine: Engine
    dur: float
    latency: float = 0.0
    line: int = 1
    op: str = ""
    transfer: Transfer | None = None
    data: tuple[int, ...] = ()
    """Instances whose result it needs."""
    space: tuple[int, ...] = ()
    """Instances that must have ended before it overwrites their buffer."""


HOP = 30.0


def scheduled(plan: list[Planned]) -> list[Step]:
    """Times by queue rules: in order on each queue; loads run ahead of stores."""
    steps: list[Step] = []
    queues: dict[tuple[Engine, bool], tuple[float, int]] = {}
    for index, item in enumerate(plan):
        queue = item.engine, item.transfer in (Transfer.STORE, Transfer.SPILL_SAVE)
        waits = [(*queues.get(queue, (0.0, -1)), Wait.ENGINE)]
        for wait, causes in ((Wait.DATA, item.data), (Wait.SPACE, item.space)):
            best = (0.0, -1, wait)
            for cause in causes:
                at = steps[cause]
                latency = at.latency if wait == Wait.DATA else 0.0
                best = max(best, (at.start + at.dur + latency + HOP, cause, wait))
            waits.append(best)
        # The first of equals: the engine itself, then data.
        start, cause, wait = max(waits, key=lambda entry: entry[0])
        steps.append(
            Step(
                engine=item.engine, start=start, dur=item.dur, latency=item.latency,
                line=item.line, op=item.op, transfer=item.transfer, cause=cause,
                wait=wait if cause >= 0 else Wait.NOTHING,
                data_ready=waits[1][0], space_ready=waits[2][0],
                bytes=65536.0 if item.engine == Engine.DMA else 0.0,
            )
        )  # fmt: skip
        queues[queue] = (start + item.dur, index)
    return steps


VECTOR_NS = 900.0


def pipeline(
    iterations: int, *, seed: int = 0, memory_changes: int = 64, vector_ns: float = VECTOR_NS
) -> Execution:
    """Tiles that are loaded, multiplied, activated, scaled and stored, `BUFFERS` buffers each.

    Every iteration is nine instances; every seventh also spills. Line 18 takes `vector_ns`.
    """
    generator = np.random.default_rng(seed)
    kinds = [
        (Engine.DMA, "dma_copy", 600.0, 1800.0, 10, Transfer.LOAD, []),
        (Engine.DMA, "dma_copy", 500.0, 1800.0, 11, Transfer.LOAD, []),
        (Engine.TENSOR, "nc_transpose", 120.0, 190.0, 13, None, [0]),
        (Engine.TENSOR, "nc_matmul", 420.0, 190.0, 14, None, [1, 2]),
        (Engine.TENSOR, "nc_matmul", 420.0, 190.0, 14, None, [1, 2]),
        (Engine.SCALAR, "activation", 700.0, 160.0, 16, None, [4]),
        (Engine.VECTOR, "tensor_reduce", 400.0, 160.0, 17, None, [5]),
        (Engine.VECTOR, "tensor_tensor", vector_ns, 160.0, 18, None, [5, 6]),
        (Engine.DMA, "dma_copy", 450.0, 1800.0, 20, Transfer.STORE, [7]),
        (Engine.DMA, "dma_copy", 300.0, 1800.0, 0, Transfer.SPILL_SAVE, [7]),
    ]
    plan: list[Planned] = []
    first: list[int] = []
    for i in range(iterations):
        first.append(len(plan))
        for engine, op, dur, latency, line, transfer, needs in kinds[: 10 if i % 7 == 3 else 9]:
            reused = transfer is Transfer.LOAD and i >= BUFFERS
            plan.append(
                Planned(
                    engine=engine, op=op, latency=latency, line=line, transfer=transfer,
                    dur=dur * float(generator.uniform(0.8, 1.2)),
                    data=tuple(first[i] + need for need in needs),
                    space=(first[i - BUFFERS] + 7,) if reused else (),
                )
            )  # fmt: skip
    result = execution_of(scheduled(plan))
    return replace(
        result,
        sbuf=memory(result.makespan_ns, 176 * 1024, memory_changes),
        psum=memory(result.makespan_ns, 16 * 1024, memory_changes),
    )


@st.composite
def executions(draw, most: int = 40) -> Execution:
    """Any run of a few queues."""
    plan: list[Planned] = []
    for index in range(draw(st.integers(0, most))):
        earlier = st.lists(st.integers(0, index - 1), max_size=2) if index else st.just([])
        engine = draw(st.sampled_from(sorted(OPS)))
        moves = draw(st.sampled_from([Transfer.LOAD, Transfer.STORE, Transfer.SPILL_RELOAD]))
        plan.append(
            Planned(
                engine=engine,
                dur=draw(st.integers(0, 60)) + draw(st.sampled_from([0.0, 0.3, 0.71])),
                latency=float(draw(st.integers(0, 80))),
                line=draw(st.integers(0, 5)),
                transfer=moves if engine == Engine.DMA else None,
                data=tuple(draw(earlier)),
                space=tuple(draw(earlier)),
            )
        )
    return execution_of(scheduled(plan))
