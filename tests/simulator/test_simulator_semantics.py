"""What a kernel means: assignment, masks, loops, conditions, undefined contents."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import run_kernel, traced


def ops_of(text, *arguments):
    found = traced(text, *arguments)
    return [found.ops[i] for i in found.ins_op]


def test_an_unnamed_result_is_written_in_place_and_a_named_one_is_copied(arrays):
    text = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        STATEMENT
        nl.store(out, y)
        return out
    """
    x = arrays(128, 8)
    placed = text.replace("STATEMENT", "y[...] = nl.add(a, 1.0)")
    named = text.replace("STATEMENT", "t = nl.add(a, 1.0)\n        y[...] = t")
    assert ops_of(placed, x) == ["dma_copy", "tensor_scalar", "dma_copy"]
    assert ops_of(named, x) == ["dma_copy", "tensor_scalar", "tensor_copy", "dma_copy"]
    np.testing.assert_array_equal(run_kernel(placed, x), run_kernel(named, x))


@pytest.mark.parametrize("source", ["tiles[0]", "box.tile", "same(t)", "t if True else t"])
def test_a_tile_that_was_kept_elsewhere_is_not_redirected(source, arrays):
    """Writing the target afterwards must not change the tile it was assigned from."""
    text = f"""
    class Box:
        pass

    def same(v):
        return v

    def kernel(x):
        out = nl.ndarray((2, 128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        y = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        a = nl.load(x)
        t = nl.add(a, 1.0)
        tiles, box = [t], Box()
        box.tile = t
        y[...] = {source}
        y[...] = 0.0
        nl.store(out[0], t)
        nl.store(out[1], y)
        return out
    """
    x = arrays(128, 4)
    np.testing.assert_array_equal(run_kernel(text, x), np.stack([x + 1, 0 * x]))


def test_a_result_may_target_its_own_input(arrays):
    text = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        a[...] = nisa.activation(op=nl.silu_dx, data=a)
        a[:, 1:8] = nl.add(a[:, 0:7], a[:, 1:8])
        nl.store(out, a)
        return out
    """
    x = arrays(128, 8)
    s = 1 / (1 + np.exp(-x))
    y = s * (1 + x * (1 - s))
    wanted = np.hstack([y[:, :1], y[:, 1:] + y[:, :-1]])
    np.testing.assert_allclose(run_kernel(text, x), wanted, rtol=2e-5, atol=1e-6)


def test_what_was_never_written_reads_as_nan():
    text = """
    def kernel(x):
        out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        y = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        y[:, 0:4] = nl.load(x)
        nl.store(out[:, 0:6], y[:, 0:6])
        return out
    """
    found = run_kernel(text, np.ones((128, 4), np.float32))
    assert (found[:, :4] == 1).all()
    assert np.isnan(found[:, 4:]).all()


def test_reading_a_tile_in_the_instruction_that_first_writes_it_gives_nan():
    text = """
    def kernel(x):
        out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        y = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        y[...] = nl.add(y, a)
        nl.store(out, y)
        return out
    """
    for _ in range(2):  # freshly allocated memory may hold zeros the first time
        assert np.isnan(run_kernel(text, np.ones((128, 4), np.float32))).all()


ACCUMULATE = """
def kernel(a, b):
    out = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.BUFFER)
    for k in nl.sequential_range(3):
        acc += VALUE
    nl.store(out, nl.copy(acc))
    return out
