"""Hostile traces, mutated from valid ones: refused or judged, never a surprise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))

from decoder_fuzz import BATCH, cases, fuzz
from trace_seeds import seeds


@pytest.fixture(scope="module")
def corpus():
    return seeds(tasks=False)


def test_a_few_hundred_hostile_traces_find_nothing(corpus):
    report = fuzz(seed=1, cpu_s=60, batches=2, corpus=corpus)
    assert report.findings == {}
    assert report.cases == 2 * BATCH
    # Most are refused, but enough get through to the judge.
    assert report.cases - report.statuses["refused"] > BATCH // 5


def test_cases_are_the_same_for_the_same_seed(corpus):
    first, second = cases("a", corpus), cases("a", corpus)
    assert [next(first)[1] for _ in range(50)] == [next(second)[1] for _ in range(50)]


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_ten_minutes_of_hostile_traces_find_nothing():
    report = fuzz(seed=20_000, cpu_s=600, corpus=seeds())
    assert {k: v["traceback"] for k, v in report.findings.items()} == {}
