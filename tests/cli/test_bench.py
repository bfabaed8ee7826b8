"""`accelopt bench`: a suite's baselines as JSON, CSV and a table."""

from __future__ import annotations

import csv
import io
import math

import pytest
from rich.console import Console

from accelopt.cli import output
from accelopt.cli.bench import COLUMNS, geometric_mean
from accelopt.plugins import installed

TASKS = "silu@small,rope_single_freq_apply@small"


def test_the_json_contract(accelopt):
    result = accelopt("bench", "nkibench", "--only", TASKS, "--quick", "--json", "--workers", "2")
    assert result.code == 0
    data = result.data
    assert data.keys() == {"suite", "backend", "geomean_percent_of_peak", "tasks"}
    assert (data["suite"], data["backend"]) == ("nkibench", "sim-trn1")
    assert [t["task"] for t in data["tasks"]] == [f"nkibench/{name}" for name in TASKS.split(",")]
    for task in data["tasks"]:
        assert task.keys() == {
            "task", "status", "latency_us", "bound", "percent_of_peak", "seconds",
        }  # fmt: skip
        assert task["status"] == "ok"
        assert task["latency_us"] > 0
        assert task["bound"] in ("dma", "tensor", "vector", "scalar", "gpsimd", "latency")
        assert 0 < task["percent_of_peak"] < 100
        assert task["seconds"] > 0
    product = math.prod(t["percent_of_peak"] for t in data["tasks"])
    assert data["geomean_percent_of_peak"] == pytest.approx(math.sqrt(product))
    # One line per task as it is finished, on standard error.
    assert sum(": ok, " in line for line in result.err.splitlines()) == 2
    assert "2/2" in result.err


def test_csv(accelopt):
    result = accelopt("bench", "nkibench", "--only", "silu@small", "--quick", "--csv")
    assert result.code == 0
    (row,) = csv.DictReader(io.StringIO(result.out))
    assert tuple(row) == COLUMNS
    assert (row["task"], row["status"]) == ("nkibench/silu@small", "ok")
    assert float(row["latency_us"]) > 0


def test_the_table_is_for_people(accelopt):
    result = accelopt("bench", "nkibench", "--only", "silu@small", "--quick")
    assert result.code == 0
    assert "silu@small" in result.out
    assert "1 of 1 ok on sim-trn1" in result.out
    # In a pipe nothing is folded or cut off, however long the row.
    (row,) = [line for line in result.out.splitlines() if "silu@small" in line]
    assert any(bound in row for bound in ("vector", "dma", "latency"))
    assert row.rstrip().endswith(" s")


def test_a_narrow_terminal_loses_whole_columns_in_the_order_given(monkeypatch, capsys):
    wide, keep = "w" * 50, "k" * 30
    for width, shown in ((120, {wide, keep, "last"}), (60, {keep, "last"})):
        monkeypatch.setattr(
            output,
            "console",
            lambda width=width: Console(width=width, force_terminal=True, color_system=None),
        )
        output.print_table(["a", "b", "c"], [[keep, wide, "last"]], optional=["b", "c"])
        (row,) = [line for line in capsys.readouterr().out.splitlines() if keep in line]
        assert set(row.split()) == shown


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nothing",), "nkibench"),
        (("nkibench", "--only", "silu@small,nothing"), "nothing"),
        (("nkibench", "--only", "silu@small", "--backend", "nothing"), "backends"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(accelopt, arguments, named):
    result = accelopt("bench", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1
    assert named in result.err


def test_without_variants_only_the_tasks_of_the_paper_are_judged():
    from accelopt.cli.bench import suite_tasks

    plain = suite_tasks("nkibench", variants=False, only="")
    assert len(plain) == 14
    assert not any("@" in task.name for task in plain)
    every = suite_tasks("nkibench", variants=True, only="")
    assert len(every) == len(installed().suites["nkibench"]) > 14


def test_the_mean_is_of_the_kernels_that_are_right():
    rows = [
        {"status": "ok", "percent_of_peak": 10.0},
        {"status": "ok", "percent_of_peak": 40.0},
        {"status": "incorrect", "percent_of_peak": 1.0},
        {"status": "timeout", "percent_of_peak": None},
    ]
    assert geometric_mean(rows) == pytest.approx(20.0)
    assert geometric_mean(rows[2:]) is None
