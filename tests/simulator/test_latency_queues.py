"""What events wait for, and when the queues run them, against slow references and by invariants."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_programs import WHOLE, Step, Tile, compiled, program_of, programs, room_for_each

from accelopt_simulator.hardware import TRN1_TIMING
from accelopt_simulator.latency.compiled import durations, run
from accelopt_simulator.latency.execution import Wait
from accelopt_simulator.latency.queues import run_queues
from accelopt_simulator.latency.spill import Kind, reside
from accelopt_simulator.latency.waits import Waits, find_waits
from accelopt_simulator.trace.schema import Engine, Space

BANK = 2048


# --- Waits ---


def engines_of(program, residences):
    engine = np.full(len(residences.kind), int(Engine.DMA), dtype=np.int64)
    mine = residences.kind == Kind.INSTANCE
    engine[mine] = program.engine[residences.subject[mine]]
    return engine


def waits_of(steps, tiles, *, keep=1e9, sbuf=1e9, banks=8, copies=10**6, ring=0, barrier=False):
    program = program_of(steps, tiles)
    residences = reside(program, keep)
    found = find_waits(
        program,
        residences,
        engines_of(program, residences),
        sbuf_bytes=sbuf,
        psum_banks=banks,
        psum_bank_bytes=BANK,
        copies=copies,
        ring_bytes=ring,
        sequential_barrier=barrier,
    )
    return residences, pairs(found)


def pairs(waits):
    """Per event, the events that it waits for and whether for their value."""
    return [
        {
            int(before): bool(value)
            for before, value in zip(waits.before[a:b], waits.value[a:b], strict=True)
        }
        for a, b in zip(waits.start[:-1], waits.start[1:], strict=True)
    ]


def meets(a, b):
    return a[0] <= b[1] and b[0] <= a[1] and a[2] <= b[3] and b[2] <= a[3]


def covers(a, b):
    return a[0] <= b[0] and b[1] <= a[1] and a[2] <= b[2] and b[3] <= a[3]


class Reference:
    """The rules one by one, each from the whole history."""

    def __init__(self, steps, tiles, residences, *, sbuf, banks, copies, ring, barrier):
        self.steps, self.tiles, self.res = steps, tiles, residences
        self.copies, self.ring = copies, ring
        self.history: list[list[tuple]] = [[] for _ in residences.tile]  # (event, write, box)
        self.users: list[dict] = [{} for _ in residences.tile]  # engine -> its last use
        self.free = {Space.SBUF: float(sbuf), Space.PSUM: float(banks)}
        self.left = [self._room(r) for r in range(len(residences.tile))]
        self.begun: set[int] = set()
        self.saved: dict[int, int] = {}
        self.operand = 0
        self.computing: dict[Engine, int] = {}
        self.barrier: dict[Engine, int] = {}
        self.epoch = -1
        self.use_barrier = barrier
        self.waits = [self._event(e) for e in range(len(residences.kind))]

    def _tile(self, r):
        return self.tiles[self.res.tile[r]]

    def _taken(self, r):
        tile = self._tile(r)
        quarter = tile.space is Space.SBUF and tile.partitions <= 32
        return tile.size * (0.25 if quarter else 1.0)

    def _room(self, r):
        taken = self._taken(r)
        return taken if self._tile(r).space is Space.SBUF else float(np.ceil(taken / BANK))

    def _replaced(self, r):
        """The residence of the same tensor, a ring's length earlier."""

        def stored(q):
            tile = int(self.res.tile[q])
            return tile if self.tiles[tile].storage < 0 else self.tiles[tile].storage

        def plain(q):
            return self.res.kind[self.res.first_event[q]] not in (Kind.RELOAD, Kind.REFETCH)

        if not plain(r):
            return None
        ring = [q for q in range(len(self.left)) if stored(q) == stored(r) and plain(q)]
        ring.sort(key=lambda q: self.res.first_event[q])
        live = max(
            sum(1 for q in ring if self.res.first_event[q] <= self.res.first_event[p]
                and self.res.last_event[q] >= self.res.first_event[p])
            for p in ring
        )  # fmt: skip
        tile = self._tile(ring[0])
        copies = self.copies if tile.rotates else 1
        if tile.rotates and tile.space is Space.SBUF:
            copies = int(copies * max(1.0, self.ring / max(self._taken(ring[0]), 1.0)))
        at = ring.index(r) - live * copies
        return ring[at] if at >= 0 else None

    def _begin(self, r, e, waits):
        self.begun.add(r)
        space = self._tile(r).space
        if space is not Space.HBM:
            take = min(self.free[space], self._room(r))
            self.free[space] -= take
            want = self._room(r) - take
            ended = [q for q in range(len(self.left)) if self._tile(q).space is space]
            ended.sort(key=lambda q: self.res.last_event[q])
            for q in ended:
                if want <= 1e-9 or self.res.last_event[q] >= e:
                    break
                if self.left[q] > 1e-9:
                    take = min(self.left[q], want)
                    self.left[q] -= take
                    want -= take
                    waits += [(user, False) for user in self.users[q].values()]
        other = self._replaced(r)
        if other is not None:
            waits += [(user, False) for user in self.users[other].values()]

    def _current(self, r, *, write):
        """Uses that no later write covers: what they wait for comes before the write."""
        uses = self.history[r]
        return [
            (event, box)
            for at, (event, wrote, box) in enumerate(uses)
            if wrote == write
            and not any(w and covers(b, box) for _, w, b in uses[at + 1 :])
        ]  # fmt: skip

    def _event(self, e):
        kind, subject = Kind(self.res.kind[e]), int(self.res.subject[e])
        waits: list[tuple[int, bool]] = []
        if kind is not Kind.INSTANCE:
            if kind is Kind.SAVE:
                waits += [(event, True) for event, _ in self._current(subject, write=True)]
                self.saved[int(self.res.tile[subject])] = e
            else:
                waits += [(event, False) for event in self.barrier.values()]
                self._begin(subject, e, waits)
                if kind is Kind.RELOAD:
                    waits.append((self.saved[int(self.res.tile[subject])], True))
                # The whole tile is there from now on, and later writes do not undo that.
                self.history[subject].append((e, True, (-(10**9), 10**9, -(10**9), 10**9)))
            self.users[subject][Engine.DMA] = e
            return self._once(waits, e)
        step = self.steps[subject]
        if step.epoch != self.epoch:
            self.epoch = step.epoch
            on = self.use_barrier and step.epoch >= 0
            self.barrier = dict(self.computing) if on else {}
            self.computing = {}
        if step.load:
            waits += [(event, False) for event in self.barrier.values()]
        elif step.engine is not Engine.DMA and step.epoch >= 0 and not step.added:
            self.computing[step.engine] = e
        operands = [(False, box) for _, box in step.reads] + [(True, box) for _, box in step.writes]
        mine = []
        for write, box in operands:
            r = int(self.res.operand_residence[self.operand])
            self.operand += 1
            if r not in self.begun and self.res.first_event[r] == e:
                self._begin(r, e, waits)
            mine.append((r, write, box))
        for r, write, box in mine:
            waits += [
                (event, not write) for event, b in self._current(r, write=True) if meets(b, box)
            ]
            if write:
                waits += [
                    (event, False) for event, b in self._current(r, write=False) if meets(b, box)
                ]
        for r, write, box in mine:
            self.history[r].append((e, write, box))
            self.users[r][step.engine] = e
        return self._once(waits, e)

    @staticmethod
    def _once(waits, e):
        found: dict[int, bool] = {}
        for event, value in waits:
            if event < e:
                found[event] = found.get(event, False) or value
        return found


