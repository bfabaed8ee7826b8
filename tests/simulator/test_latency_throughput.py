"""Throughput apart from exposed latency: tiny independent instructions, and pipelines by hand."""

from __future__ import annotations

import numpy as np
import pytest
from latency_programs import predicted

from accelopt_simulator.hardware import TRN1_TIMING
from accelopt_simulator.latency.calibration import timing_for

TINY = """
def kernel(x):
    out = nl.ndarray((128, 3 * 1000), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.load(x)
    for i in nl.affine_range(TRIPS):
        r = nl.ndarray((128, 3000), dtype=nl.float32, buffer=nl.sbuf)
        for k in nl.affine_range(1000):
            r[:, nl.ds(3 * k, 3)] = VALUE
        nl.store(out, r)
    return out
"""
X = np.zeros((128, 3000), np.float32)


def tiny(value, trips, timing, **changes):
    text = TINY.replace("VALUE", value).replace("TRIPS", str(trips))
    return predicted(text, X, timing=timing, **changes)


PIECE = "a[:, nl.ds(3 * k, 3)]"


@pytest.mark.parametrize("fitted", [False, True])
def test_tiny_independent_instructions_cost_their_throughput(fitted):
    timing = timing_for("trn1") if fitted else TRN1_TIMING
    found = tiny(f"nisa.tensor_scalar({PIECE}, op0=nl.maximum, operand0=1.0)", 100, timing,
                 removes_repeats=0)  # fmt: skip
    each = timing.min_cycles / timing.dve_ghz + timing.dve_overhead_ns
    per_instruction_ns = 1e3 * (found.latency_us - timing.overhead_us) / 100_000
    assert per_instruction_ns == pytest.approx(each, rel=0.02)
    # Not the result latency, which only dependent ones see.
    slow = tiny(f"nisa.tensor_scalar({PIECE}, op0=nl.maximum, operand0=1.0)", 10, timing,
                removes_repeats=0, result_latency_ns=5 * timing.result_latency_ns)  # fmt: skip
    fast = tiny(f"nisa.tensor_scalar({PIECE}, op0=nl.maximum, operand0=1.0)", 10, timing,
                removes_repeats=0)  # fmt: skip
    assert slow.latency_us - fast.latency_us < 0.02 * fast.latency_us


CHAIN = """
def kernel(x):
    out = nl.ndarray((128, 3), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.load(x[:, 0:3])
    for k in nl.sequential_range(2000):
        a[...] = nisa.tensor_scalar(a, op0=nl.maximum, operand0=1.0)
    nl.store(out, a)
    return out
"""


def test_a_chain_of_tiny_instructions_waits_for_each_result():
    found = predicted(CHAIN, X)
    t = TRN1_TIMING
    each = t.min_cycles / t.dve_ghz + t.dve_overhead_ns + t.result_latency_ns
    assert 1e3 * (found.latency_us - t.overhead_us) / 2000 == pytest.approx(each, rel=0.02)


PLAIN = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.sequential_range(64):
        a = nl.load(x[i])
        nl.store(out[i], WORK)
    return out
"""
PIPELINED = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    a[...] = nl.load(x[0])
    for i in nl.sequential_range(32):
        b[...] = nl.load(x[2 * i + 1])
        nl.store(out[2 * i], FIRST)
        a[...] = nl.load(x[NEXT])
        nl.store(out[2 * i + 1], SECOND)
    return out
"""
WORK = "nl.exp(nl.exp({0}))"


def test_a_pipeline_by_hand_helps_where_iterations_do_not_overlap():
    x = np.zeros((65, 128, 512), np.float32)
    plain = predicted(PLAIN.replace("WORK", WORK.format("a")), x)
    by_hand = PIPELINED.replace("FIRST", WORK.format("a")).replace("SECOND", WORK.format("b"))
    by_hand = by_hand.replace("NEXT", "2 * i + 2")
    pipelined = predicted(by_hand, x)
    # Each load overlaps with the computing of the other buffer.
    assert pipelined.profile.hbm_write_bytes == plain.profile.hbm_write_bytes
    assert pipelined.latency_us < 0.85 * plain.latency_us
    # Where the iterations overlap anyway there is little left to gain.
    free = predicted(PLAIN.replace("WORK", WORK.format("a")).replace("sequential", "affine"), x)
    assert free.latency_us < pipelined.latency_us
    # With one buffer in place of two, nothing overlaps.
    one = by_hand.replace("b[...]", "a[...]").replace(WORK.format("b"), WORK.format("a"))
    assert predicted(one, x).latency_us > 1.1 * pipelined.latency_us
