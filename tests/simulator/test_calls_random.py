"""Random draws: the same for the same seed, different otherwise, and distributed as they should."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import run_kernel

RAND = """
def kernel():
    out = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    BEFORE
    for i in nl.sequential_range(4):
        INSIDE
        nl.store(out[i], nl.rand((128, 512)))
    return out
"""


def draw(before="pass", inside="pass"):
    return run_kernel(RAND.replace("BEFORE", before).replace("INSIDE", inside))


def test_draws_are_uniform_and_differ_from_each_other():
    found = draw()
    assert found.min() >= 0
    assert found.max() < 1
    assert abs(found.mean() - 0.5) < 0.005
    assert len({bytes(tile.tobytes()) for tile in found}) == 4


def test_a_seed_decides_the_draws():
    np.testing.assert_array_equal(draw("nl.random_seed(7)"), draw("nl.random_seed(7)"))
    assert not np.array_equal(draw("nl.random_seed(7)"), draw("nl.random_seed(8)"))


def test_seeding_in_each_iteration_starts_the_sequence_again():
    found = draw(inside="nl.random_seed(5)")
    for tile in found[1:]:
        np.testing.assert_array_equal(tile, found[0])
    other = draw(inside="nl.random_seed(nisa.iota(i + 3, dtype=nl.int32))")
    np.testing.assert_array_equal(other[2], found[0])
    assert not np.array_equal(other[0], found[0])


def test_a_seed_that_leaves_its_loop_is_not_guessed():
    from simulator_kernels import rules

    text = RAND.replace("BEFORE", "for j in nl.affine_range(2):\n        nl.random_seed(j + 1)")
    assert rules(text.replace("INSIDE", "pass").replace("(j + 1)", "(3)")) == ["unsupported_op"]


DROPOUT = """
def kernel(x, rate):
    out = nl.ndarray((2, 128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.random_seed(3)
    a = nl.load(x)
    nl.store(out[0], nl.dropout(a, RATE))
    nl.store(out[1], nisa.dropout(a, RATE))
    return out
"""


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("rate", ["0.25", "nl.load(rate)", "nl.load(rate[0:1, 0:1])"])
def test_dropout_zeroes_a_share_and_does_not_rescale(dtype, rate):
    x = np.full((128, 2048), 2**30 + 1 if dtype == np.int32 else 1.5, dtype)
    found = run_kernel(DROPOUT.replace("RATE", rate), x, np.full((128, 1), 0.25, np.float32))
    for tile in found:
        assert abs((tile == 0).mean() - 0.25) < 0.005
        assert set(np.unique(tile)) == {dtype(0), x[0, 0]}
    assert not np.array_equal(found[0], found[1])


@pytest.mark.parametrize(("rate", "kept"), [("0.0", 1.0), ("1.0", 0.0)])
def test_dropout_of_nothing_and_of_everything(rate, kept):
    x, column = np.ones((128, 2048), np.float32), np.zeros((128, 1), np.float32)
    assert run_kernel(DROPOUT.replace("RATE", rate), x, column).mean() == kept