@settings(max_examples=60, deadline=None)
@given(programs(most=14))
def test_values_and_overwritten_bytes_are_waited_for(case):
    steps, tiles = case
    rules = {"sbuf": 1e9, "banks": 8, "copies": 10**6, "ring": 0, "barrier": False}
    # Room for everything, and more copies of every tensor than residences.
    tiles = [replace(tile, rotates=True) for tile in tiles]
    residences, found = waits_of(steps, tiles)
    assert found == Reference(steps, tiles, residences, **rules).waits


@settings(max_examples=60, deadline=None)
@given(
    programs(most=20, spaces=(Space.SBUF, Space.PSUM)),
    st.sampled_from([1024.0, 2048.0, 4096.0]),
    st.sampled_from([3, 8]),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 1024]),
)
def test_rooms_and_rings_are_waited_for(case, keep, banks, copies, ring):
    steps, tiles = case
    keep = room_for_each(steps, tiles, keep)
    rules = {"sbuf": keep + 512, "banks": banks, "copies": copies, "ring": ring, "barrier": False}
    residences, found = waits_of(steps, tiles, keep=keep, **rules)
    assert found == Reference(steps, tiles, residences, **rules).waits


@settings(max_examples=60, deadline=None)
@given(programs(most=20, loops=True), st.booleans())
def test_loads_of_the_next_sequential_iteration_wait_for_the_computing_of_this_one(case, barrier):
    steps, tiles = case
    rules = {"sbuf": 4096.0, "banks": 8, "copies": 2, "ring": 0, "barrier": barrier}
    keep = room_for_each(steps, tiles, 1024.0)
    residences, found = waits_of(steps, tiles, keep=keep, **rules)
    assert found == Reference(steps, tiles, residences, **rules).waits


