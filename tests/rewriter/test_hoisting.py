from __future__ import annotations

import pytest

MATMUL = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa


@nki.jit
def kernel(x, w, g):
    out = nl.ndarray((512, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    g_tile = nl.load(g[0:1, 0:256])
    for i in nl.affine_range(4):
        a = nl.load(x[i * 128:(i + 1) * 128, 0:256])
        wide = g_tile.broadcast_to((128, 256))
        a = nl.multiply(a, wide)
        for n in nl.affine_range(2):
            acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(2):
                b = nl.load(w[k * 128:(k + 1) * 128, n * 512:(n + 1) * 512])
                acc += nl.matmul(a[:, k * 128:(k + 1) * 128], b)
            o = nl.copy(acc)
            nl.store(out[i * 128:(i + 1) * 128, n * 512:(n + 1) * 512], value=o)
    return out
"""
ARGUMENTS = ((512, 256), (256, 1024), (1, 256))


def test_a_load_an_outer_loop_repeats_moves_out_of_it(applied):
    lines = applied("hoist-load", MATMUL, ARGUMENTS).lines
    at = "nl.arange(128)[:, None], nl.arange(512)[None, :]"
    assert f"b_all[n_load, k_load, {at}] = nl.load(" in "\n".join(lines)
    assert f"acc += nl.matmul(a[:, k * 128:(k + 1) * 128], b_all[n, k, {at}])" in lines
    assert (
        "b_all = nl.ndarray((2, 2, nl.par_dim(128), 512), dtype=w.dtype, buffer=nl.sbuf)" in lines
    )
    assert lines.index("for k_load in nl.affine_range(2):") < lines.index(
        "for i in nl.affine_range(4):"
    )


@pytest.mark.parametrize(
    ("old", "new", "arguments"),
    [
        (", n * 512:(n + 1) * 512])\n     ", ", n * 512 + i:(n + 1) * 512 + i])\n     ", ARGUMENTS),
        ("512])\n                acc", "512], mask=i < 3)\n                acc", ARGUMENTS),
        ("], b)", "], b[0:128, 0:512] + b[0:128, 0:256])", ARGUMENTS),
        # 2 * 32 tiles of 2 KiB are more than a partition may keep.
        ("k in nl.affine_range(2)", "k in nl.affine_range(32)", ((512, 4096), (4096, 1024))),
    ],
)  # fmt: skip
def test_a_load_that_must_stay_stays(applied, old, new, arguments):
    assert old in MATMUL
    result = applied("hoist-load", MATMUL.replace(old, new), arguments)
    assert not [line for line in result.lines if "b_all" in line]


def test_a_broadcast_the_loop_does_not_change_moves_out_of_it(applied):
    lines = applied("hoist-broadcast", MATMUL, ARGUMENTS).lines
    moved = "wide = nl.copy(g_tile.broadcast_to((128, 256)))"
    assert lines.index(moved) < lines.index("for i in nl.affine_range(4):")


def test_a_broadcast_of_something_made_in_the_loop_stays(applied):
    text = MATMUL.replace("    g_tile = nl.load(g[0:1, 0:256])\n", "").replace(
        "        wide", "        g_tile = nl.load(g[0:1, 0:256])\n        wide"
    )
    assert not applied("hoist-broadcast", text, ARGUMENTS).changed


def test_an_implicit_transpose_is_shared_by_the_column_blocks(applied):
    lines = applied("hoist-transpose", MATMUL, ARGUMENTS).lines
    assert (
        "a_transposed[0:128, 128 * k_t:128 * k_t + 128] = "
        "nl.copy(nisa.nc_transpose(a[:, k_t * 128:(k_t + 1) * 128]))" in lines
    )
    assert "acc += nisa.nc_matmul(a_transposed[0:128, 128 * k:128 * k + 128], b)" in lines
    start = lines.index("for k_t in nl.affine_range(2):")
    assert lines.index("for i in nl.affine_range(4):") < start
    assert start < lines.index("for n in nl.affine_range(2):")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("], b)\n", "], b, transpose_x=True)\n"),
        ("], b)\n", "], b, mask=k < 1)\n"),
        (
            "            acc = nl.zeros",
            "            a = nl.add(a, 1.0)\n            acc = nl.zeros",
        ),
        ("for n in nl.affine_range(2)", "for n in nl.affine_range(1)"),
        ("a[:, k * 128:(k + 1) * 128]", "a[:, (k + n) * 128:(k + n + 1) * 128]"),
    ],
)
def test_a_transpose_that_is_not_repeated_stays(applied, old, new):
    assert old in MATMUL
    assert not applied("hoist-transpose", MATMUL.replace(old, new), ARGUMENTS).changed


def test_without_known_shapes_nothing_is_hoisted(applied):
    text = MATMUL.replace("nl.affine_range(2)", "nl.affine_range(w.shape[0] // 128)")
    assert not applied("hoist-load", text, ()).changed
