"""Residence of tiles in SBUF: farthest next use, against a slow reference and by invariants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_programs import (
    WHOLE,
    Step,
    Tile,
    compiled,
    predicted,
    program_of,
    programs,
    room_for_each,
)

from accelopt_simulator.latency.execution import Transfer
from accelopt_simulator.latency.spill import Kind, reside
from accelopt_simulator.trace.schema import Engine, Space


class Reference:
    """Farthest next use, one instance after the other, with lists and dictionaries."""

    def __init__(self, steps, tiles, capacity):
        self.tiles, self.capacity = tiles, capacity
        self.uses = [
            tuple(list(dict.fromkeys(t for t, _ in part)) for part in (s.reads, s.writes))
            for s in steps
        ]
        self.epochs = [s.epoch for s in steps]
        self.held, self.saved = [], set()
        self.defined = {t for t, tile in enumerate(tiles) if tile.sunk}
        self.moves = []
        self.most = 0.0
        for i in range(len(steps)):
            self._run(i)

    def _size(self, tile):
        return self.tiles[tile].size * (0.25 if self.tiles[tile].partitions <= 32 else 1.0)

    def _live(self):
        return sum(self._size(t) for t in self.held)

    def _next(self, tile, i):
        later = range(i + 1, len(self.uses))
        return next((j for j in later if any(tile in part for part in self.uses[j])), None)

    def _wanted(self, i):
        """What is defined and used again from instance `i` on."""
        return sum(self._size(t) for t in self.defined
                   if self.tiles[t].space is Space.SBUF and self._next(t, i - 1) is not None
                   and not self.tiles[t].sunk)  # fmt: skip

    def _save(self, tile):
        if not self.tiles[tile].clean and tile not in self.saved:
            self.moves.append(("save", tile))
            self.saved.add(tile)

    def _drop(self, tile):
        # The last one takes the place that becomes free: of equals the first in place goes.
        at = self.held.index(tile)
        self.held[at] = self.held[-1]
        self.held.pop()

    def _hold(self, tile, i, pinned, next_use):
        if self.tiles[tile].space is not Space.SBUF or tile in self.held:
            return
        while self._live() + self._size(tile) > self.capacity:
            free = [t for t in self.held if t not in pinned]
            if not free:
                break
            victim = max(free, key=lambda t: next_use[t])
            self._save(victim)
            self._drop(victim)
        self.held.append(tile)
        if tile in self.defined:
            self.moves.append(("refetch" if self.tiles[tile].clean else "reload", tile))

    def _run(self, i):
        reads, writes = self.uses[i]
        left = i and self.epochs[i] != self.epochs[i - 1] and self.epochs[i - 1] >= 0
        if left and self._wanted(i) > self.capacity:
            for tile in reversed(self.held):
                self._save(tile)
            self.held = []
        # For those that this instance uses, the use after it counts.
        far = len(self.uses) + 1
        next_use = {t: self._next(t, i - 1) or far for t in self.held}
        for tile in reads:
            self._hold(tile, i, reads + writes, next_use)
        for tile in reads:
            if self._next(tile, i) is None and tile not in writes and tile in self.held:
                self._drop(tile)
        for tile in writes:
            self._hold(tile, i, reads + writes, next_use)
            self.defined.add(tile)
            self.saved.discard(tile)
        self.most = max(self.most, self._live())
        for tile in writes:
            if self._next(tile, i) is None and tile in self.held:
                self._drop(tile)


def moves_of(found):
    names = {Kind.SAVE: "save", Kind.RELOAD: "reload", Kind.REFETCH: "refetch"}
    return [
        (names[kind], int(found.tile[subject]))
        for kind, subject in zip(found.kind, found.subject, strict=True)
        if kind != Kind.INSTANCE
    ]


def replay(steps, tiles, capacity, found):
    """Check the events in order, knowing nothing of how they were chosen."""
    sizes = [t.size * (0.25 if t.partitions <= 32 else 1.0) for t in tiles]
    where: dict[int, int] = {}  # tile -> residence that holds its contents
    on_hbm, dirty, stale = set(), set(), set()
    operand = 0
    done = 0
    for event, (kind, subject) in enumerate(zip(found.kind, found.subject, strict=True)):
        if kind == Kind.SAVE:
            tile = int(found.tile[subject])
            assert where[tile] == subject
            assert tile in dirty, "saved without need"
            on_hbm.add(tile)
            dirty.discard(tile)
        elif kind in (Kind.RELOAD, Kind.REFETCH):
            tile = int(found.tile[subject])
            assert tiles[tile].clean == (kind == Kind.REFETCH)
            assert kind == Kind.REFETCH or tile in on_hbm, "reloaded before it was saved"
            assert tile not in stale, "an older version is reloaded"
            where[tile] = int(subject)
        else:
            assert subject == done, "instances out of order"
            step = steps[done]
            reads = [int(found.operand_residence[operand + k]) for k in range(len(step.reads))]
            for (tile, _), residence in zip(step.reads, reads, strict=True):
                if tiles[tile].space is Space.SBUF:
                    assert where.get(tile) == residence, "read where its value is not"
                assert found.first_event[residence] <= event <= found.last_event[residence]
            operand += len(step.reads)
            for tile, _ in step.writes:
                residence = int(found.operand_residence[operand])
                assert found.first_event[residence] <= event <= found.last_event[residence]
                where[tile] = residence
                dirty.add(tile)
                on_hbm.discard(tile)
                operand += 1
            done += 1
            live = [
                r for r in range(len(found.tile))
                if tiles[found.tile[r]].space is Space.SBUF
                and found.first_event[r] <= event <= found.last_event[r]
                and (found.last_event[r] > event or found.tile[r] in {t for t, _ in step.writes})
            ]  # fmt: skip
            taken = sum(sizes[found.tile[r]] for r in live)
            assert taken <= capacity + 1e-9
            # A tile has one residence at a time.
            assert len({int(found.tile[r]) for r in live}) == len(live)
    assert done == len(steps)


@settings(max_examples=100, deadline=None)
@given(programs(), st.sampled_from([1024.0, 2048.0, 3072.0, 4096.0, 1e9]))
def test_tiles_stay_as_the_slow_reference_says(case, capacity):
    steps, tiles = case
    capacity = room_for_each(steps, tiles, capacity)
    found = reside(program_of(steps, tiles), capacity)
    reference = Reference(steps, tiles, capacity)
    assert moves_of(found) == reference.moves
    replay(steps, tiles, capacity, found)


@settings(max_examples=60, deadline=None)
@given(programs(loops=True), st.sampled_from([1024.0, 2048.0, 3072.0]))
def test_a_sequential_loop_flushes_as_the_slow_reference_says(case, capacity):
    steps, tiles = case
    capacity = room_for_each(steps, tiles, capacity)
    found = reside(program_of(steps, tiles), capacity)
    assert moves_of(found) == Reference(steps, tiles, capacity).moves
    replay(steps, tiles, capacity, found)


@settings(max_examples=60, deadline=None)
@given(programs(sunk=True, loops=True), st.sampled_from([1024.0, 2048.0, 3072.0]))
def test_sunk_tiles_are_fetched_as_the_slow_reference_says(case, capacity):
    steps, tiles = case
    capacity = room_for_each(steps, tiles, capacity)
    found = reside(program_of(steps, tiles), capacity)
    assert moves_of(found) == Reference(steps, tiles, capacity).moves
    replay(steps, tiles, capacity, found)


@settings(max_examples=50, deadline=None)
@given(programs(spaces=(Space.SBUF, Space.PSUM, Space.HBM)), st.sampled_from([1024.0, 2048.0]))
def test_only_sbuf_is_limited(case, capacity):
    steps, tiles = case
    capacity = room_for_each(steps, tiles, capacity)
    found = reside(program_of(steps, tiles), capacity)
    assert moves_of(found) == Reference(steps, tiles, capacity).moves
    assert all(tiles[tile].space is Space.SBUF for _, tile in moves_of(found))


def write(tile, **kw):
    return Step(writes=((tile, WHOLE),), **kw)


def read(*tiles, **kw):
    return Step(reads=tuple((tile, WHOLE) for tile in tiles), **kw)


def test_the_tile_that_is_used_last_goes():
    tiles = [Tile(), Tile(), Tile()]
    steps = [write(0), write(1), write(2), read(1), read(2), read(0)]
    assert moves_of(reside(program_of(steps, tiles), 3072)) == []
    assert moves_of(reside(program_of(steps, tiles), 2048)) == [("save", 0), ("reload", 0)]
    swapped = [write(0), write(1), write(2), read(0), read(2), read(1)]
    assert moves_of(reside(program_of(swapped, tiles), 2048)) == [("save", 1), ("reload", 1)]


def test_what_an_instance_uses_does_not_go():
    # Instance 2 reads tile 0, which is used last of all, and needs room for tile 2.
    tiles = [Tile(), Tile(), Tile()]
    update = Step(reads=((0, WHOLE),), writes=((2, WHOLE),))
    steps = [write(0), write(1), update, read(1), read(2), read(0)]
    found = moves_of(reside(program_of(steps, tiles), 2048))
    assert found == [("save", 1), ("save", 0), ("reload", 1), ("reload", 0)]


def test_a_saved_tile_is_saved_again_only_when_it_was_written_since():
    tiles = [Tile(), Tile(size=2048), Tile(size=2048)]
    twice = [write(0), write(1), read(1), read(0), write(2), read(2), read(0)]
    found = moves_of(reside(program_of(twice, tiles), 2048))
    assert found == [("save", 0), ("reload", 0), ("reload", 0)]
    update = [*twice[:4], Step(reads=((0, WHOLE),), writes=((0, WHOLE),)), *twice[4:]]
    found = moves_of(reside(program_of(update, tiles), 2048))
    assert found == [("save", 0), ("reload", 0), ("save", 0), ("reload", 0)]


def test_loaded_tiles_are_fetched_again_and_never_saved():
    tiles = [Tile(clean=True), Tile(size=2048)]
    load = write(0, engine=Engine.DMA, load=True)
    steps = [load, write(1), read(1), read(0)]
    assert moves_of(reside(program_of(steps, tiles), 2048)) == [("refetch", 0)]


def test_a_sunk_tile_is_fetched_where_it_is_first_used():
    tiles = [Tile(clean=True, sunk=True), Tile()]
    assert moves_of(reside(program_of([write(1), read(0, 1)], tiles), 4096)) == [("refetch", 0)]


def test_a_sequential_loop_flushes_only_what_does_not_fit():
    tiles = [Tile(), Tile(), Tile(clean=True)]
    load = write(2, engine=Engine.DMA, load=True, epoch=0)
    steps = [load, write(0, epoch=0), write(1, epoch=0), read(0, epoch=1), read(1, 2, epoch=1)]
    assert moves_of(reside(program_of(steps, tiles), 3072)) == []
    found = moves_of(reside(program_of(steps, tiles), 2048))
    saves = [("save", 1), ("save", 0)]
    assert sorted(found[:2]) == sorted(saves)
    assert found[2:] == [("reload", 0), ("reload", 1), ("refetch", 2)]
    # The same outside a sequential loop: one of the three does not fit, and it is the clean one.
    plain = [replace(step, epoch=-1) for step in steps]
    assert moves_of(reside(program_of(plain, tiles), 2048)) == [("refetch", 2)]


def test_small_tiles_take_a_quarter_of_the_partitions():
    steps = [write(0), write(1), write(2), write(3), read(0), read(1), read(2), read(3)]
    for partitions, fits in ((32, True), (33, False)):
        tiles = [Tile(partitions=partitions)] * 4
        assert (moves_of(reside(program_of(steps, tiles), 1024)) == []) is fits


def test_a_tile_read_twice_by_its_last_instance_has_one_residence():
    found = reside(program_of([write(0), read(0, 0)], [Tile()]), 1024)
    assert len(found.tile) == 1
    assert found.operand_residence.tolist() == [0, 0, 0]


def test_a_sunk_tile_that_dies_does_not_make_room_for_what_is_carried_over():
    # Three tiles of 1 KiB are carried over an iteration that also used a sunk one: they don't fit.
    tiles = [Tile(), Tile(), Tile(), Tile(clean=True, sunk=True)]
    steps = [write(0, epoch=0), write(1, epoch=0), write(2, epoch=0), read(3, epoch=0),
             read(0, epoch=1), read(1, epoch=1), read(2, epoch=1)]  # fmt: skip
    found = moves_of(reside(program_of(steps, tiles), 2560))
    assert {tile for move, tile in found if move == "save"} == {0, 1, 2}
    assert found == Reference(steps, tiles, 2560).moves


SPILLING = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    kept = nl.ndarray((TILES, nl.par_dim(128), 4096), dtype=nl.float32, buffer=nl.sbuf, name="kept")
    for i in nl.affine_range(TILES):
        kept[i, :, :] = nl.exp(nl.load(x[i]))
    for i in nl.affine_range(TILES):
        nl.store(out[i], kept[i, :, :])
    return out
"""