def write(tile, box=WHOLE, **kw):
    return Step(writes=((tile, box),), **kw)


def read(*tiles, box=WHOLE, **kw):
    return Step(reads=tuple((tile, box) for tile in tiles), **kw)


def test_a_read_waits_for_the_write_of_its_part_alone():
    left, right = (0, 127, 0, 255), (0, 127, 256, 511)
    _, found = waits_of([write(0, left), write(0, right), read(0, box=left)], [Tile()])
    assert found == [{}, {}, {0: True}]


def test_a_tile_of_thousands_of_pieces_is_waited_for_piece_by_piece():
    # More pieces than any fixed table holds; the last instance reads them all, several times.
    count = 5000
    pieces = [write(0, (0, 127, k, k)) for k in range(count)]
    whole = (0, 127, 0, count - 1)
    steps = [*pieces, Step(reads=((0, whole),) * 3, writes=((1, whole),))]
    _, found = waits_of(steps, [Tile(), Tile()])
    assert found[-1] == dict.fromkeys(range(count), True)


def test_a_save_of_a_tile_of_thousands_of_pieces_waits_for_all_of_them():
    count = 5000
    pieces = [write(0, (0, 127, k, k)) for k in range(count)]
    steps = [*pieces, write(1), read(1), read(0)]
    residences, found = waits_of(steps, [Tile(), Tile()], keep=1024)
    save = int(np.flatnonzero(residences.kind == Kind.SAVE)[0])
    assert found[save] == dict.fromkeys(range(count), True)


def test_a_read_waits_for_the_value_that_comes_back():
    steps = [write(0), write(1), read(1), read(0)]
    residences, found = waits_of(steps, [Tile(), Tile()], keep=1024)
    names = [Kind(kind) for kind in residences.kind]
    reload = names.index(Kind.RELOAD)
    save = names.index(Kind.SAVE)
    assert found[reload] == {save: True}
    assert found[-1] == {reload: True}
    # A piece that is written first needs the rest of the tile, but not its value.
    half = (0, 127, 0, 255)
    residences, found = waits_of([*steps[:3], write(0, half), read(0)], [Tile(), Tile()], keep=1024)
    assert found[-2] == {reload: False}
    assert found[-1] == {reload: True, len(found) - 2: True}


def test_an_instruction_that_starts_many_residences_waits_for_all_whose_room_it_takes():
    small = [Tile(size=8.0) for _ in range(64)]
    steps = [step for k in range(64) for step in (write(k), read(k))]
    steps.append(write(64))
    _, found = waits_of(steps, [*small, Tile(size=512.0)], sbuf=512.0)
    assert set(found[-1]) == {2 * k + 1 for k in range(64)}


