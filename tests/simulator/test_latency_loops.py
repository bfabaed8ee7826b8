"""Loops that are exchanged, loads that sink into them, results placed in PSUM: one fault apart."""

from __future__ import annotations

import numpy as np
import pytest
from latency_programs import compiled, counts
from simulator_kernels import traced

from accelopt_simulator.latency.placement import placed_in_psum
from accelopt_simulator.latency.spill import Kind
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Engine

# --- Interchange ---

NEST = """
def kernel(x, y):
    out = nl.ndarray((4, 3, 128, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        BEFORE
        for j in nl.LOOP_range(STOP):
            w = WORK
            a = nl.load(y[i, j])
            nl.store(out[i, j], nl.add(w, a))
    return out
"""
SHAPES = ((4, 3, 128, 2048),) * 2


def nest(work="nl.exp(nl.load(x[i, 0]))", before="pass", loop="affine", stop="3"):
    text = NEST.replace("WORK", work).replace("BEFORE", before)
    return compiled(
        text.replace("LOOP", loop).replace("STOP", stop), *(np.zeros(s, np.float32) for s in SHAPES)
    )


def stores(found):
    """(outer, inner) iteration of each store, in order."""
    at = np.flatnonzero(found.program.has_effect)
    rows = zip(found.program.item[at], found.program.row[at], strict=True)
    return [tuple(int(v[row]) for v in found.items[item].loops.values()) for item, row in rows]


AS_WRITTEN = [(i, j) for i in range(4) for j in range(3)]
TURNED = [(i, j) for j in range(3) for i in range(4)]


def test_work_that_the_inner_loop_does_not_change_turns_the_loops_round():
    found = nest()
    assert stores(found) == TURNED
    # Done once per outer iteration, and kept through the others.
    assert counts(found)["activation"] == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"work": "nl.exp(nl.load(x[i, j]))"},  # nothing repeated
        {"work": "nl.load(x[i, 0])"},  # a load alone moves without its loop
        {"work": "nl.exp(nl.load(x[0, j]))"},  # it is the outer loop that changes nothing
        {"before": "nl.store(out[i, 0], nl.load(y[i, 0]))"},  # not perfectly nested
        {"loop": "sequential"},
    ],
)
def test_loops_stay_as_they_are_written(changes):
    found = nest(**changes)
    assert [pair for pair in stores(found) if len(pair) == 2] == AS_WRITTEN


def test_a_broadcast_that_is_hoisted_does_not_turn_the_loops_round():
    constant = "nl.exp(nl.load(x[0, 0]))"
    assert stores(nest(work=constant)) == TURNED
    spread = "nl.load(x[0, 0, 0:1, :]).broadcast_to((128, 2048))"
    found = nest(work=spread)
    assert stores(found) == AS_WRITTEN
    assert counts(found)["load"] == 1 + 12


def test_a_loop_whose_bounds_move_is_not_exchanged():
    text = NEST.replace("WORK", "nl.exp(nl.load(x[i, 0]))").replace("BEFORE", "pass")
    text = text.replace("LOOP", "affine").replace("STOP", "i")
    found = compiled(text, *(np.zeros(s, np.float32) for s in SHAPES))
    assert [i for i, _ in stores(found)] == sorted(i for i, _ in stores(found))


def test_what_moves_out_of_an_exchanged_loop_is_kept_whatever_it_takes():
    # 12 tiles of 16 KiB do not fit, and yet each is computed once: it is the compiler's habit.
    text = NEST.replace("WORK", "nl.exp(nl.load(x[i, 0]))").replace("BEFORE", "pass")
    text = text.replace("LOOP", "affine").replace("STOP", "3").replace("(4)", "(12)")
    text = text.replace("(4, 3, 128, 2048)", "(12, 3, 128, 4096)")
    x = np.zeros((12, 3, 128, 4096), np.float32)
    found = compiled(text, x, x)
    # As written the repeat is next door, so it fits in any case; turned, 12 lie between.
    assert counts(found)["activation"] == 12
    assert stores(found) == [(i, j) for j in range(3) for i in range(12)]
    assert (found.residences.kind == Kind.RELOAD).sum() > 0


# --- Sinking ---

SINK = """
def kernel(x, y):
    out = nl.ndarray((2, BLOCKS, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
    w = nl.ndarray((BLOCKS, nl.par_dim(128), COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
    for k in nl.affine_range(BLOCKS):
        w[k, :, :] = nl.load(x[k])
    for i in nl.affine_range(2):
        for k in nl.affine_range(BLOCKS):
            nl.store(out[i, k], nl.add(w[k, :, PIECE], nl.load(y[i, k, :, PIECE])))
    return out
"""


def sunk(blocks, columns, piece=":", keep_kib=None):
    text = SINK.replace("BLOCKS", str(blocks)).replace("COLUMNS", str(columns))
    if piece != ":":
        text = text.replace("out[i, k]", f"out[i, k, :, {piece}]")
    text = text.replace("PIECE", piece)
    shape = (blocks, 128, columns)
    x, y = np.zeros(shape, np.float32), np.zeros((2, *shape), np.float32)
    return compiled(text, x, y, keep_bytes=keep_kib * 1024)


def moved_bytes(found):
    events, tiles = found.moved_tiles()
    assert np.all(found.residences.kind[events] == Kind.REFETCH)
    return float((found.program.tile_bytes[tiles] * found.program.tile_partitions[tiles]).sum())


