"""Iterations of an affine loop that meet in an element: found exactly, and only when certain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator_kernels import HEADER_LINES, findings, rules, traced

from accelopt_simulator.constraints import dependencies
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.hardware import TRN1

X = np.zeros((8, 128, 64), np.float32)
RACE = "err_unexpected_output_dependencies"

BODY = """
def kernel(x):
    out = nl.ndarray((8, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
    tile = nl.load(x[0])
    wide = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    wide[...] = 0.0
    twice = nl.ndarray((2, nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.sbuf)
    scratch = nl.ndarray((9, 128, 64), dtype=nl.float32, buffer=nl.private_hbm)
    nl.store(out[0], tile)
    STATEMENT
    return out
"""
LOOP = "for i in nl.affine_range(8):\n        "
FEW = "for i in nl.affine_range(4):\n        for j in nl.affine_range(2):\n            "
INNER = f"{LOOP}for j in nl.affine_range(2):\n            "


def text(statement):
    return BODY.replace("STATEMENT", statement)


PAIRS = [
    # An element read that another iteration writes.
    (
        f"{LOOP}wide[i_p, i_f + 64 * i] = nl.add(wide[i_p, i_f + 64 * i + 64], 1.0)",
        f"{LOOP}wide[i_p, i_f + 64 * i] = nl.add(wide[i_p, i_f + 64 * i + 512], 1.0)",
    ),
    # By a single column.
    (
        f"{LOOP}wide[i_p, i_f + 64 * i] = nl.copy(wide[i_p, i_f + 449 + 8 * i])",
        f"{LOOP}wide[i_p, i_f + 64 * i] = nl.copy(wide[i_p, i_f + 512 + 8 * i])",
    ),
    # A read of one place that some iteration writes.
    (
        f"{LOOP}wide[i_p, i_f + 64 * i] = nl.copy(wide[:, 511:512])",
        f"{LOOP}wide[i_p, i_f + 64 * i] = nl.copy(wide[:, 512:513])",
    ),
    # Strides: even columns are written, odd ones read.
    (
        f"{LOOP}wide[i_p, 2 * i_f + 128 * i] = nl.copy(wide[i_p, 2 * i_f + 128 * ((i + 1) % 8)])",
        f"{LOOP}wide[i_p, 2 * i_f + 128 * i] = "
        "nl.copy(wide[i_p, 2 * i_f + 128 * ((i + 1) % 8) + 1])",
    ),
    # Through HBM.
    (
        f"{LOOP}nl.store(scratch[i], nl.load(scratch[i + 1]))",
        f"{LOOP}nl.store(scratch[i], nl.load(x[i]))",
    ),
    # Rotating buffers: `i % 2` is no index of its own for every i, nor is `i // 2`.
    (
        f"{LOOP}twice[i % 2] = nl.load(x[i])\n        nl.store(out[i], twice[i % 2])",
        f"{LOOP}if i < 2:\n            twice[i % 2] = nl.load(x[i])",
    ),
    (
        f"{LOOP}nl.store(out[i // 2], tile)",
        "for i in nl.sequential_range(8):\n        nl.store(out[i // 2], tile)",
    ),
    # Inner loops: the index of the outer one is there, but the inner one covers its step.
    (
        f"{FEW}nl.store(out[i + j], tile)",
        f"{FEW}nl.store(out[2 * i + j], tile)",
    ),
    (
        f"{INNER}wide[i_p, i_f + 32 * j + 64 * i] = nl.copy(tile)",
        f"{INNER}wide[i_p, i_f + 64 * j + 128 * i] = nl.copy(tile)",
    ),
    # Two writes in one body, of different iterations.
    (
        f"{LOOP}nl.store(scratch[i], tile)\n        nl.store(scratch[i + 1], tile)",
        f"{LOOP}nl.store(scratch[i], tile)\n        nl.store(out[i], tile)",
    ),
    # A condition on the loop index leaves the iterations that do not meet.
    (
        f"{LOOP}if i < 5:\n            nl.store(scratch[i], nl.load(scratch[i + 4]))",
        f"{LOOP}if i < 4:\n            nl.store(scratch[i], nl.load(scratch[i + 4]))",
    ),
]


@pytest.mark.parametrize(("bad", "good"), PAIRS)
def test_iterations_that_meet_are_found_and_others_are_not(bad, good):
    assert set(rules(text(bad), X)) == {RACE}
    assert rules(text(good), X) == []


def test_a_race_names_the_line_the_loop_and_the_other_line():
    statement = f"{LOOP}nl.store(scratch[i], tile)\n        nl.exp(nl.load(scratch[i + 1]))"
    (finding,) = findings(text(statement), X)
    lines = text(statement).strip("\n").split("\n")
    at = {name: HEADER_LINES + 1 + n for n, line in enumerate(lines) for name in
          ("affine_range", "nl.store(scratch", "nl.load(scratch") if name in line}  # fmt: skip
    assert finding.line == at["nl.load(scratch"]
    assert f"loop in line {at['affine_range']}" in finding.message
    assert f"in line {at['nl.store(scratch']}" in finding.message
    assert "sequential_range" in finding.hint


@pytest.mark.parametrize(
    "statement",
    [
        f"{LOOP}tile += nl.load(x[i])",
        f"{LOOP}wide[...] = 0.0",
        # Run-time indices, masks and diagonals are not decided.
        f"{LOOP}nl.store(out[i, i_p, i_f], tile, mask=i_f < 3)",
        "for i in nl.affine_range(1):\n        nl.store(out[0], tile)",
        f"{LOOP}for j in nl.sequential_range(4):\n            "
        "twice_i = nl.load(x[i])\n            nl.store(out[i], twice_i)",
        "for i in nl.sequential_range(4):\n        for j in nl.affine_range(2):\n            "
        "nl.store(scratch[2 * i + j], nl.load(scratch[2 * i + j]))",
        # Triangular nests.
        "for i in nl.affine_range(3):\n        for j in nl.affine_range(i, 3):\n            "
        "wide[i_p, i_f + 64 * j + 192 * i] = nl.copy(tile)",
    ],
)
def test_what_is_no_race_passes(statement):
    assert rules(text(statement), X) == []


def test_a_triangular_nest_that_meets_is_found():
    statement = (
        "for i in nl.affine_range(3):\n        for j in nl.affine_range(i, 3):\n            "
        "wide[i_p, i_f + 64 * j] = nl.add(tile, 1.0)"
    )
    assert RACE in rules(text(statement), X)
    assert rules(text(statement.replace("64 * j", "64 * j + 64 * i")), X) == [RACE]
    assert rules(text(statement.replace("64 * j", "64 * j + 128 * i")), X) == []


def test_program_instances_are_iterations_too():
    kernel = """
    def kernel(x):
        out = nl.ndarray((8, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        k = nl.program_id(0)
        nl.store(out[INDEX], nl.load(x[k]))
        return out
    """
    assert rules(kernel.replace("INDEX", "k"), X, grid=(8,)) == []
    assert rules(kernel.replace("INDEX", "k // 2"), X, grid=(8,)) == [RACE]
    assert rules(kernel.replace("INDEX", "0"), X, grid=(8,)) == [RACE]


def test_unrolled_kernels_stay_cheap(monkeypatch):
    copies = "nl.store(scratch[i, i_p, i_f], nl.load(scratch[i, i_p, i_f]))"
    statement = f"{LOOP}for k in nl.static_range(80):\n            {copies}"
    found = traced(text(f"{statement}\n        nl.store(scratch[i // 2], tile)"), X)
    assert [finding.rule for finding in check_constraints(found, TRN1)] == [RACE]
    # Past the bound on comparisons, nothing is known and nothing is reported.
    monkeypatch.setattr(dependencies, "MAX_COMPARISONS", 3)
    assert check_constraints(found, TRN1) == []


affine = st.tuples(
    st.integers(0, 6), st.sampled_from([0, 1, 2, 3, 8]), st.integers(0, 4), st.integers(1, 3),
    st.integers(1, 9), st.sampled_from([0, 0, 2, 3]),
)  # fmt: skip
"""Constant, coefficient of i and of j, of the axis, its extent, and a modulus of i (0: none)."""


def _index(parts):
    const, by_i, by_j, stride, _, modulus = parts
    i = f"(i % {modulus})" if modulus else "i"
    return f"{const} + {by_i} * {i} + {by_j} * j + {stride} * f"


@given(write=affine, read=affine, trips=st.integers(1, 5), inner=st.integers(1, 3))
@settings(deadline=None, max_examples=100)
def test_races_are_what_an_enumeration_finds(write, read, trips, inner):
    kernel = f"""
    def kernel(x):
        out = nl.ndarray((8, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.sbuf)
        t[...] = 0.0
        p = nl.arange(32)[:, None]
        for i in nl.affine_range({trips}):
            for j in nl.sequential_range({inner}):
                f = nl.arange({read[4]})[None, :]
                value = nl.copy(t[p, {_index(read)}])
                f = nl.arange({write[4]})[None, :]
                t[p, {_index(write)}] = nl.copy(value[:, 0:1].broadcast_to((32, {write[4]})))
        nl.store(out[0, 0:32], t[:, 0:64])
        return out
    """

    def cells(parts, i):
        return {
            eval(_index(parts), {"i": i, "j": j, "f": f})
            for j in range(inner)
            for f in range(parts[4])
        }

    meet = any(
        cells(write, a) & (cells(write, b) | cells(read, b))
        for a, b in itertools.permutations(range(trips), 2)
    )
    assert (set(rules(kernel, X)) == {RACE}) == meet