@pytest.mark.parametrize(("tiles", "saved"), [(8, False), (12, True)])
def test_a_kernel_that_does_not_fit_moves_what_its_counters_and_names_say(tiles, saved):
    x = np.zeros((tiles, 128, 4096), np.float32)
    found = predicted(SPILLING.replace("TILES", str(tiles)), x)
    profile = found.profile
    assert (profile.spill_save_bytes > 0) is saved
    assert profile.spill_save_bytes == profile.spill_reload_bytes
    run = found.execution
    moved = {kind: run.bytes[run.transfer == kind].sum() for kind in Transfer}
    assert moved[Transfer.SPILL_SAVE] == profile.spill_save_bytes
    assert moved[Transfer.SPILL_RELOAD] == profile.spill_reload_bytes
    assert moved[Transfer.LOAD] == moved[Transfer.STORE] == x.nbytes
    # Saves and reloads cost what other transfers of their size do.
    t, transfers = found.timing, int((run.transfer != Transfer.NONE).sum())
    per_engine = sum(moved.values()) / t.dma_engine_bytes_per_ns + transfers * 128 * t.dma_row_ns
    assert found.busy_us["dma"] == pytest.approx(per_engine / t.dma_engines / 1e3)
    assert profile.hbm_read_bytes == x.nbytes + profile.spill_reload_bytes
    assert profile.hbm_write_bytes == x.nbytes + profile.spill_save_bytes
    if saved:
        assert found.spills == {"kept": (profile.spill_save_bytes, profile.spill_reload_bytes)}
        assert any("do not fit SBUF" in note for note in found.notes)
        labels = [label for label, _ in found.what_if()]
        assert "no spills" in labels
    else:
        assert found.spills == {}


def test_every_event_of_a_compiled_kernel_is_in_order():
    x = np.zeros((12, 128, 4096), np.float32)
    found = compiled(SPILLING.replace("TILES", "12"), x)
    residences = found.residences
    subjects = residences.subject[residences.kind == Kind.INSTANCE]
    assert subjects.tolist() == list(range(len(found.program)))
    assert np.all(residences.first_event <= residences.last_event)
