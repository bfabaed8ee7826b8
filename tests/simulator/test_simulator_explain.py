"""Where the predicted time goes: engine times, critical path, line table, roofline."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace

import numpy as np
import pytest
from execution_builder import Step, execution_of, executions, memory, pipeline
from hypothesis import given, settings

from accelopt_simulator.hardware import TRN1
from accelopt_simulator.latency.execution import Execution, Wait
from accelopt_simulator.latency.explain import (
    EngineTime,
    bound,
    critical_path,
    engine_times,
    line_table,
    roofline_position,
    wait_text,
)
from accelopt_simulator.trace.schema import Engine

LOAD = Step(engine=Engine.DMA, start=0, dur=100, latency=50, line=3)
MATMUL = Step(
    engine=Engine.TENSOR, start=180, dur=200, cause=0, wait=Wait.DATA, line=5, latency=20,
    data_ready=180, space_ready=40,
)  # fmt: skip
SECOND = Step(engine=Engine.TENSOR, start=380, dur=100, cause=1, wait=Wait.ENGINE, line=5)
SCALE = Step(engine=Engine.VECTOR, start=500, dur=400, cause=2, wait=Wait.DATA, line=7, latency=100)
STEPS = [LOAD, MATMUL, SECOND, SCALE]


def test_engine_times_of_a_run_by_hand():
    times = engine_times(execution_of(STEPS))
    assert list(times) == ["tensor", "vector", "scalar", "gpsimd", "dma"]
    us = {name: [round(1e3 * v) for v in asdict(t).values()] for name, t in times.items()}
    # busy, waiting for data, waiting for space, idle
    assert us["tensor"] == [300, 180, 0, 520]
    assert us["vector"] == [400, 500, 0, 100]
    assert us["dma"] == [100, 0, 0, 900]
    assert us["scalar"] == us["gpsimd"] == [0, 0, 0, 1000]


@pytest.mark.parametrize(
    ("data_ready", "space_ready", "expected"),
    [
        (180, 40, [180, 0, 0]),
        (40, 180, [0, 180, 0]),
        # On a tie it is data; what was there before the gap explains nothing.
        (180, 180, [180, 0, 0]),
        (0, 0, [0, 0, 180]),
    ],
)
def test_a_gap_belongs_to_what_came_last(data_ready, space_ready, expected):
    step = replace(MATMUL, data_ready=data_ready, space_ready=space_ready)
    times = engine_times(execution_of([LOAD, step]))["tensor"]
    found = times.waiting_for_data_us, times.waiting_for_space_us, times.idle_us
    # Idle: the result latency after the end.
    assert [round(1e3 * v) for v in found] == [*expected[:2], expected[2] + 20]


def test_waiting_for_a_turn_is_idle():
    # Its data was there at 120; until 180 other instructions had to go first.
    turn = replace(MATMUL, wait=Wait.ENGINE, data_ready=120)
    times = engine_times(execution_of([LOAD, turn]))["tensor"]
    assert times.waiting_for_data_us == pytest.approx(0.12)
    assert times.idle_us == pytest.approx(0.06 + 0.02)
    table = {share.line: share for share in line_table(execution_of([LOAD, turn]))}
    assert table[5].wait_text == "its turn, after dma_copy (line 3)"
    after_own = line_table(execution_of(STEPS[:3]))
    assert {s.wait_text for s in after_own if s.line == 5} <= {
        "data of dma_copy (line 3)", "its engine, busy with nc_matmul (line 5)",
    }  # fmt: skip


def test_instances_that_overlap_on_an_engine_count_once():
    both = [replace(LOAD, latency=0), replace(LOAD, start=60, dur=100, latency=0)]
    assert engine_times(execution_of(both))["dma"].busy_us == pytest.approx(0.16)
    inside = [replace(LOAD, latency=0), replace(LOAD, start=20, dur=10, latency=0)]
    assert engine_times(execution_of(inside))["dma"].busy_us == pytest.approx(0.1)
    # Nothing stands still between the inner one's end and the third: the first still runs.
    third = replace(LOAD, start=50, dur=70, latency=0, wait=Wait.DATA, data_ready=50)
    times = engine_times(execution_of([*inside, third]))["dma"]
    assert times.busy_us == pytest.approx(0.12)
    assert times.waiting_for_data_us == 0


@settings(max_examples=25, deadline=None)
@given(executions())
def test_the_four_parts_are_the_makespan(execution):
    for times in engine_times(execution).values():
        assert times.total_us * 1e3 == pytest.approx(execution.makespan_ns)
        assert min(asdict(times).values()) >= 0


def test_the_critical_path_of_a_run_by_hand():
    path = critical_path(execution_of(STEPS))
    assert path.instances.tolist() == [0, 1, 2, 3]
    # Hand-overs: the load's result; the engine's end; the matmul's result (it has no latency).
    assert path.from_ns.tolist() == [0, 150, 380, 480]
    assert path.to_ns.tolist() == [150, 380, 480, 1000]
    assert path.busy_ns.tolist() == [100, 200, 100, 400]
    assert path.result_ns.tolist() == [50, 0, 0, 100]
    assert path.hand_over_ns.tolist() == [0, 30, 0, 20]
    assert path.line_us == {7: 0.52, 5: 0.33, 3: 0.15}
    assert list(path.line_us) == [7, 5, 3]
    assert path.engine_us == {"vector": 0.52, "tensor": 0.33, "dma": 0.15}
    assert path.wait_us == pytest.approx({"data": 0.75, "nothing": 0.15, "engine": 0.1})
    assert path.kind_us == pytest.approx({"busy": 0.8, "result latency": 0.15, "hand-over": 0.05})


def test_the_path_ends_with_the_result_that_comes_last():
    late = Step(engine=Engine.DMA, start=100, dur=50, latency=2000, line=11)
    path = critical_path(execution_of([*STEPS, late]))
    assert path.instances.tolist() == [4]
    assert path.kind_us == pytest.approx({"busy": 0.05, "result latency": 2.0, "hand-over": 0.1})


def test_the_path_leaves_out_what_nothing_waited_for():
    extra = Step(engine=Engine.SCALAR, start=0, dur=700, line=9)
    path = critical_path(execution_of([*STEPS, extra]))
    assert 9 not in path.line_us
    slow = critical_path(execution_of([*STEPS, replace(extra, dur=1001)]))
    assert slow.line_us == {9: pytest.approx(1.001)}


@settings(max_examples=25, deadline=None)
@given(executions())
def test_the_steps_of_the_path_are_contiguous_and_fill_the_makespan(execution):
    path = critical_path(execution)
    makespan_us = execution.makespan_ns / 1e3
    for totals in (path.line_us, path.engine_us, path.wait_us, path.kind_us):
        assert sum(totals.values()) == pytest.approx(makespan_us)
    assert (path.from_ns[1:] == path.to_ns[:-1]).all()
    for parts in (path.busy_ns, path.result_ns, path.hand_over_ns):
        assert (parts >= 0).all()
    assert np.allclose(path.busy_ns + path.result_ns + path.hand_over_ns, path.length_ns)
    # An instance is credited with no more work than it does.
    held = (execution.end_ns - execution.start_ns)[path.instances]
    assert (path.busy_ns <= held + 1e-9).all()
    if len(path):
        assert path.from_ns[0] == 0
        assert path.to_ns[-1] == execution.makespan_ns
        assert (execution.cause[path.instances[1:]] == path.instances[:-1]).all()


def test_causes_in_a_circle_are_an_error_not_a_hang():
    steps = [replace(LOAD, cause=1, wait=Wait.DATA), replace(MATMUL, cause=0)]
    with pytest.raises(ValueError, match="cycle"):
        critical_path(execution_of(steps))


def test_a_planted_bottleneck_is_found_and_not_without_it():
    planted, plain = (pipeline(60, vector_ns=ns) for ns in (4000.0, 300.0))
    top = line_table(planted)[0]
    assert (top.line, top.engines, top.ops) == (18, ("vector",), ("tensor_tensor",))
    assert top.share > 0.7
    assert top.busy_us["vector"] == pytest.approx(240, rel=0.05)
    assert bound(engine_times(planted)) == "vector"
    assert line_table(plain)[0].line != 18
    assert bound(engine_times(plain)) != "vector"


def test_lines_are_ranked_and_add_up():
    execution = pipeline(40)
    everything = line_table(execution, top=100)
    shares = [share.share for share in everything]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    assert line_table(execution, top=3) == everything[:3]
    assert all(share.path_busy_us <= share.path_us + 1e-9 for share in everything)


def test_a_line_tells_what_it_waited_for_most_often():
    chain = [LOAD]
    for i in range(5):
        # Two waits for line 5, three for line 6: on the scalar engine and the vector engine.
        engine, line = (Engine.SCALAR, 8) if i % 2 else (Engine.TENSOR, 5 if i < 3 else 6)
        chain.append(
            Step(
                engine=engine, start=200.0 * (i + 1), dur=150, cause=i, wait=Wait.DATA, line=line
            )
        )  # fmt: skip
    table = {share.line: share for share in line_table(execution_of(chain))}
    assert (table[8].wait, table[8].wait_line, table[8].wait_op) == ("data", 5, "nc_matmul")
    other = [*chain]
    other[2] = replace(other[2], wait=Wait.SPACE)
    other[4] = replace(other[4], wait=Wait.SPACE)
    table = {share.line: share for share in line_table(execution_of(other))}
    assert table[8].wait == "space"
    assert table[3].wait == "nothing"
    assert wait_text(table[3].wait, 0, "") == "nothing"


@pytest.mark.parametrize(("busy", "expected"), [(60.0, "dma"), (59.9, "latency")])
def test_an_engine_bounds_from_sixty_percent_on(busy, expected):
    def part(us):
        return EngineTime(
            busy_us=us, waiting_for_data_us=0, waiting_for_space_us=0, idle_us=100 - us
        )

    assert bound({"tensor": part(30.0), "dma": part(busy)}) == expected


def test_an_empty_run_has_no_path_and_no_bound():
    execution = execution_of([])
    times = engine_times(execution)
    assert all(t.total_us == 0 for t in times.values())
    assert bound(times) == "latency"
    assert line_table(execution) == []


def test_the_roofline_bends_at_the_balance_point():
    peak, bandwidth = TRN1.fp32_matmul_flops_per_s, TRN1.hbm_bandwidth_bytes_per_s
    memory_bound = roofline_position(1e9, 1e9, 5000, TRN1)
    assert memory_bound.attainable_flops_per_s == pytest.approx(bandwidth)
    assert memory_bound.achieved_flops_per_s == pytest.approx(1e9 / 5e-3)
    assert memory_bound.hbm_share == pytest.approx(1e9 / 5e-3 / bandwidth)
    compute_bound = roofline_position(1e12, 1e9, 1e5, TRN1)
    assert compute_bound.attainable_flops_per_s == peak
    at = memory_bound.balance_flops_per_byte
    assert roofline_position(at * 1e9, 1e9, 1, TRN1).attainable_flops_per_s == pytest.approx(peak)
    vector = roofline_position(1e12, 1e9, 1e5, TRN1, unit="vector")
    assert vector.attainable_flops_per_s == TRN1.vector_flops_per_s
    assert roofline_position(1e9, 0, 10, TRN1).intensity_flops_per_byte is None
    json.dumps(asdict(roofline_position(0, 0, 10, TRN1)), allow_nan=False)


def test_three_hundred_thousand_instances_are_quick():
    count = 300_000
    start = np.arange(count, dtype=np.float64) * 100
    zeros = np.zeros(count, dtype=np.int64)
    execution = Execution(
        op_names=("nc_matmul",), op=zeros, line=np.arange(count) % 40,
        engine=1 + np.arange(count) % 3, start_ns=start, end_ns=start + 90, done_ns=start + 95,
        data_ready_ns=start, space_ready_ns=np.zeros(count), cause=np.arange(count) - 1,
        wait=zeros + int(Wait.DATA), transfer=zeros, bytes=np.zeros(count), tensor=zeros,
        tensor_names=("t",), makespan_ns=float(start[-1] + 95), sbuf=memory(1.0, 1),
        psum=memory(1.0, 1),
    )  # fmt: skip
    began = time.perf_counter()
    engine_times(execution)
    path = critical_path(execution)
    line_table(execution, path=path)
    # Takes about 0.15 s; the machine may be busy with other things.
    assert time.perf_counter() - began < 2
    assert len(path) == count
