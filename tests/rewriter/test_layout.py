from __future__ import annotations

import pytest

from accelopt_rewriter.coarsening import SBUF_BUDGET_BYTES

SUBTILES = """import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa


@nki.jit
def kernel(x):
    P = nl.arange(128)[:, None]
    out = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((4, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf)
    u = nl.ndarray((4, 2, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf)
    r = nl.ndarray((4, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        t[i, P, nl.arange(1024)[None, :]] = nl.load(x[P, 1024 * i + nl.arange(1024)[None, :]])
        for s in nl.affine_range(2):
            u[i, s, P, nl.arange(512)[None, :]] = nl.exp(t[i, P, 512 * s + nl.arange(512)[None, :]])
            r[i, P, 512 * s + nl.arange(512)[None, :]] = nl.add(
                u[i, s, P, nl.arange(512)[None, :]], 1.0)
            'end of s'
        nl.store(out[P, 1024 * i + nl.arange(1024)[None, :]],
                 value=r[i, P, nl.arange(1024)[None, :]])
    return out
"""
ARGUMENTS = ((128, 4096),)

HAND_WRITTEN = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(8):
        t = nl.load(x[0:128, i * 512:(i + 1) * 512])
        r = nl.exp(t)
        nl.store(out[0:128, nl.ds(i * 512, 512)], value=r)
    return out
"""


def test_a_loop_over_subtiles_becomes_full_width(applied):
    result = applied("merge-subtile-loop", SUBTILES, ARGUMENTS)
    assert "u = nl.ndarray((4, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf)" in (
        result.lines
    )
    wide = "nl.arange(128)[:, None], nl.arange(1024)[None, :]"
    assert f"u[i, {wide}] = nl.exp(t[i, {wide}])" in result.lines
    assert f"r[i, {wide}] = nl.add(u[i, {wide}], 1.0)" in result.lines
    assert not [line for line in result.lines if line.startswith("for s")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("512 * s +", "256 * s +"),  # sub-tiles overlap
        ("u[i, s, P, nl.arange(512)[None, :]] =", "u[i, 0, P, nl.arange(512)[None, :]] ="),
        ("nl.affine_range(2)", "nl.sequential_range(2)"),
        ("nl.exp(t[i, P, 512 * s + nl.arange(512)[None, :]])",
         "nl.exp(t[i, P, 512 * s + nl.arange(512)[None, :]], mask=s < 1)"),
        ("nl.exp(t[i, P, 512 * s + nl.arange(512)[None, :]])",
         "nl.exp(t[i, P, 512 * s + nl.arange(512)[None, :]], mask=nl.arange(512)[None, :] < 99)"),
        ("nl.exp(t[i, P, 512 * s + nl.arange(512)[None, :]])",
         "nl.softmax(t[i, P, 512 * s + nl.arange(512)[None, :]], axis=[1])"),
        ("'end of s'",
         "u[i, s, P, nl.arange(512)[None, :]] = nl.exp(u[0, 0, P, nl.arange(512)[None, :]])"),
    ],
)  # fmt: skip
def test_a_loop_that_is_not_a_plain_split_stays(applied, old, new):
    assert old in SUBTILES
    assert not applied("merge-subtile-loop", SUBTILES.replace(old, new), ARGUMENTS).changed


def test_a_loop_stays_when_its_sub_tiles_are_read_elsewhere(applied):
    text = SUBTILES.replace(
        "        nl.store",
        "        v = nl.exp(u[i, 0, P, nl.arange(512)[None, :]])\n        nl.store",
    )
    assert not applied("merge-subtile-loop", text, ARGUMENTS).changed


def test_tiles_become_as_wide_as_fits(applied):
    merged = applied("merge-subtile-loop", SUBTILES, ARGUMENTS).text
    result = applied("widen-free-tile", merged, ARGUMENTS)
    wide = "nl.arange(128)[:, None], nl.arange(4096)[None, :]"
    assert f"t[{wide}] = nl.load(x[{wide}])" in result.lines
    assert f"nl.store(out[{wide}], value=r[{wide}])" in result.lines
    assert not [line for line in result.lines if line.startswith("for ")]
    assert "t = nl.ndarray((nl.par_dim(128), 4096), dtype=np.float32, buffer=nl.sbuf)" in (
        result.lines
    )


def test_a_loop_around_another_loop_is_not_widened(applied):
    assert not applied("widen-free-tile", SUBTILES, ARGUMENTS).changed


def test_named_tiles_and_slices_widen_too(applied):
    lines = applied("widen-free-tile", HAND_WRITTEN, ARGUMENTS).lines
    assert "t = nl.load(x[0:128, 0:4096])" in lines
    assert "nl.store(out[0:128, 0:4096], value=r)" in lines


def test_sbuf_limits_the_width(applied):
    # Two live tiles of 16384 columns, twice, need 256 KiB per partition; a quarter fits.
    text = HAND_WRITTEN.replace("512", "4096")
    result = applied("widen-free-tile", text, ((128, 32768),))
    assert result.sites[0].what == "tiles become 2 times as wide"
    assert 2 * 2 * 2 * 4096 * 4 <= SBUF_BUDGET_BYTES < 2 * 2 * 4 * 4096 * 4
    assert "for i in nl.affine_range(4):" in result.lines
    assert "t = nl.load(x[0:128, 8192 * i:8192 * i + 8192])" in result.lines


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nl.exp(t)", "nl.sum(t, axis=[1])"),
        ("i * 512:(i + 1) * 512", "i * 256:i * 256 + 512"),
        ("x[0:128, i", "x[i:i + 128, i"),
        ("r = nl.exp(t)", "r = nl.matmul(t, t)"),
    ],
)
def test_what_is_not_elementwise_over_columns_is_not_widened(applied, old, new):
    assert old in HAND_WRITTEN
    assert not applied("widen-free-tile", HAND_WRITTEN.replace(old, new), ARGUMENTS).changed