def test_a_buffer_that_is_too_large_is_fetched_in_each_iteration():
    # 8 blocks of 16 KiB: 128 KiB per partition.
    kept = sunk(8, 4096, keep_kib=128 + 32)
    assert not kept.program.tile_sunk.any()
    assert counts(kept)["load"] == 8 + 16
    whole = 8 * 128 * 4096 * 4
    fetched = sunk(8, 4096, keep_kib=127)
    assert counts(fetched)["load"] == 16
    assert moved_bytes(fetched) == 2 * whole


def test_a_buffer_one_kib_smaller_than_the_limit_is_kept():
    # One KiB less of buffer, same limit.
    assert sunk(8, 4096, keep_kib=127).program.tile_sunk.any()
    assert not sunk(8, 4064, keep_kib=127).program.tile_sunk.any()  # 127 KiB
    assert sunk(8, 4065, keep_kib=127).program.tile_sunk.any()


def test_only_what_is_read_of_a_sunk_tile_is_fetched():
    fetched = sunk(8, 4096, piece="0:1024", keep_kib=127)
    assert moved_bytes(fetched) == 2 * 8 * 128 * 1024 * 4


def test_a_computed_buffer_does_not_sink():
    text = SINK.replace("BLOCKS", "8").replace("COLUMNS", "4096").replace("PIECE", ":")
    text = text.replace("nl.load(x[k])", "nl.exp(nl.load(x[k]))")
    x, y = np.zeros((8, 128, 4096), np.float32), np.zeros((2, 8, 128, 4096), np.float32)
    found = compiled(text, x, y, keep_bytes=127 * 1024)
    assert not found.program.tile_sunk.any()
    assert (found.residences.kind == Kind.SAVE).sum() > 0


def test_loads_that_no_loop_can_take_stay_where_they_are():
    text = """
    def kernel(x):
        out = nl.ndarray((128, 8192), dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = nl.exp(a)
        nl.store(out, b)
        return out
    """
    x = np.zeros((128, 8192), np.float32)
    assert not compiled(text, x, keep_bytes=16 * 1024).program.tile_sunk.any()


# --- Placement in PSUM ---

PLACED = """
def kernel(x, y):
    out = nl.ndarray((4, 128, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    OUTSIDE
    for i in nl.affine_range(4):
        a = nl.load(x[i, :, 0:WIDTH])
        b = nl.load(y[i, :, 0:WIDTH])
        t = FIRST
        c = SECOND
        MORE
        nl.store(out[i], c)
    return out
"""


def placed(first="nl.exp(a)", second="nl.add(t, b)", more="pass", width=512, outside="pass"):
    text = (
        PLACED.replace("FIRST", first).replace("SECOND", second).replace("MORE", more)
        .replace("OUTSIDE", outside).replace("WIDTH", str(width))
    )  # fmt: skip
    x = np.zeros((4, 128, 2048), np.float32)
    return len(placed_in_psum(Analysis(traced(text, x, x))))


def test_a_small_result_of_the_scalar_engine_for_one_tensor_tensor_goes_to_psum():
    assert placed() == 1
    assert placed(width=513) == 0  # 4 bytes longer than a bank
    assert placed(second="nl.add(t, b)", more="nl.store(out[i], t)") == 0  # two readers
    assert placed(second="nl.exp(t)") == 0  # not a tensor_tensor
    assert placed(first="nl.add(a, a)") == 0  # the vector engine's
    assert placed(second="nl.add(t, t)") == 1
    assert placed(first="nl.exp(a, dtype=nl.bfloat16)") == 0  # PSUM holds four bytes each


def test_of_two_inputs_one_goes_to_psum():
    assert placed(second="nl.add(t, nl.exp(b))") == 1
    matmul = "nisa.nc_matmul(a[:, 0:128], b)"
    assert placed(second=f"nl.add(t, {matmul})") == 0  # the other input is there already


def test_scale_and_shift_are_the_scalar_engines_and_other_arithmetic_is_not():
    assert placed(first="nl.multiply(a, 2.0)") == 1
    assert placed(first="nl.maximum(a, 2.0)") == 0
    tensor_scalar = "nisa.tensor_scalar(a, op0=nl.multiply, operand0=2.0, engine=nisa.ENGINE)"
    assert placed(first=tensor_scalar.replace("ENGINE", "scalar_engine")) == 1
    assert placed(first=tensor_scalar.replace("ENGINE", "vector_engine")) == 0


def test_a_result_of_another_loop_stays_in_sbuf():
    outside = "t = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)\n    "
    in_loop = outside + "t[...] = nl.exp(nl.load(x[0, :, 0:WIDTH]))"
    assert placed(first="t", outside=in_loop) == 0


def test_psum_holds_two_copies_of_three_tiles_and_one_tile_more():
    chains = [f"t{k} = nl.exp(a)\n        c = nl.add(t{k}, c)" for k in range(6)]
    more = "\n        ".join(chains)
    assert placed(second="nl.multiply(b, b)", first="a", more=more) == 3
    used = "p = nisa.nc_matmul(a[:, 0:128], b)\n        nl.store(out[i], p)\n        " + more
    assert placed(second="nl.multiply(b, b)", first="a", more=used) == 2


def test_a_placed_result_makes_its_reader_twice_as_fast():
    text = PLACED.replace("OUTSIDE", "pass").replace("SECOND", "nl.add(t, b)")
    text = text.replace("WIDTH", "512").replace("MORE", "pass")
    x = np.zeros((4, 128, 2048), np.float32)
    busy = []
    for first in ("nl.exp(a)", "nl.exp(a, dtype=nl.bfloat16)"):
        found = compiled(text.replace("FIRST", first), x, x)
        item = next(i for i in found.items if i.op == "tensor_tensor")
        assert item.engine == Engine.VECTOR
        busy.append(float(item.busy_ns[0]) - 5.0)
    assert busy[1] == pytest.approx(2 * busy[0])