"""


def test_matmuls_accumulate_in_psum_from_zero(arrays):
    a, b = arrays(32, 32), arrays(32, 32)
    text = ACCUMULATE.replace("BUFFER", "psum").replace("VALUE", "nisa.nc_matmul(x, y)")
    np.testing.assert_allclose(run_kernel(text, a, b), 3 * (a.T @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("buffer", ["psum", "sbuf"])
def test_other_updates_of_what_was_never_written_give_nan(buffer, arrays):
    a, b = arrays(32, 32), arrays(32, 32)
    text = ACCUMULATE.replace("BUFFER", buffer).replace("VALUE", "nl.add(x, y)")
    assert np.isnan(run_kernel(text, a, b)).all()


def test_a_plain_matmul_overwrites_and_a_new_accumulator_starts_from_zero(arrays):
    a, b = arrays(32, 32), arrays(32, 32)
    text = """
    def kernel(a, b):
        out = nl.ndarray((4, 32, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        x, y = nl.load(a), nl.load(b)
        for i in nl.affine_range(4):
            acc = nl.zeros((32, 32), nl.float32, buffer=nl.psum)
            acc[...] = nisa.nc_matmul(x, y)
            acc += nisa.nc_matmul(x, y)
            fresh = nl.zeros((32, 32), nl.float32, buffer=nl.psum)
            fresh += nisa.nc_matmul(x, y)
            nl.store(out[i], nl.add(nl.copy(acc), fresh))
        return out
    """
    wanted = np.stack([3 * (a.T @ b)] * 4)
    np.testing.assert_allclose(run_kernel(text, a, b), wanted, rtol=1e-4, atol=1e-4)


MASKED = """
def kernel(x):
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(16)[None, :]
    y = nl.full((128, 16), -1.0, dtype=nl.float32, buffer=nl.sbuf)
    y[i_p, i_f] = nl.square(nl.load(x), mask=MASK)
    nl.store(out, y)
    return out
"""


@pytest.mark.parametrize(
    ("mask", "where"),
    [
        ("(i_p < 64) & (i_f < 9)", lambda p, f: (p < 64) & (f < 9)),
        ("i_f >= i_p", lambda p, f: f >= p),
        ("(i_p < 3) | (i_f == 2)", lambda p, f: (p < 3) | (f == 2)),
        ("~((i_p < 3) | (i_f == 2))", lambda p, f: ~((p < 3) | (f == 2))),
        ("i_p + 8 * i_f != 40", lambda p, f: p + 8 * f != 40),
        ("3 * i_f <= 20", lambda p, f: (3 * f <= 20) & (p >= 0)),
        ("-2 * i_f > -9", lambda p, f: (-2 * f > -9) & (p >= 0)),
        ("False", lambda p, f: (p < 0) & (f < 0)),
        ("None", lambda p, f: (p >= 0) & (f >= 0)),
    ],
)
def test_masked_results_merge_with_what_was_there(mask, where, arrays):
    x = arrays(128, 16)
    p, f = np.arange(128)[:, None], np.arange(16)[None, :]
    wanted = np.where(where(p, f), x * x, np.float32(-1))
    np.testing.assert_array_equal(run_kernel(MASKED.replace("MASK", mask), x), wanted)


def test_a_masked_reduction_only_counts_what_the_mask_lets_through(arrays):
    x = arrays(128, 16)
    text = """
    def kernel(x):
        out = nl.ndarray((3, 128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(16)[None, :]
        tile = nl.load(x)
        y = nl.full((128, 3), -5.0, dtype=nl.float32, buffer=nl.sbuf)
        y[:, 0] = nl.sum(tile, axis=1, mask=(i_f < 7) & (i_p < 96))
        y[:, 1] = nl.max(tile, axis=1, mask=i_f > i_p)
        y[:, 2] = nl.sum(tile, axis=1, keepdims=True, mask=i_p >= 64)
        for k in nl.static_range(3):
            nl.store(out[k], y[:, k])
        return out
    """
    p, f = np.arange(128)[:, None], np.arange(16)[None, :]
    found = run_kernel(text, x)[:, :, 0]
    assert (found[0, 96:] == -5).all()
    np.testing.assert_allclose(found[0, :96], x[:96, :7].sum(1), rtol=1e-5, atol=1e-6)
    masked = np.where(f > p, x, -np.inf).max(1)
    np.testing.assert_array_equal(found[1], np.where(np.isinf(masked), -5, masked))
    np.testing.assert_allclose(found[2, 64:], x[64:].sum(1), rtol=1e-5, atol=1e-6)
    assert (found[2, :64] == -5).all()


def test_a_masked_matmul_leaves_the_other_columns_alone(arrays):
    a, b = arrays(64, 64), arrays(64, 128)
    text = """
    def kernel(a, b):
        out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        acc = nl.zeros((64, 128), nl.float32, buffer=nl.psum)
        x, y = nl.load(a), nl.load(b)
        acc += nisa.nc_matmul(x, y)
        acc += nisa.nc_matmul(x, y, mask=nl.arange(128)[None, :] < 100)
        nl.store(out, acc)
        return out
    """
    wanted = a.T @ b * np.where(np.arange(128) < 100, 2, 1)
    np.testing.assert_allclose(run_kernel(text, a, b), wanted, rtol=1e-4, atol=1e-4)


def test_a_ragged_edge_is_loaded_and_stored_under_a_mask(arrays):
    x = arrays(300, 40)
    text = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(16)[None, :]
        for r in nl.affine_range(3):
            for c in nl.affine_range(3):
                inside = (128 * r + i_p < 300) & (16 * c + i_f < 40)
                t = nl.load(x[128 * r + i_p, 16 * c + i_f], mask=inside)
                nl.store(out[128 * r + i_p, 16 * c + i_f], nl.multiply(t, 2.0), mask=inside)
        return out
    """
    np.testing.assert_array_equal(run_kernel(text, x), 2 * x)


def test_loop_bounds_may_depend_on_outer_loops_and_loops_may_not_run_at_all(arrays):
    text = """
    def kernel(x):
        out = nl.ndarray((6, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        one = nl.load(x)
        for i in nl.sequential_range(6):
            acc = nl.zeros((32, 1), dtype=nl.float32, buffer=nl.sbuf)
            for j in nl.sequential_range(i):
                for k in nl.sequential_range(j, i, 2):
                    acc += one
            nl.store(out[i], acc)
        for never in nl.affine_range(0):
            nl.store(out[never], one)
        return out
    """
    counts = [sum(len(range(j, i, 2)) for j in range(i)) for i in range(6)]
    found = run_kernel(text, np.ones((32, 1), np.float32))
    assert found[:, 0, 0].tolist() == counts


def test_a_write_in_a_loop_that_may_not_run_does_not_count_as_a_write():
    text = """
    def kernel(x):
        out = nl.ndarray((2, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.sequential_range(2):
            t = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.sbuf)
            for j in nl.sequential_range(i):
                t[...] = nl.load(x)
            nl.store(out[i], t)
        return out
    """
    found = run_kernel(text, np.ones((32, 1), np.float32))
    assert np.isnan(found[0]).all()
    assert (found[1] == 1).all()


def test_floor_division_and_modulo_of_loop_indices(arrays):
    x = arrays(12, 32, 4)
    text = """
    def kernel(x):
        out = nl.ndarray((3, 4, 32, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        ring = nl.ndarray((2, nl.par_dim(32), 4), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.sequential_range(12):
            ring[i % 2] = nl.load(x[i])
            nl.store(out[i // 4, i % 4], ring[i % 2])
        return out
    """
    np.testing.assert_array_equal(run_kernel(text, x), x.reshape(3, 4, 32, 4))


def test_a_rotating_buffer_still_holds_the_iteration_before():
    """Blocks that another iteration reads are never folded away."""
    text = """
    def kernel(x):
        out = nl.ndarray((4, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        ring = nl.ndarray((5, nl.par_dim(32), 1), dtype=nl.float32, buffer=nl.sbuf)
        ring[0] = nl.load(x[0])
        for i in nl.sequential_range(4):
            ring[i + 1] = nl.add(ring[i], nl.load(x[i + 1]))
            nl.store(out[i], ring[i + 1])
        return out
    """
    x = np.arange(5, dtype=np.float32)[:, None, None] * np.ones((5, 32, 1), np.float32)
    assert run_kernel(text, x)[:, 0, 0].tolist() == [1, 3, 6, 10]


def test_a_block_survives_when_its_loop_is_entered_again():
    text = """
    def kernel(x):
        out = nl.ndarray((3, 2, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        acc = nl.ndarray((2, nl.par_dim(32), 1), dtype=nl.float32, buffer=nl.sbuf)
        one = nl.load(x)
        for b in nl.affine_range(2):
            acc[b] = 0.0
        for i in nl.sequential_range(3):
            for b in nl.affine_range(2):
                acc[b] = nl.add(acc[b], one)
                nl.store(out[i, b], acc[b])
        return out
    """
    found = run_kernel(text, np.ones((32, 1), np.float32))
    assert found[:, :, 0, 0].tolist() == [[1, 1], [2, 2], [3, 3]]


def test_folded_blocks_are_undefined_again_in_each_iteration():
    text = """
    def kernel(x):
        out = nl.ndarray((3, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tmp = nl.ndarray((3, nl.par_dim(32), 1), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.affine_range(3):
            if i == 0:
                tmp[i] = nl.load(x)
            nl.store(out[i], tmp[i])
        return out
    """
    found = run_kernel(text, np.ones((32, 1), np.float32))
    assert (found[0] == 1).all()
    assert np.isnan(found[1:]).all()


def test_a_tile_made_in_a_loop_is_fresh_in_each_iteration_whatever_indexes_its_blocks():
    text = """
    def kernel(x):
        out = nl.ndarray((2, 2, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(2):
            for j in nl.affine_range(2):
                tmp = nl.ndarray((2, nl.par_dim(32), 1), dtype=nl.float32, buffer=nl.sbuf)
                if j == 0:
                    tmp[i] = nl.load(x)
                nl.store(out[i, j], tmp[i])
        return out
    """
    found = run_kernel(text, np.ones((32, 1), np.float32))[:, :, 0, 0]
    assert (found[:, 0] == 1).all()
    assert np.isnan(found[:, 1]).all()


CONDITION = """
def kernel(x):
    out = nl.ndarray((6, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    one = nl.load(x)
    y = nl.ndarray((6, nl.par_dim(32), 1), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(6):
        for j in nl.affine_range(1):
            if TEST1:
                y[i] = nl.multiply(one, 1.0)
            elif TEST2:
                if i > 3:
                    y[i] = nl.multiply(one, 2.0)
                else:
                    y[i] = nl.multiply(one, 3.0)
            else:
                y[i] = nl.multiply(one, 4.0)
            nl.store(out[i], y[i])
    return out
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("i == 0", "i % 2 == 1"),
        ("(i >= 1) & (i < 3)", "i != 5"),
        ("(i < 1) | (i > 4)", "i // 2 == 1"),
        ("~(i < 2)", "i <= 0"),
        ("True", "i == 3"),
        ("False", "i + j > 2"),
    ],
)
def test_conditions_on_loop_indices_trace_both_sides(first, second):
    text = CONDITION.replace("TEST1", first).replace("TEST2", second)
    found = run_kernel(text, np.ones((32, 1), np.float32))[:, 0, 0]

    def value(i):
        names = {"i": np.int64(i), "j": np.int64(0)}
        holds = [bool(eval(t.replace("~", "not "), names)) for t in (first, second)]
        return 1 if holds[0] else (2 if i > 3 else 3) if holds[1] else 4

    assert found.tolist() == [value(i) for i in range(6)]


def test_range_is_traced_in_the_kernel_and_unrolled_in_helpers_and_comprehensions():
    text = """
    def helper(out, tile):
        for k in range(3):
            nl.store(out[k], nl.multiply(tile, float(k)))

    def kernel(x):
        out = nl.ndarray((3, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        last = nl.ndarray((2, 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.load(x) for _ in range(2)]
        helper(out, tiles[1])
        for k in range(2):
            nl.store(last[k], tiles[0])
        for k in nl.static_range(2):
            tiles[k] = nl.add(tiles[k], 1.0)
        return out, last
    """
    found = traced(text, np.ones((32, 1), np.float32))
    assert found.num_loops == 1
    ops = [found.ops[i] for i in found.ins_op]
    assert ops.count("dma_copy") == 2 + 3 + 1
    out = run_kernel(text, np.ones((32, 1), np.float32))
    assert out[:, 0, 0].tolist() == [0, 1, 2]


def test_views_of_hbm_and_of_the_free_axes_address_the_same_elements(arrays):
    x = arrays(6, 128, 12)
    text = """
    def kernel(x):
        out = nl.ndarray((5, 128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(4)[None, :]
        flat = x.reshape((6 * 128, 12))
        nl.store(out[0], nl.load(flat[128 * 2 + i_p, 3 * i_f + 1]))
        nl.store(out[1], nl.load(x[3][:, nl.ds(8, 4)]))
        tile = nl.load(x[4])
        grid = nl.mgrid[0:128, 0:2, 0:2]
        again = tile.reshape((128, 3, 4))
        nl.store(out[2], again[:, 1, :])
        nl.store(out[3], nl.copy(tile[i_p, 2 * i_f + 3]))
        spread = nl.copy(tile[grid.p, 5 * grid.x + grid.y])
        nl.store(out[4, grid.p, 2 * grid.x + grid.y], spread)
        return out
    """
    found = run_kernel(text, x)
    wanted = [x[2][:, 1::3], x[3][:, 8:], x[4][:, 4:8], x[4][:, 3:10:2], x[4][:, [0, 1, 5, 6]]]
    np.testing.assert_array_equal(found, np.stack(wanted))


def test_constants_are_loaded_like_inputs():
    text = """
    def kernel(x):
        out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        eye = nl.shared_constant(np.eye(128, dtype=np.float32))
        nl.store(out, nl.add(nl.load(eye), nl.load(x)))
        return out
    """
    found = run_kernel(text, np.ones((128, 128), np.float32))
    np.testing.assert_array_equal(found, np.eye(128) + 1)


def test_dma_copies_between_hbm_tensors_of_any_rank(arrays):
    x = arrays(300)
    text = """
    def kernel(x):
        out = nl.ndarray((300,), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out
    """
    np.testing.assert_array_equal(run_kernel(text, x), x)


def test_each_run_starts_from_undefined_contents():
    from simulator_kernels import traced as trace_it

    from accelopt_simulator.numerics.execute import Executor

    text = """
    def kernel(x):
        out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p = nl.arange(128)[:, None]
        nl.store(out, nl.load(x), mask=i_p < 64)
        return out
    """
    x = np.ones((128, 4), np.float32)
    executor = Executor(trace_it(text, x))
    first = executor.run([x]).outputs[0].copy()
    second = executor.run([2 * x]).outputs[0]
    assert np.isnan(first[64:]).all()
    assert np.isnan(second[64:]).all()
    assert (second[:64] == 2).all()