def test_two_copies_of_a_rotating_tile_overlap_and_one_does_not():
    tiles = [Tile(storage=0, rotates=True) for _ in range(3)]
    steps = [step for k in range(3) for step in (write(k), read(k))]
    assert waits_of(steps, tiles, copies=2)[1] == [
        {},
        {0: True},
        {},
        {2: True},
        {1: False},
        {4: True},
    ]
    once = waits_of(steps, [Tile(storage=0) for _ in tiles], copies=2)[1]
    assert once == [{}, {0: True}, {1: False}, {2: True}, {3: False}, {4: True}]
    # Small tiles get more copies.
    assert waits_of(steps, tiles, copies=1)[1][2] == {1: False}
    assert waits_of(steps, tiles, copies=1, ring=2048)[1][2] == {}


# --- Queues ---


PORTS = {Engine.VECTOR: (0, 1, 2, 3), Engine.SCALAR: (0, 1), Engine.GPSIMD: (0, 2)}
"""Ports that an engine may share: 1 = PSUM, 2 = SBUF."""


@st.composite
def graphs(draw):
    """(engine, ports, busy, latency, waits) of a few events."""
    count = draw(st.integers(1, 30))
    engine = draw(
        st.lists(
            st.sampled_from(
                [Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.DMA]
            ),
            min_size=count,
            max_size=count,
        )
    )
    ports = [draw(st.sampled_from(PORTS.get(e, (0,)))) for e in engine]
    whole = st.integers(0, 9).map(float)
    busy = draw(st.lists(whole, min_size=count, max_size=count))
    latency = draw(st.lists(whole, min_size=count, max_size=count))
    rows = []
    for i in range(count):
        before = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        rows.append({b: draw(st.booleans()) for b in sorted(before)})
    return engine, ports, busy, latency, rows


def queues(case, window, dma_window, hop):
    engine, ports, busy, latency, rows = case
    waits = Waits(
        start=np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64),
        before=np.array([b for row in rows for b in row], dtype=np.int64),
        value=np.array([v for row in rows for v in row.values()], dtype=np.bool_),
    )
    return run_queues(
        np.array(engine, dtype=np.int64), np.array(ports, dtype=np.int64),
        np.array(busy), np.array(latency), waits,
        window=window, dma_window=dma_window, semaphore_ns=hop,
    )  # fmt: skip


def slow_queues(case, window, dma_window, hop):
    """Start times: look at all events again before each decision."""
    engine, ports, busy, latency, rows = case
    count = len(engine)
    start: dict[int, float] = {}
    end: dict[int, float] = {}
    free = dict.fromkeys(sorted({int(e) for e in engine}), 0.0)
    groups = [
        [i for i in range(count) if engine[i] is not Engine.DMA],
        [i for i in range(count) if engine[i] is Engine.DMA],
    ]

    def opened(i):
        """When the window reaches an event; None while it does not."""
        group = groups[engine[i] is Engine.DMA]
        ahead = group[
            : max(0, group.index(i) - (dma_window, window)[engine[i] is not Engine.DMA] + 1)
        ]
        if any(k not in start for k in ahead):
            return None
        return max((end[k] for k in ahead), default=0.0)

    def arrival(i, k, value):
        extra = latency[k] if value or engine[k] is Engine.DMA else 0.0
        return end[k] + extra + (hop if engine[i] is not engine[k] else 0.0)

    def ready(i):
        begin = opened(i)
        if begin is None or any(k not in start for k in rows[i]):
            return None
        return max([begin, *(arrival(i, k, value) for k, value in rows[i].items())])

    held = {1: (None, 0.0), 2: (None, 0.0)}

    def ported(when, queue, i):
        """Not before another engine has let go of a port that the event needs."""
        others = [until for port, (user, until) in held.items()
                  if ports[i] & port and user != queue]  # fmt: skip
        return max([when, *others])

    while len(start) < count:
        choices = []
        for queue in free:
            times = {i: ready(i) for i in range(count) if i not in start and engine[i] == queue}
            times = {i: t for i, t in times.items() if t is not None}
            due = [i for i, t in times.items() if t <= free[queue]]
            if due:
                choices.append((ported(free[queue], queue, min(due)), queue, min(due)))
            elif times:
                first = min(times, key=lambda i: (times[i], i))
                choices.append((ported(times[first], queue, first), queue, first))
        when, queue, event = min(choices)
        start[event], end[event] = when, when + busy[event]
        free[queue] = end[event]
        for port in (1, 2):
            if ports[event] & port:
                held[port] = (queue, end[event])
    return [start[i] for i in range(count)]


