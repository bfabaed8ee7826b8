"""What the compiler does not do twice, one fault apart: value numbering, merging, dead work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from latency_programs import WHOLE, Step, Tile, compiled, counts, predicted, program_of, programs

from accelopt_simulator.latency.reuse import drop_useless, mergers
from accelopt_simulator.latency.values import equal_tiles

X = np.zeros((4, 128, 512), np.float32)
SBUF = 176 * 1024

LOADS = """
def kernel(x):
    out = nl.ndarray((4, 128, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.load(x[FIRST])
        b = nl.load(x[SECOND])
        nl.store(out[i], nl.add(a, b))
    return out
"""


def loads(first, second):
    text = LOADS.replace("FIRST", first).replace("SECOND", second)
    return counts(compiled(text, X))["load"]


def test_equal_loads_are_one_and_different_ones_are_not():
    assert loads("i, :, 0:256", "i, :, 0:256") == 4
    assert loads("i, :, 0:256", "i, :, 1:257") == 8
    assert loads("i, :, 0:256", "0, :, 0:256") == 4  # the first iteration's is both
    assert loads("0, :, 0:256", "0, :, 0:256") == 1
    assert loads("0, :, 0:256", "1, :, 0:256") == 2
    assert loads("0, :, 0:256", "0, :, 256:512") == 2


def test_a_compiler_without_a_middle_end_repeats_everything():
    text = LOADS.replace("FIRST", "0, :, 0:256").replace("SECOND", "0, :, 0:256")
    assert counts(compiled(text, X, removes_repeats=0))["load"] == 8


def test_loads_of_different_types_of_result_are_not_equal():
    text = LOADS.replace("FIRST", "0, :, 0:256").replace(
        "nl.load(x[SECOND])", "nl.load(x[0, :, 0:256], dtype=nl.bfloat16)"
    )
    assert counts(compiled(text, X))["load"] == 2


TRANSPOSES = """
def kernel(x, y):
    out = nl.ndarray((4, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.load(x[0, :, 0:128])
        t = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        t[...] = TRANSPOSED
        m = nl.add(nl.exp(t), nl.load(y[i, :, 0:128]))
        nl.store(out[i], m)
    return out
"""


@pytest.mark.parametrize(
    "transposed", ["nisa.nc_transpose(a)", "nl.copy(nisa.nc_transpose(a))", "nl.transpose(a)"]
)
def test_transposes_that_a_line_asks_for_are_done_once(transposed):
    text = TRANSPOSES.replace("TRANSPOSED", transposed)
    assert counts(compiled(text, X, X))["nc_transpose"] == 1
    moving = text.replace("x[0, :, 0:128]", "x[i, :, 0:128]")
    assert counts(compiled(moving, X, X))["nc_transpose"] == 4


MATMULS = """
def kernel(x, y):
    out = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.load(x[0, :, 0:128])
        b = nl.load(y[i])
        nl.store(out[i], MATMUL)
    return out
"""


def test_transposes_that_a_matmul_implies_are_repeated_and_load_one_identity():
    implied = compiled(MATMULS.replace("MATMUL", "nl.matmul(a, b)"), X, X)
    assert counts(implied)["nc_transpose"] == 4
    assert counts(implied)["nc_matmul"] == 4
    asked = MATMULS.replace(
        "MATMUL", "nl.matmul(nl.copy(nisa.nc_transpose(a)), b, transpose_x=True)"
    )
    found = counts(compiled(asked, X, X))
    assert found["nc_transpose"] == 1
    assert found["nc_matmul"] == 4
    plain = MATMULS.replace("MATMUL", "nl.matmul(a, b, transpose_x=True)")
    bytes_read = [
        predicted(text, X, X).profile.hbm_read_bytes
        for text in (MATMULS.replace("MATMUL", "nl.matmul(a, b)"), asked, plain)
    ]
    kernel = X.nbytes + 128 * 128 * 4
    assert bytes_read == [kernel + 128 * 128 * 4, kernel, kernel]


IN_PLACE = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.load(x[0])
        UPDATE
        nl.store(out[i], a)
    return out
"""


def test_a_tile_that_is_updated_in_place_is_never_merged():
    plain = counts(compiled(IN_PLACE.replace("UPDATE", "b = nl.exp(a)"), X))
    assert plain == {"load": 1, "store": 4}
    updated = counts(compiled(IN_PLACE.replace("UPDATE", "a[...] = nl.exp(a)"), X))
    assert updated == {"load": 4, "activation": 4, "store": 4}


def test_a_tile_that_is_written_in_pieces_is_merged_when_they_do_not_overlap():
    pieces = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            a = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            a[:, 0:256] = nl.load(x[0, :, 0:256])
            a[:, SECOND:512] = nl.load(x[0, :, SECOND:512])
            nl.store(out[i], nl.exp(a))
        return out
    """
    assert counts(compiled(pieces.replace("SECOND", "256"), X))["load"] == 2
    assert counts(compiled(pieces.replace("SECOND", "255"), X))["load"] == 8


KEPT = """
def kernel(x, y):
    out = nl.ndarray(y.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.LOOP_range(2):
        for j in nl.affine_range(TILES):
            w = nl.load(x[j])
            a = nl.load(y[i, j])
            nl.store(out[i, j], nl.add(nl.exp(w), a))
    return out
"""


@pytest.mark.parametrize(("tiles", "times"), [(11, 1), (12, 2)])
def test_a_hoisted_set_is_kept_up_to_the_capacity_of_sbuf(tiles, times):
    # 16 KiB per tile: 11 of them are the 176 KiB that there are.
    assert SBUF == 11 * 16 * 1024
    x = np.zeros((tiles, 128, 4096), np.float32)
    y = np.zeros((2, tiles, 128, 4096), np.float32)
    text = KEPT.replace("TILES", str(tiles)).replace("LOOP", "affine")
    found = counts(compiled(text, x, y, keep_bytes=1e9))
    assert found["load"] == 2 * tiles + times * tiles
    assert found["activation"] == times * tiles


def test_tiles_that_are_used_again_at_once_need_no_room_for_the_others():
    # The same 12 tiles, the other way round: each is needed twice in a row.
    x = np.zeros((12, 128, 4096), np.float32)
    y = np.zeros((2, 12, 128, 4096), np.float32)
    text = KEPT.replace("TILES", "12").replace("LOOP", "affine")
    outer, inner = "for i in nl.affine_range(2)", "for j in nl.affine_range(12)"
    turned = text.replace(outer, "OUTER").replace(inner, outer).replace("OUTER", inner)
    assert counts(compiled(turned, x, y, keep_bytes=1e9))["load"] == 24 + 12


SEQUENTIAL = """
def kernel(x, y):
    out = nl.ndarray(y.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for k in nl.LOOP_range(4):
        for i in nl.affine_range(2):
            for j in nl.affine_range(4):
                w = nl.load(x[(k + 3 * i) % 4, j])
                nl.store(out[k, i, j], nl.add(w, nl.load(y[k, i, j])))
    return out
"""


@pytest.mark.parametrize(("loop", "loads"), [("sequential", 16), ("affine", 32)])
def test_of_a_sequential_loop_one_iteration_counts(loop, loads):
    # Groups of four tiles of 16 KiB: 0 3, 1 0, 2 1, 3 2. Up to 20 tiles lie between equal ones, but
    # no iteration of the outer loop makes more than eight that are new.
    x = np.zeros((4, 4, 128, 4096), np.float32)
    y = np.zeros((4, 2, 4, 128, 4096), np.float32)
    found = counts(compiled(SEQUENTIAL.replace("LOOP", loop), x, y, keep_bytes=1e9))
    assert found["load"] == 32 + loads


DEAD = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        a[:, 0:LAST] = nl.load(x[i, :, 0:LAST])
        nl.store(out[i], a)
    return out
"""


def test_a_memset_that_is_overwritten_is_removed_and_a_needed_one_is_kept():
    assert counts(compiled(DEAD.replace("LAST", "512"), X)) == {"load": 4, "store": 4}
    found = counts(compiled(DEAD.replace("LAST", "511"), X))
    assert found == {"memset": 4, "load": 4, "store": 4}


def test_results_that_nobody_reads_are_not_computed():
    text = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            a = nl.load(x[i])
            b = nl.exp(nl.add(a, a))
            nl.store(out[i], RESULT)
        return out
    """
    assert counts(compiled(text.replace("RESULT", "a"), X)) == {"load": 4, "store": 4}
    used = counts(compiled(text.replace("RESULT", "b"), X))
    assert used == {"load": 4, "tensor_tensor": 4, "activation": 4, "store": 4}


def test_a_matmul_that_adds_does_not_end_the_need_for_the_earlier_ones():
    text = """
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(4):
            a = nl.load(x[k])
            acc += nisa.nc_matmul(a[:, 0:128], a)
        nl.store(out, nl.copy(acc))
        return out
    """
    assert counts(compiled(text, X))["nc_matmul"] == 4


BROADCAST = """
def kernel(x, g):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        for j in nl.affine_range(2):
            row = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            row[...] = nl.load(g[WHICH, 0:1, 0:512]).broadcast_to((128, 512))
            a = nl.add(nl.load(x[j, i]), row)
            nl.store(out[j, i], nl.multiply(a, row))
    return out
"""


@pytest.mark.parametrize(("which", "times"), [("0", 1), ("j", 8), ("i", 8)])
def test_a_broadcast_is_hoisted_only_when_it_never_changes(which, times):
    x, g = np.zeros((2, 4, 128, 512), np.float32), np.zeros((4, 1, 512), np.float32)
    found = counts(compiled(BROADCAST.replace("WHICH", which), x, g))
    assert found["partition_broadcast"] == times


def test_random_numbers_are_drawn_every_time():
    text = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            nl.store(out[i], CALL)
        return out
    """
    drawn = counts(compiled(text.replace("CALL", "nl.rand((128, 512), dtype=nl.float32)"), X))
    assert drawn["rand"] == 4
    fixed = counts(compiled(text.replace("CALL", "nl.ones((128, 512), dtype=nl.float32)"), X))
    assert fixed == {"memset": 1, "store": 4}


def test_what_a_kernel_wrote_to_hbm_itself_is_read_every_time():
    text = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        kept = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.private_hbm)
        nl.store(kept, nl.load(x[0]))
        for i in nl.affine_range(4):
            nl.store(out[i], nl.exp(nl.load(SOURCE)))
        return out
    """
    assert counts(compiled(text.replace("SOURCE", "kept"), X))["load"] == 5
    assert counts(compiled(text.replace("SOURCE", "x[0]"), X))["load"] == 1


# --- By hand, and at random ---


def contents(steps, tiles):
    """What each tile holds after each instance, by symbolic execution: tile -> text."""
    cells = [["undefined"] * 8 for _ in tiles]

    def overlaps(box):
        return [k for k in range(8) if k >= box[2] // 64 and k <= box[3] // 64]

    after = []
    for at, step in enumerate(steps):
        sources = tuple(
            (tuple(cells[tile][k] for k in overlaps(box)), box[0], box[1])
            for tile, box in step.reads
        )
        for tile, box in step.writes:
            for k in overlaps(box):
                old = () if box[:2] == (0, 127) else (cells[tile][k],)
                cells[tile][k] = (at, sources, box, old)
        after.append([list(cell) for cell in cells])
    return after


@settings(max_examples=60, deadline=None)
@given(programs(most=12))
def test_without_equal_instances_no_two_tiles_are_equal(case):
    # Every instance has its own signature here.
    steps, tiles = case
    found = equal_tiles(program_of(steps, tiles))
    assert found.tolist() == list(range(len(tiles)))


def same(steps, tiles, signatures):
    program = program_of(steps, tiles)
    program.signature[:] = signatures
    return equal_tiles(program).tolist()


def test_tiles_are_equal_when_the_same_is_done_to_equal_tiles():
    tiles = [Tile()] * 4
    load = [Step(writes=((tile, WHOLE),)) for tile in (0, 1)]
    half = (0, 127, 0, 255)
    work = [Step(reads=((tile, WHOLE),), writes=((tile + 2, WHOLE),)) for tile in (0, 1)]
    assert same(load + work, tiles, [7, 7, 8, 8]) == [0, 0, 2, 2]
    assert same(load + work, tiles, [7, 7, 8, 9]) == [0, 0, 2, 3]
    assert same(load + work, tiles, [6, 7, 8, 8]) == [0, 1, 2, 3]
    part = [work[0], Step(reads=((1, half),), writes=((3, WHOLE),))]
    assert same(load + part, tiles, [7, 7, 8, 8]) == [0, 0, 2, 3]
    moved = [work[0], Step(reads=((1, WHOLE),), writes=((3, half),))]
    assert same(load + moved, tiles, [7, 7, 8, 8]) == [0, 0, 2, 3]


def test_the_same_piece_of_equal_tiles_is_equal_and_another_is_not():
    tiles = [Tile()] * 4
    left, right = (0, 127, 0, 255), (0, 127, 256, 511)
    load = [Step(writes=((tile, WHOLE),)) for tile in (0, 1)]

    def work(first, second):
        return [Step(reads=((0, first),), writes=((2, left),)),
                Step(reads=((1, second),), writes=((3, left),))]  # fmt: skip

    assert same(load + work(left, left), tiles, [7, 7, 8, 8])[3] == 2
    assert same(load + work(left, right), tiles, [7, 7, 8, 8])[3] == 3


def test_a_tile_written_after_a_read_or_twice_in_one_place_is_not_settled():
    tiles = [Tile()] * 2
    half, rest = (0, 127, 0, 255), (0, 127, 256, 511)
    write = [Step(writes=((tile, WHOLE),)) for tile in (0, 1)]
    assert same(write, tiles, [7, 7]) == [0, 0]
    twice = [*write, Step(writes=((0, half),)), Step(writes=((1, half),))]
    assert same(twice, tiles, [7, 7, 8, 8]) == [0, 1]
    pieces = [Step(writes=((t, box),)) for t in (0, 1) for box in (half, rest)]
    assert same(pieces, tiles, [7, 8, 7, 8]) == [0, 0]
    assert same(pieces, tiles, [7, 8, 7, 9]) == [0, 1]
    read = [*write, Step(reads=((0, half),)), Step(writes=((0, rest),)), Step(writes=((1, rest),))]
    assert same(read, tiles, [7, 7, 9, 8, 8]) == [0, 1]
    between = [pieces[0], Step(reads=((0, half),)), pieces[1], *pieces[2:]]
    assert same(between, tiles, [7, 9, 8, 7, 8]) == [0, 1]


@settings(max_examples=60, deadline=None)
@given(programs(most=16))
def test_what_is_dropped_is_never_read(case):
    steps, tiles = case
    # The last instance stores the first tile that was written.
    first = steps[0].writes[0][0]
    steps = [*steps, Step(reads=((first, WHOLE),))]
    program = program_of(steps, tiles)
    kept = drop_useless(program).item.tolist()
    assert kept[-1] == len(steps) - 1
    # By following reads back, without looking at boxes: at most these are needed.
    needed, reachable = {first}, []
    for at in range(len(steps) - 2, -1, -1):
        if {tile for tile, _ in steps[at].writes} & needed:
            reachable.append(at)
            needed |= {tile for tile, _ in steps[at].reads}
    assert set(kept[:-1]) <= set(reachable)
    # And what the store sees is the same without the others.
    full = contents(steps, tiles)[-1][first]
    assert contents_of(steps, tiles, kept)[first] == full


def contents_of(steps, tiles, kept):
    only = [step if at in kept else Step() for at, step in enumerate(steps)]
    return contents(only, tiles)[-1]


def test_merging_counts_the_room_of_what_lies_between():
    # a b c a b c: each is used again two others later.
    tiles = [Tile(storage=0)] * 6
    steps = [Step(writes=((tile, WHOLE),)) for tile in range(6)]
    program = program_of(steps, tiles)
    program.signature[:] = [1, 2, 3, 1, 2, 3]
    assert mergers(program, 3072).tolist() == [0, 1, 2, 0, 1, 2]
    assert mergers(program, 3071).tolist() == [0, 1, 2, 3, 4, 5]
    assert mergers(program, 3071, frozenset({0})).tolist() == [0, 1, 2, 0, 1, 2]


def test_merging_counts_what_one_sequential_iteration_keeps():
    # The first tile of the first iteration again in the second: four tiles lie between, but each
    # iteration makes only two.
    tiles = [Tile(storage=0)] * 6
    steps = [Step(writes=((tile, WHOLE),), epoch=tile // 2) for tile in range(6)]
    program = program_of(steps, tiles)
    program.signature[:] = [1, 2, 3, 4, 1, 5]
    assert mergers(program, 2048).tolist() == [0, 1, 2, 3, 0, 5]
    assert mergers(program, 2047).tolist() == [0, 1, 2, 3, 4, 5]
    program.sequential_epoch[:] = 0
    assert mergers(program, 2048).tolist() == [0, 1, 2, 3, 4, 5]
