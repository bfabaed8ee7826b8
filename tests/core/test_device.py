"""Roofline and percent of peak: the published values of NKIBench."""

from __future__ import annotations

import numpy as np
import pytest

from accelopt.device import percent_of_peak, roofline_bound, roofline_latency_us
from accelopt.kernel import Work, relative_l2_error
from accelopt.plugins import installed

# Published peak latencies in ms and bounds (NKIBench roofline, Trainium 1).
PUBLISHED = {
    "silu": (0.533537, "memory", 1333.232, 40.02),
    "adamw": (1.018245, "memory", 1999.829, 50.92),
    "add_rmsnorm_matmul": (0.723363, "matmul", 1221.911, 59.20),
}


@pytest.fixture(scope="module")
def trn1():
    return installed().backend("sim-trn1").device


@pytest.mark.parametrize("name", PUBLISHED)
def test_roofline_equals_the_published_one(name, trn1):
    peak_ms, bound, measured_us, percent = PUBLISHED[name]
    work = installed().task(f"nkibench/{name}").work
    assert roofline_latency_us(work, trn1) == pytest.approx(peak_ms * 1e3, abs=1e-3)
    assert roofline_bound(work, trn1) == bound
    assert percent_of_peak(measured_us, work, trn1) == pytest.approx(percent, abs=0.01)


def test_percent_of_peak_may_exceed_100(trn1):
    work = Work(hbm_bytes=0, vector_flops=int(286.72e9))
    assert percent_of_peak(0.5e6, work, trn1) == pytest.approx(200.0)


def test_relative_l2_error_is_the_published_rule():
    expected = np.array([3.0, 4.0], dtype=np.float32)
    assert relative_l2_error(expected, expected) == 0.0
    actual = np.array([3.0, 4.5], dtype=np.float32)
    assert relative_l2_error(actual, expected) == pytest.approx(0.1)


def test_nan_and_inf_never_match():
    expected = np.array([1.0, 0.0], dtype=np.float32)
    for bad in (np.nan, np.inf):
        error = relative_l2_error(np.array([1.0, bad], dtype=np.float32), expected)
        assert not error < 1e9
    zeros = np.zeros(2, dtype=np.float32)
    assert not relative_l2_error(np.array([np.nan, 0.0], dtype=np.float32), zeros) < 1e9


def test_shapes_must_match_exactly():
    with pytest.raises(ValueError, match="shape"):
        relative_l2_error(np.zeros((2, 1)), np.zeros((1, 2)))


def test_a_large_output_is_summed_in_chunks():
    n = (1 << 20) + 3
    expected = np.ones(n, dtype=np.float32)
    actual = expected.copy()
    actual[-1] = 2.0
    assert relative_l2_error(actual, expected) == pytest.approx(1 / np.sqrt(n), rel=1e-9)