WINDOWS = st.tuples(st.sampled_from([1, 2, 5, 100]), st.sampled_from([1, 3, 100]))


@settings(max_examples=150, deadline=None)
@given(graphs(), WINDOWS, st.sampled_from([0.0, 2.0]))
def test_queues_start_events_when_the_slow_simulator_does(case, windows, hop):
    found = queues(case, *windows, hop)
    assert found.start.tolist() == slow_queues(case, *windows, hop)


@settings(max_examples=60, deadline=None)
@given(graphs(), WINDOWS, st.sampled_from([0.0, 2.0]))
def test_no_event_starts_early_and_no_engine_runs_two(case, windows, hop):
    engine, ports, busy, latency, rows = case
    found = queues(case, *windows, hop)
    count = len(engine)
    assert np.array_equal(found.end, found.start + busy)
    for i, row in enumerate(rows):
        for k, value in row.items():
            extra = latency[k] if value or engine[k] is Engine.DMA else 0.0
            hops = hop if engine[i] is not engine[k] else 0.0
            assert found.start[i] >= found.end[k] + extra + hops
            ready = found.data_ready[i] if value else found.space_ready[i]
            assert ready >= found.end[k] + extra + hops
    for queue in set(engine):
        mine = sorted((found.start[i], found.end[i]) for i in range(count) if engine[i] is queue)
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
    for port in (1, 2):
        mine = sorted((found.start[i], found.end[i]) for i in range(count) if ports[i] & port)
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
    for dma, width in ((False, windows[0]), (True, windows[1])):
        group = [i for i in range(count) if (engine[i] is Engine.DMA) == dma]
        for at, i in enumerate(group):
            ahead = group[: max(0, at - width + 1)]
            assert all(found.start[i] >= found.end[k] for k in ahead)
    # What an event waited for last was there when it started, not later.
    for i in range(count):
        if found.cause[i] < 0:
            assert found.start[i] == 0 or found.wait[i] != Wait.DATA
            continue
        assert found.end[found.cause[i]] <= found.start[i]
        if found.wait[i] == Wait.DATA:
            assert found.start[i] == found.data_ready[i]
            assert rows[i][int(found.cause[i])] is True
        if found.wait[i] == Wait.SPACE:
            assert found.start[i] == found.space_ready[i]
            assert rows[i][int(found.cause[i])] is False


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from([1, 2, 5]))
def test_of_one_engine_in_order_a_wider_window_is_never_slower(case, window):
    # Without a choice between engines nothing is lost by looking further ahead.
    engine, ports, busy, latency, _ = case
    engine = [Engine.VECTOR] * len(engine)
    free = (engine, ports, busy, latency, [{} for _ in engine])
    assert queues(free, window, 1, 0.0).end.max() == sum(busy)


def test_the_oldest_ready_event_goes_first_and_a_later_one_may_overtake_a_waiting_one():
    v, d = Engine.VECTOR, Engine.DMA
    # 1 waits for the DMA; 2 does not and overtakes it, if the window lets it.
    case = (
        [d, v, v, v],
        [0] * 4,
        [10.0, 1.0, 1.0, 1.0],
        [5.0, 0.0, 0.0, 0.0],
        [{}, {0: True}, {}, {}],
    )
    assert queues(case, 3, 1, 0.0).start.tolist() == [0, 15, 0, 1]
    assert queues(case, 2, 1, 0.0).start.tolist() == [0, 15, 0, 16]
    assert queues(case, 1, 1, 0.0).start.tolist() == [0, 15, 16, 17]


