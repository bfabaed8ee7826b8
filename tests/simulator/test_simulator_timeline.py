"""Timelines: the trace for Perfetto, the picture, and what long runs keep."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from execution_builder import Step, execution_of, executions, memory, pipeline
from hypothesis import given, settings
from hypothesis import strategies as st

from accelopt_simulator.latency.execution import Execution, MemoryUse, Transfer, Wait
from accelopt_simulator.timeline.drawing import clean, ticks
from accelopt_simulator.timeline.lanes import MAX_ROWS, lane_of, lanes, rows
from accelopt_simulator.timeline.perfetto import MIN_EVENTS, PATH_TID, to_trace_events
from accelopt_simulator.timeline.sampling import coverage, keep_windows, step_maxima, zoom_window
from accelopt_simulator.timeline.svg import COLUMNS, to_svg
from accelopt_simulator.trace.schema import Engine

SOURCE = [f"text of line {n}" for n in range(1, 30)]
LANES = ["tensor", "vector", "scalar", "gpsimd", "DMA loads", "DMA stores", "DMA spills"]
SVG = "{http://www.w3.org/2000/svg}"
RUN = pipeline(40)


def events_of(execution: Execution, **options):
    """The trace, after the checks that every trace must pass."""
    data = to_trace_events(execution, source_lines=SOURCE, title="k on trn1", **options)
    data = json.loads(json.dumps(data, allow_nan=False))
    events = data["traceEvents"]
    times = [e["ts"] for e in events]
    assert times == sorted(times)
    assert all(type(e["pid"]) is int and type(e["tid"]) is int for e in events)
    named = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert event["tid"] in named
            assert event["dur"] >= 0
            slices[event["tid"]].append((ns(event["ts"]), ns(event["ts"] + event["dur"])))
    for intervals in slices.values():
        assert all(b >= e for (_, e), (b, _) in pairwise(intervals))
    ends = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            assert event["ph"] not in ends[event["id"]]
            ends[event["id"]][event["ph"]] = event
    for pair in ends.values():
        assert set(pair) == {"s", "f"}
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        # Each end lies within a slice of its thread, so that a viewer can bind it.
        leaves, arrives = ns(pair["s"]["ts"]), ns(pair["f"]["ts"])
        assert any(b <= leaves < e for b, e in slices[pair["s"]["tid"]])
        assert any(b == arrives and e > b for b, e in slices[pair["f"]["tid"]])
    return data, events


def ns(us: float) -> int:
    return round(us * 1e3)


def of_kind(events, ph):
    return [e for e in events if e["ph"] == ph]


def instances(events):
    return [e for e in of_kind(events, "X") if e["tid"] != PATH_TID]


def test_every_instance_is_a_slice_on_the_thread_of_its_queue():
    data, events = events_of(RUN)
    names = {
        e["tid"]: e["args"]["name"] for e in of_kind(events, "M") if e["name"] == "thread_name"
    }
    assert list(names.values()) == ["critical path", *LANES]
    assert len(instances(events)) == len(RUN)
    for event in instances(events):
        i = event["args"]["instance"]
        assert event["name"] == RUN.op_names[RUN.op[i]]
        assert ns(event["ts"]) == round(RUN.start_ns[i])
        assert ns(event["ts"] + event["dur"]) == round(RUN.end_ns[i])
        if RUN.line[i]:
            assert event["args"]["source"] == f"text of line {RUN.line[i]}"
        expected = {Transfer.LOAD: "DMA loads", Transfer.STORE: "DMA stores"}.get(
            Transfer(int(RUN.transfer[i]))
        )
        if expected:
            assert names[event["tid"]] == expected
            assert event["args"]["bytes"] == 65536
    assert data["otherData"]["left_out"] == ""
    process = next(e for e in of_kind(events, "M") if e["name"] == "process_name")
    assert process["args"]["name"] == "k on trn1"


def test_arrows_are_the_data_waits_and_no_others():
    _, events = events_of(RUN)
    arrows = {e["id"] for e in of_kind(events, "s")}
    assert arrows == set(np.flatnonzero(RUN.wait == int(Wait.DATA)).tolist())
    # One fault apart: the same waits for space draw no arrow.
    space = replace(RUN, wait=np.where(RUN.wait == int(Wait.DATA), int(Wait.SPACE), RUN.wait))
    assert not of_kind(events_of(space)[1], "s")


def test_a_slice_tells_what_it_waited_for():
    load = Step(engine=Engine.DMA, start=0, dur=100, latency=50, line=3)
    matmul = Step(engine=Engine.TENSOR, start=180, dur=200, cause=0, wait=Wait.DATA, line=5)
    queued = Step(
        engine=Engine.TENSOR, start=380, dur=10, cause=1, wait=Wait.ENGINE, line=6, data_ready=300
    )
    _, events = events_of(execution_of([load, matmul, queued]))
    first, second, third = (e["args"] for e in instances(events))
    assert "waited for" not in first
    assert (second["waited for"], second["waited us"]) == ("data of dma_copy (line 3)", 0.18)
    assert third["waited for"] == "its engine, busy with nc_matmul (line 5)"
    assert third["waited us"] == 0.08


def test_the_critical_path_has_a_thread_without_gaps():
    _, events = events_of(RUN)
    path = [e for e in of_kind(events, "X") if e["tid"] == PATH_TID]
    assert ns(path[0]["ts"]) == 0
    assert ns(path[-1]["ts"] + path[-1]["dur"]) == round(RUN.makespan_ns)
    ends = [ns(e["ts"] + e["dur"]) for e in path]
    assert ends[:-1] == [ns(e["ts"]) for e in path[1:]]


def test_counters_show_memory_use():
    _, events = events_of(RUN)
    for name, use in (("SBUF", RUN.sbuf), ("PSUM", RUN.psum)):
        found = [e for e in of_kind(events, "C") if e["name"].startswith(name)]
        assert [e["args"]["KiB"] for e in found] == [
            round(v / 1024, 3) for v in use.bytes_per_partition
        ]
        assert f"of {use.capacity_bytes // 1024}" in found[0]["name"]


LONG = pipeline(600, memory_changes=4000)


@pytest.mark.parametrize("limit", [MIN_EVENTS, 2500, 9000])
def test_a_long_run_keeps_whole_windows_within_the_limit(limit):
    data, events = events_of(LONG, max_events=limit)
    assert 0.75 * limit < len(events) <= limit
    shown = {e["args"]["instance"] for e in instances(events)}
    windows = data["otherData"]["windows_us"]
    assert len(windows) == 3
    assert windows[0][0] == 0
    assert windows[2][1] == pytest.approx(LONG.makespan_ns / 1e3, abs=1e-3)
    assert windows[1][0] < LONG.makespan_ns / 2e3 < windows[1][1]
    for low, high in windows:
        inside = (LONG.start_ns > 1e3 * low + 1) & (LONG.start_ns < 1e3 * high - 1)
        assert set(np.flatnonzero(inside).tolist()) <= shown
    missing = len(LONG) - len(shown)
    assert data["otherData"]["left_out"].startswith(f"{missing} of {len(LONG)} instances")
    notes = [e["name"] for e in of_kind(events, "i")]
    assert len(notes) == 2
    assert all(note.startswith("left out: ") for note in notes)
    assert max(e["args"]["KiB"] for e in of_kind(events, "C")) == pytest.approx(
        LONG.sbuf.bytes_per_partition.max() / 1024, abs=1e-3
    )


def test_a_run_that_fits_is_whole_and_one_event_less_is_not():
    run = pipeline(60)
    few = memory(run.makespan_ns, 1024)
    run = replace(run, sbuf=few, psum=few)
    # Three places are kept for notes on what is left out.
    size = len(events_of(run)[1]) + 3
    assert events_of(run, max_events=size)[0]["otherData"]["left_out"] == ""
    assert events_of(run, max_events=size - 1)[0]["otherData"]["left_out"]
    with pytest.raises(ValueError, match="max_events"):
        to_trace_events(RUN, source_lines=[], title="", max_events=MIN_EVENTS - 1)


def test_a_steady_state_says_so():
    _, events = events_of(replace(RUN, repeats=12.5))
    assert [e["name"] for e in of_kind(events, "i")] == ["this stretch stands for 12.5 of its kind"]


@settings(max_examples=25, deadline=None)
@given(executions())
def test_any_run_is_a_valid_trace_and_a_valid_picture(execution):
    _, events = events_of(execution)
    assert len(instances(events)) == len(execution)
    picture(execution)


def test_instances_that_overlap_get_threads_of_their_own():
    steps = [Step(engine=Engine.DMA, start=10.0 * i, dur=35) for i in range(8)]
    _, events = events_of(execution_of(steps))
    names = [e["args"]["name"] for e in of_kind(events, "M") if e["name"] == "thread_name"]
    assert [n for n in names if n.startswith("DMA loads")] == [
        "DMA loads", "DMA loads 2", "DMA loads 3", "DMA loads 4",
    ]  # fmt: skip


def test_a_row_is_used_again_as_soon_as_it_is_free():
    assert rows(np.array([0, 0, 5, 8]), np.array([5, 9, 8, 9])).tolist() == [0, 1, 0, 0]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), max_size=40))
def test_rows_never_overlap(pairs):
    pairs.sort()
    start = np.array([p[0] for p in pairs], dtype=np.int64)
    end = start + np.array([p[1] for p in pairs], dtype=np.int64)
    row = rows(start, end)
    most = max((int(((start <= t) & (end > t)).sum()) for t in start), default=0)
    if most <= MAX_ROWS:
        for used in set(row.tolist()):
            mine = row == used
            assert (start[mine][1:] >= end[mine][:-1]).all()
        assert row.max(initial=0) < max(most, 1) + 1


@settings(max_examples=25, deadline=None)
@given(executions(), st.integers(0, 120))
def test_windows_never_cost_more_than_the_budget(execution, budget):
    cost = 1 + execution.line
    kept = keep_windows(execution, cost, budget)
    assert cost[kept.mask].sum() <= max(budget, 0)
    if cost.sum() <= budget:
        assert kept.everything
    lows = [low for low, _ in kept.windows_ns]
    assert lows == sorted(lows)


def test_bins_keep_the_peak_of_memory_use():
    use = MemoryUse(
        times_ns=np.array([0.0, 4, 5, 12]),
        bytes_per_partition=np.array([1.0, 9, 2, 5]),
        capacity_bytes=10,
    )
    # A bin without a change has what held before it.
    assert step_maxima(use, np.linspace(0, 20, 6)).tolist() == [1, 9, 2, 5, 5]


def test_coverage_counts_overlaps_once():
    start, end = np.array([0.0, 2, 3, 10]), np.array([4.0, 5, 4, 20])
    covered = coverage(start, end, np.array([0.0, 4, 8, 12, 16]))
    assert covered.tolist() == pytest.approx([1, 0.25, 0.5, 1])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, ["0", "1"]), (0, 0.5, ["0.00", "0.05"]), (1234, 1290, ["1240", "1250"])],
)
def test_ticks_are_round(low, high, expected):
    assert [label for _, label in ticks(low, high)][:2] == expected
    assert all(low <= value <= high for value, _ in ticks(low, high))


def picture(execution: Execution, **options) -> ElementTree.Element:
    """The picture, after the checks that every picture must pass."""
    drawn = to_svg(execution, title=options.pop("title", "k on trn1"), **options)
    numbers = re.sub(r">[^<]*<", "><", drawn)
    assert not re.search(r"\b(nan|inf)\b", numbers)
    root = ElementTree.fromstring(drawn)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "g", "rect", "path", "text", "line", "polyline", "title"}
    assert "href" not in drawn
    assert "url(" not in drawn
    return root


def words(root):
    return [element.text for element in root.iter(f"{SVG}text")]


def bars_of(root, lane):
    group = next(g for g in root.iter(f"{SVG}g") if g.get("id") == f"lane-{lane.replace(' ', '-')}")
    return sum(path.get("d").count("M") for path in group.iter(f"{SVG}path"))


def test_the_picture_has_all_lanes_and_the_facts():
    root = picture(RUN, latency_us=893.0, bound_by="vector", source_lines=SOURCE)
    shown = words(root)
    assert [w for w in shown if w in LANES][: len(LANES)] == LANES
    assert {"k on trn1", "SBUF", "PSUM", "matmul", "load", "spill"} <= set(shown)
    assert any("latency 893 us · bound by vector" in w for w in shown)
    assert bars_of(root, "vector") > 10
    assert bars_of(root, "gpsimd") == 0
    tips = [t.text for t in root.iter(f"{SVG}title")]
    assert any("text of line 14" in tip and "waited for data of" in tip for tip in tips)
    assert next(root.iter(f"{SVG}polyline")).get("id") == "critical-path"


def test_a_run_without_spills_has_no_lane_for_them():
    plain = replace(RUN, transfer=np.minimum(RUN.transfer, int(Transfer.STORE)))
    assert "DMA spills" not in words(picture(plain))


def test_a_lane_has_no_more_bars_than_pixels():
    root = picture(LONG)
    for lane in LANES:
        # The lane and the strip of the critical path below it.
        assert bars_of(root, lane) <= 2 * COLUMNS


def test_the_detail_panel_shows_a_few_dozen_instructions_of_the_middle():
    among = lanes(LONG)
    low, high = zoom_window(LONG, among)
    inside = (LONG.start_ns >= low) & (LONG.start_ns < high)
    assert 40 <= inside.sum() <= 80
    assert 0.2 < low / LONG.makespan_ns < 0.8
    # The spill lane rarely has work; the window is where it has.
    assert len(set(lane_of(LONG, among)[inside].tolist())) == len(among) - 1
    shown = words(picture(LONG))
    assert {"nc_matmul", "line 14", "line 18"} <= set(shown)


def test_memory_beyond_its_capacity_is_seen():
    use = memory(RUN.makespan_ns, 1000)
    over = replace(RUN, psum=replace(use, capacity_bytes=600))
    assert f"{100 * use.bytes_per_partition.max() / 600:.0f} %" in words(picture(over))


def test_a_steady_state_and_milliseconds_are_said():
    slow = replace(
        RUN, start_ns=RUN.start_ns * 1e3, end_ns=RUN.end_ns * 1e3, done_ns=RUN.done_ns * 1e3,
        makespan_ns=RUN.makespan_ns * 1e3, repeats=4.0,
    )  # fmt: skip
    shown = words(picture(slow))
    assert "ms" in shown
    assert any("stands for 4 of its kind" in w for w in shown)
    assert "ms" not in words(picture(RUN))


def test_hostile_names_stay_text():
    evil = '<script>&"\x00\ud800'
    named = replace(RUN, op_names=tuple(evil + name for name in RUN.op_names))
    root = picture(named, title=evil, source_lines=[evil] * 30)
    assert words(root)[0].startswith('<script>&"')
    assert clean("a\nb") == "a b"
