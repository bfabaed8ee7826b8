"""Run-time indices: gather, scatter, read-modify-write, out of bounds, copies on chip."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import HEADER_LINES, execute, findings, rules, run_kernel, traced

from accelopt import KernelSource
from accelopt.evaluation import ALL_STAGES, EvaluationStatus, Stage
from accelopt.kernel import ArgumentSpec, KernelTask, Work
from accelopt_simulator.frontend.neuronxcc_nki.compiler import PsumAllocator, SbufAllocator
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.judge import Judge
from accelopt_simulator.numerics.indirect import RuntimeIndexError
from accelopt_simulator.trace.codec import encode

GATHER = """
def kernel(x, rows):
    out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(64)[:, None], nl.arange(512)[None, :]
    idx = nl.load(rows)
    LOAD
    nl.store(out, t)
    return out
"""
ACCEPTED = [
    "t = nl.load(x[idx, i_f])",
    "t = nl.load(x[idx[i_p, 0], i_f])",
    "t = nl.load(x[idx[:, 0], i_f])",
    "t = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
    "    nisa.dma_copy(dst=t, src=x[idx, i_f])",
]


@pytest.fixture
def x(arrays):
    return arrays(128, 512)


def rows_of(values):
    return np.array(values, np.int32).reshape(-1, 1)


@pytest.mark.parametrize("load", ACCEPTED)
def test_a_gather_takes_the_rows_of_its_index_tile(x, load):
    rows = rows_of(np.random.default_rng(1).integers(0, 128, 64))
    found = run_kernel(GATHER.replace("LOAD", load), x, rows)
    np.testing.assert_array_equal(found, x[rows[:, 0]])


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint8])
def test_an_index_tile_may_have_any_integer_type(x, dtype):
    rows = np.arange(64, dtype=dtype).reshape(-1, 1)
    found = run_kernel(GATHER.replace("LOAD", ACCEPTED[0]), x, rows)
    np.testing.assert_array_equal(found, x[:64])


def test_a_gather_from_a_block_with_an_offset_and_a_mask(arrays):
    x = arrays(3, 128, 64)
    rows = rows_of(np.random.default_rng(2).permutation(100)[:32])
    text = """
    def kernel(x, rows):
        out = nl.ndarray((3, 32, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(32)[:, None], nl.arange(64)[None, :]
        idx = nl.load(rows)
        for b in nl.affine_range(3):
            t = nl.full((32, 64), -1.0, dtype=nl.float32, buffer=nl.sbuf)
            t[...] = nl.load(x[b, idx + 20, i_f], mask=i_p < 30 - b)
            nl.store(out[b], t)
        return out
    """
    found = run_kernel(text, x, rows)
    for b in range(3):
        np.testing.assert_array_equal(found[b, : 30 - b], x[b, rows[: 30 - b, 0] + 20])
        assert (found[b, 30 - b :] == -1).all()


SCATTER = """
def kernel(x, rows):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    i_f = nl.arange(64)[None, :]
    start = nl.full((128, 64), START, dtype=nl.float32, buffer=nl.sbuf)
    nl.store(out, start)
    idx = nl.load(rows)
    t = nl.load(x)
    STORE
    return out
"""


def test_a_scatter_writes_the_rows_of_its_index_tile(arrays):
    x, rows = arrays(64, 64), rows_of(2 * np.arange(64))
    wanted = np.full((128, 64), np.float32(-1))
    wanted[rows[:, 0]] = x
    text = SCATTER.replace("START", "-1.0")
    for store in ("nl.store(out[idx, i_f], t)", "nisa.dma_copy(dst=out[idx, i_f], src=t)"):
        np.testing.assert_array_equal(run_kernel(text.replace("STORE", store), x, rows), wanted)


def test_of_repeated_rows_the_last_write_wins(arrays):
    x, rows = arrays(64, 64), rows_of(np.arange(64) // 2)
    text = SCATTER.replace("START", "0.0").replace("STORE", "nl.store(out[idx, i_f], t)")
    wanted = np.zeros((128, 64), np.float32)
    wanted[:32] = x[1::2]
    np.testing.assert_array_equal(run_kernel(text, x, rows), wanted)


ADD = "nisa.dma_copy(dst=out[idx, i_f], src=t, dst_rmw_op=np.add)"
ATOMIC = "nl.atomic_rmw(out[idx, i_f], value=t, op=np.add)"


@pytest.mark.parametrize("add", [ADD, ATOMIC])
def test_the_documented_read_modify_write_of_a_copy(arrays, add):
    """Spec section 8: ids `2*arange(64)` into ones give `1 + a` on even rows and 1 elsewhere."""
    x = arrays(64, 64)
    text = SCATTER.replace("START", "1.0").replace("STORE", add)
    wanted = np.ones((128, 64), np.float32)
    wanted[::2] += x
    np.testing.assert_array_equal(run_kernel(text, x, rows_of(2 * np.arange(64))), wanted)


@pytest.mark.parametrize("add", [ADD, ATOMIC])
def test_read_modify_write_adds_every_occurrence_of_a_row(arrays, add):
    x, rows = arrays(64, 64), rows_of(np.arange(64) % 3)
    text = SCATTER.replace("START", "1.0").replace("STORE", add)
    wanted = np.ones((128, 64), np.float32)
    np.add.at(wanted, rows[:, 0], x)
    np.testing.assert_allclose(run_kernel(text, x, rows), wanted, rtol=1e-5, atol=1e-5)


def test_the_documented_skip_leaves_rows_that_are_out_of_bounds(arrays):
    """Spec section 8: 64 row ids `3*arange(64)` of 128 rows; ids from 128 on leave -1."""
    x, rows = arrays(64, 64), rows_of(3 * np.arange(64))
    store = "nisa.dma_copy(dst=out[idx, i_f], src=t, oob_mode=nisa.oob_mode.skip)"
    text = SCATTER.replace("START", "-1.0").replace("STORE", store)
    wanted = np.full((128, 64), np.float32(-1))
    inside = rows[:, 0] < 128
    wanted[rows[inside, 0]] = x[inside]
    np.testing.assert_array_equal(run_kernel(text, x, rows), wanted)


def test_a_skipped_load_keeps_what_the_tile_had(x):
    rows = rows_of(3 * np.arange(64))
    load = (
        "t = nl.full((64, 512), -1.0, dtype=nl.float32, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=t, src=x[idx, i_f], oob_mode=nisa.oob_mode.skip)"
    )
    wanted = np.full((64, 512), np.float32(-1))
    inside = rows[:, 0] < 128
    wanted[inside] = x[rows[inside, 0]]
    np.testing.assert_array_equal(run_kernel(GATHER.replace("LOAD", load), x, rows), wanted)


@pytest.mark.parametrize(("row", "address"), [(129, 66048), (128, 65536), (-1, -512)])
def test_a_row_out_of_bounds_is_reported_with_its_linear_address(x, row, address):
    """The SDK: "index 66048 is out of bounds for axis 0 with size 65536"."""
    rows = rows_of([0] * 63 + [row])
    with pytest.raises(RuntimeIndexError) as caught:
        execute(GATHER.replace("LOAD", ACCEPTED[0]), x, rows)
    assert str(caught.value) == f"index {address} is out of bounds for axis 0 with size 65536"


class _Gather:
    """A task whose rows may be out of bounds on a later seed."""

    def inputs(self, seed):
        rows = rows_of(np.arange(64))
        rows[-1] = 127 + seed
        return [np.ones((128, 512), np.float32), rows]

    def forward(self, inputs):
        return inputs[0][:64]

    def kernel_inputs(self, inputs):
        return list(inputs)

    def natural_output(self, outputs, expected):
        return outputs[0]


def test_a_run_time_index_out_of_bounds_is_a_constraint_violation(x):
    task = KernelTask(
        name="test/gather",
        title="gather",
        reference=_Gather(),
        reference_source="",
        baseline=KernelSource(text="def kernel(x, rows):\n    return x"),
        arguments=(ArgumentSpec(shape=(128, 512)), ArgumentSpec(shape=(64, 1), dtype="int32")),
        output_shape=(64, 512),
        relative_l2_tolerance=1e-6,
        seeds=(0, 2),
        work=Work(hbm_bytes=1),
    )
    found = traced(GATHER.replace("LOAD", ACCEPTED[0]), x, rows_of(np.zeros(64)))
    judge = Judge(TRN1, TRN1_TIMING)
    stages = ALL_STAGES - {Stage.ROBUSTNESS}  # a fresh seed is as good as any row out of bounds
    assert judge.judge(task, encode(found), stages, (0,)).status is EvaluationStatus.OK
    verdict = judge.judge(task, encode(found), stages, (0, 2))
    assert verdict.status is EvaluationStatus.CONSTRAINT_VIOLATION
    (finding,) = verdict.diagnostics
    assert finding.rule == "err_tensor_access_out_of_bound"
    assert (finding.required, finding.limit) == ("66048", "65535")
    assert finding.hint


ON_CHIP = """
def kernel(x, rows):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(64)[:, None], nl.arange(16)[None, :]
    a = nl.load(x[0:64, 0:64])
    off = nl.load(rows[0:1])
    STATEMENT
    nl.store(out, a)
    return out
"""
FROM = "nisa.tensor_copy_dynamic_src(a[i_p, off[0, 0] + i_f])"
TO = "nisa.tensor_copy_dynamic_dst(dst=a[i_p, i_f + off[0, 0]], src=nl.load(x[64:128, 0:16]))"


def test_copies_with_a_dynamic_source_or_destination(x):
    rows = rows_of([40] * 64)
    found = run_kernel(ON_CHIP.replace("STATEMENT", f"a[:, 0:16] = {FROM}"), x, rows)
    wanted = x[:64, :64].copy()
    wanted[:, :16] = wanted[:, 40:56]
    np.testing.assert_array_equal(found, wanted)
    found = run_kernel(ON_CHIP.replace("STATEMENT", TO), x, rows)
    wanted = x[:64, :64].copy()
    wanted[:, 40:56] = x[64:, :16]
    np.testing.assert_array_equal(found, wanted)


def test_a_dynamic_offset_on_chip_is_bounds_checked_too(x):
    for statement in (f"a[:, 0:16] = {FROM}", TO):
        with pytest.raises(RuntimeIndexError):
            execute(ON_CHIP.replace("STATEMENT", statement), x, rows_of([49] * 64))


MISUSE = [
    ("index_dtype", "nl.load(x[a[:, 0:1], nl.arange(64)[None, :]])", "float"),
    ("err_unsupported_memory", "nl.load(x[rows, nl.arange(64)[None, :]])", "hbm"),
    ("err_indirect_indices_free_dim", "nl.load(x[nl.copy(a, dtype=nl.int32), 0])", "(64, 64)"),
    ("err_indirect_indices_free_dim", "nl.load(x[i_p, nl.load(rows)])", ""),
    ("err_indirect_indices_free_dim", "nl.load(x[nl.load(rows), nl.arange(64)[:, None]])", ""),
    (
        "err_copy_dynamic_indirect_indices_not_natively_supported",
        "nl.exp(a[i_p, off[0, 0] + i_f])",
        "",
    ),
    (
        "err_copy_dynamic_indirect_indices_not_natively_supported",
        "a[:, 0:16] = a[i_p, off[0, 0] + i_f]",
        "",
    ),
    (
        "err_copy_dynamic_indirect_indices_not_natively_supported",
        "nisa.tensor_copy_dynamic_src(x[off[0, 0] + i_p, i_f])",
        "",
    ),
]


@pytest.mark.parametrize(("rule", "statement", "found"), MISUSE)
def test_misuse_of_run_time_indices(x, rule, statement, found):
    text = ON_CHIP.replace("STATEMENT", statement)
    (finding,) = findings(text, x, rows_of([0] * 64))
    assert finding.rule == rule
    line = next(n for n, t in enumerate(text.strip("\n").split("\n")) if statement in t)
    assert finding.line == HEADER_LINES + 1 + line
    assert found in f"{finding.required} {finding.message}"


def test_indices_are_checked_where_they_are_used_not_where_they_are_loaded(x):
    assert rules(ON_CHIP.replace("STATEMENT", "nl.copy(off)"), x, rows_of([0] * 64)) == []


def test_the_documented_addresses_of_rotating_tiles():
    """Spec section 8: 4 blocks of 512 bf16, and 4 blocks in 2 banks."""
    sbuf = SbufAllocator.mod_alloc(base_addr=0, num_free_tiles=(2,))
    assert [sbuf.address((b,), 128, 1024) for b in range(4)] == [(0, 0), (0, 1024)] * 2
    psum = PsumAllocator.mod_alloc(base_bank=0, num_bank_tiles=(2,))
    assert [psum.address((b,), 128, 2048)[0] for b in range(4)] == [0, 1, 0, 1]