def test_a_room_is_free_when_its_users_end_and_after_a_dma_has_landed():
    v, s, d = Engine.VECTOR, Engine.SCALAR, Engine.DMA
    case = ([v, s], [0, 0], [4.0, 1.0], [7.0, 0.0], [{}, {0: False}])
    assert queues(case, 5, 5, 2.0).start.tolist() == [0, 6]
    case = ([v, s], [0, 0], [4.0, 1.0], [7.0, 0.0], [{}, {0: True}])
    assert queues(case, 5, 5, 2.0).start.tolist() == [0, 13]
    case = ([d, s], [0, 0], [4.0, 1.0], [7.0, 0.0], [{}, {0: False}])
    assert queues(case, 5, 5, 2.0).start.tolist() == [0, 13]


def test_two_engines_take_turns_at_a_port_and_one_goes_on():
    v, s, g = Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD
    free: list[dict] = [{}, {}, {}]

    def starts(engines, ports):
        return queues((engines, ports, [4.0] * 3, [0.0] * 3, free), 5, 5, 2.0).start.tolist()

    assert starts([v, s, v], [0, 0, 0]) == [0, 0, 4]
    assert starts([v, s, v], [1, 1, 1]) == [4, 0, 8]
    assert starts([v, s, v], [2, 1, 2]) == [0, 0, 4]
    assert starts([v, g, v], [2, 2, 2]) == [4, 0, 8]
    assert starts([v, g, v], [1, 2, 1]) == [0, 0, 4]
    assert starts([v, g, s], [3, 2, 1]) == [4, 0, 0]


PORTED = """
def kernel(x, y):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(16):
        a = nl.load(x[i])
        for k in nl.static_range(6):
            VECTOR
            OTHER
        nl.store(out[i], a)
    return out
"""


@pytest.mark.parametrize("port_exclusion", [0, 1])
def test_vector_and_gpsimd_work_in_sbuf_takes_turns_on_trn1(port_exclusion):
    x = np.zeros((16, 128, 512), np.float32)
    vector = "a[:, 0:256] = nl.add(a[:, 0:256], a[:, 0:256])"
    gpsimd = "a[:, 256:512] = nisa.tensor_copy(a[:, 256:512], engine=nisa.gpsimd_engine)"
    scalar = "a[:, 256:512] = nl.exp(a[:, 256:512])"

    def latency(other):
        text = PORTED.replace("VECTOR", vector).replace("OTHER", other)
        found = compiled(text, x, x, port_exclusion=port_exclusion)
        busy, latency = durations(found, TRN1_TIMING)
        schedule = run(found, busy, latency, TRN1_TIMING)
        mine = [(schedule.start[e], schedule.end[e]) for e in np.flatnonzero(found.ports & 2)]
        mine.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
        return schedule.end.max()

    alone = latency("pass")
    assert latency(scalar) < 1.2 * alone
    assert (latency(gpsimd) > 1.5 * alone) == bool(port_exclusion)


# --- A kernel from end to end ---

ROUNDS = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.LOOP_range(16):
        a = nl.load(x[i])
        b = nl.exp(a)
        nl.store(out[i], nl.multiply(b, b))
    return out
"""


@pytest.mark.parametrize("loop", ["affine", "sequential"])
def test_a_kernel_keeps_to_the_memory_that_there_is(loop):
    # 24 KiB per iteration: without a limit all 16 loads would run at once.
    x = np.zeros((16, 128, 2048), np.float32)
    found = compiled(ROUNDS.replace("LOOP", loop), x)
    busy, latency = durations(found, TRN1_TIMING)
    schedule = run(found, busy, latency, TRN1_TIMING)
    res = found.residences
    in_sbuf = found.program.tile_space[res.tile] == Space.SBUF
    begin, end = schedule.start[res.first_event], schedule.end[res.last_event]
    for at in begin[in_sbuf]:
        live = in_sbuf & (begin <= at) & (end > at)
        assert found.program.tile_bytes[res.tile[live]].sum() <= 176 * 1024
    loads = schedule.start[np.flatnonzero(found.engine == Engine.DMA)[::2]]
    computed = schedule.end[found.engine == Engine.VECTOR]
    assert len(loads) == len(computed) == 16
    assert np.all(loads[1:] >= computed[:-1]) == (loop == "sequential")
