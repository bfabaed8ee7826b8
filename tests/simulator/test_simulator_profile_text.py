"""The profile as data, for people and for a prompt, and the commands that show it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from execution_builder import pipeline
from hypothesis import given
from hypothesis import strategies as st

from accelopt.evaluation import Profile
from accelopt.kernel import Work
from accelopt_simulator.hardware import TRN1
from accelopt_simulator.kernel_profile import profile_of
from accelopt_simulator.latency.execution import Execution
from accelopt_simulator.latency.explain import EngineTime
from accelopt_simulator.profile_text import (
    BAR_MARKS,
    engine_bar,
    latency_range,
    prompt_text,
    show_profile,
    size,
)

SOURCE = "\n".join(f"tile_{n} = nl.multiply(a_{n}, b_{n})  # line {n}" for n in range(1, 21))
WORK = Work(hbm_bytes=1_000_000, matmul_flops=2_000_000_000)


@dataclass(frozen=True)
class FakePrediction:
    execution: Execution
    latency_us: float = 893.0
    low_us: float = 830.0
    high_us: float = 950.0
    notes: tuple[str, ...] = ("latency from a test",)

    @property
    def profile(self):
        return Profile(latency_us=self.latency_us, hbm_read_bytes=3e6, hbm_write_bytes=1e6)

    @property
    def spills(self):
        return {"small": (1024.0, 2048.0), "big": (3 * 2**20, 9 * 2**20)}

    def what_if(self):
        return [("DMA took no time", 714.4), ("vector twice as fast", 893.0)]


RUN = pipeline(40)


def profile(**changes):
    return profile_of(FakePrediction(RUN, **changes), WORK, TRN1, SOURCE)


def test_a_profile_holds_what_the_prediction_says():
    found = profile()
    assert found.bound == "vector"
    assert found.lines[0].line in (18, 11, 10)
    assert found.source(18) == "tile_18 = nl.multiply(a_18, b_18)  # line 18"
    assert found.source(0) == found.source(21) == ""
    assert found.roofline.flops == WORK.matmul_flops
    assert found.roofline.hbm_bytes == 4e6
    assert found.peak_latency_us == pytest.approx(2e9 / TRN1.fp32_matmul_flops_per_s * 1e6)
    assert found.change_percent(714.4) == pytest.approx(-20)
    vector = profile_of(
        FakePrediction(RUN), Work(hbm_bytes=1, vector_flops=7), TRN1, SOURCE
    ).roofline
    assert (vector.flops, vector.peak_flops_per_s) == (7, TRN1.vector_flops_per_s)


def test_a_steady_state_scales_times_and_keeps_shares():
    once = profile()
    often = profile_of(FakePrediction(replace(RUN, repeats=5.0)), WORK, TRN1, SOURCE)
    for name, times in once.engine_times.items():
        assert often.engine_times[name].total_us == pytest.approx(5 * times.total_us)
    for short, long in zip(once.lines, often.lines, strict=True):
        assert long.path_us == pytest.approx(5 * short.path_us)
        assert long.path_busy_us == pytest.approx(5 * short.path_busy_us)
        assert long.share == short.share
    assert often.bound == once.bound


def test_json_is_complete_and_has_no_nan():
    data = json.loads(json.dumps(profile().to_json(), allow_nan=False))
    assert (data["latency_us"], data["low_us"], data["high_us"]) == (893, 830, 950)
    assert data["lines"][0]["source"].startswith("tile_")
    assert data["what_if"][0] == {
        "change": "DMA took no time", "latency_us": 714.4, "change_percent": pytest.approx(-20),
    }  # fmt: skip
    assert data["spills"]["big"] == {"saved_bytes": 3 * 2**20, "reloaded_bytes": 9 * 2**20}
    assert data["profile"]["hbm_read_bytes"] == 3e6
    assert set(data["engine_times"]) == {"tensor", "vector", "scalar", "gpsimd", "dma"}
    bare = replace(profile(), peak_latency_us=None, roofline=None, counters=None)
    assert bare.to_json()["percent_of_peak"] is bare.to_json()["roofline"] is None


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ((893.2, 830, 950), "893 us (830-950)"),
        ((12.345, 9.5, 14), "12.3 us (9.5-14)"),
        ((2205, 2051, 2337), "2.205 ms (2.051-2.337)"),
    ],
)
def test_a_latency_has_its_uncertainty(latencies, expected):
    assert latency_range(*latencies) == expected


def part(busy, data, space, idle):
    return EngineTime(
        busy_us=busy, waiting_for_data_us=data, waiting_for_space_us=space, idle_us=idle
    )


def test_a_bar_shows_its_parts_in_order():
    assert engine_bar(part(50, 25, 15, 10), 20, "#ds.") == "##########dddddsss.."
    assert engine_bar(part(0, 0, 0, 0), 4, "#ds.") == "...."


@given(st.tuples(*[st.floats(0, 1e6)] * 4), st.integers(1, 80))
def test_a_bar_is_always_full(parts, width):
    bar = engine_bar(part(*parts), width)
    assert len(bar) == width
    for mark, us in zip(BAR_MARKS, parts, strict=True):
        if sum(parts):
            assert abs(bar.count(mark) - width * us / sum(parts)) <= 1


def test_the_prompt_says_what_matters():
    lines = prompt_text(profile()).splitlines()
    peak = 100 * profile().peak_latency_us / 893
    assert (
        lines[0] == f"Latency 893 us (830-950), {peak:.1f} % of peak, bound by the vector engine."
    )
    assert [line.split()[0] for line in lines[2:7]] == [
        "tensor", "vector", "scalar", "gpsimd", "dma",
    ]  # fmt: skip
    first = profile().lines[0]
    assert lines[8].startswith(f"  line {first.line}: {100 * first.share:.0f} %, ")
    assert f"tile_{first.line} = " in lines[8]
    text = "\n".join(lines)
    assert "DMA took no time: -20 %" in text
    assert "big (3 MiB saved, 9 MiB reloaded); small (1 KiB saved" in text
    assert "Note: latency from a test" in text
    assert "bound by no single engine" in prompt_text(replace(profile(), bound="latency"))


def test_the_prompt_is_short_whatever_the_profile_holds():
    base = profile()
    share = base.lines[0]
    full = replace(
        base,
        lines=tuple(replace(share, line=n) for n in range(1, 41)),
        what_if=tuple((f"change\n{n}", 800.0) for n in range(30)),
        spills={f"tensor\n{n}": (1e6, 1e6) for n in range(30)},
        notes=tuple(f"a note\nof lines {n}" for n in range(30)),
        source_lines=tuple("x = " + "y + " * 200 for _ in range(40)),
    )
    lines = prompt_text(full).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) < 300
    assert "and 25 more" in "\n".join(lines)


def test_people_see_bars_lines_and_what_ifs(capsys):
    show_profile(profile(), {"task": "t", "backend": "sim-trn1"})
    out = capsys.readouterr().out
    assert "latency   893 us (830-950)" in out
    assert "bound by  vector" in out
    bar = next(line for line in out.splitlines() if line.startswith("vector "))
    times = profile().engine_times["vector"]
    assert bar.count("█") == round(40 * times.busy_us / times.total_us)
    assert f"{100 * times.busy_us / times.total_us:3.0f} % busy" in bar
    assert "DMA took no time" in out
    assert "-20.0 %" in out
    assert "8.72 KiB" not in out
    assert "data of" in out
    assert out.rstrip().endswith("note: latency from a test")


def test_markup_in_a_kernel_is_shown_as_it_is(capsys):
    odd = replace(profile(), source_lines=tuple(["a[b] = [red]x[/red]"] * 20), notes=("[bold]",))
    show_profile(odd, {"task": "t"})
    out = capsys.readouterr().out
    assert "a[b] = [red]x[/red]" in out
    assert "note: [bold]" in out


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**31, "2 GiB")]
)
def test_bytes_for_people(count, expected):
    assert size(count) == expected
