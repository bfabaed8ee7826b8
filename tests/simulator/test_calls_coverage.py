"""Every name of the dialect's checklist resolves, and the coverage table says what is true."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "make_coverage.py"


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("make_coverage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_coverage_table_is_up_to_date(coverage):
    assert coverage.TABLE.read_text() == coverage.table()


def test_every_name_of_the_checklist_resolves(coverage):
    missing = [r["call"] for r in coverage.rows() if r["implemented"] != "yes"]
    assert missing == ["`nisa.builtin_custom_op`"]
    assert [name for _, name, resolves in coverage.values() if not resolves] == []


def test_every_call_that_computes_is_tested_for_numbers_and_has_a_cost(coverage):
    rows = [r for r in coverage.rows() if r["instructions"] != "-"]
    assert len(rows) > 100
    assert [r["call"] for r in rows if "-" in (r["numbers"], r["cost"])] == []


def test_every_instruction_of_the_table_is_in_the_corpus_or_in_a_call(coverage):
    from accelopt_simulator.isa import OPS

    listed = {op.split(" x ")[-1] for r in coverage.rows() for op in r["instructions"].split(", ")}
    assert set(OPS) - listed == set()
