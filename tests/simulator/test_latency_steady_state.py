"""Long loops: extrapolated from a stretch when they are steady, replayed in full when not."""

from __future__ import annotations

import numpy as np
import pytest
from latency_programs import predicted

from accelopt_simulator.latency import steady_state

LONG = """
def kernel(x, w):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    g = nl.load(w)
    for i in nl.LOOP_range(TRIPS):
        for j in nl.INNER:
            a = nl.load(x[i, :, nl.ds(512 * j, 512)]MASK)
            p = nisa.nc_matmul(g, a)
            b = nl.add(nl.exp(a), p)
            nl.store(out[i, :, nl.ds(512 * j, 512)], bMASK)
    return out
"""


def long(trips, *, loop="affine", inner="affine_range(4)", mask=""):
    text = LONG.replace("LOOP", loop).replace("TRIPS", str(trips)).replace("INNER", inner)
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (trips, 128, 2048), (0, 0, 0))
    return text.replace("MASK", mask), x, np.zeros((128, 128), np.float32)


def both(monkeypatch, case, limit=2_000, stretch=600):
    """The extrapolated prediction and the full one."""
    monkeypatch.setattr(steady_state, "STRETCH", stretch)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", limit)
    short = predicted(*case)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 10**9)
    full = predicted(*case)
    assert full.scale.repeats == 1
    return short, full


@pytest.mark.parametrize("loop", ["affine", "sequential"])
def test_a_steady_loop_is_extrapolated_with_exact_counters(monkeypatch, loop):
    short, full = both(monkeypatch, long(900, loop=loop))
    assert short.latency_us == pytest.approx(full.latency_us, rel=0.01)
    for name, value in full.profile.model_dump(exclude_none=True, exclude={"other"}).items():
        exact = name.endswith(("_bytes", "_flops"))
        tolerance = {"rel": 1e-12} if exact else {"rel": 0.02, "abs": 0.002}
        assert getattr(short.profile, name) == pytest.approx(value, **tolerance), name
    for engine, us in full.busy_us.items():
        assert short.busy_us[engine] == pytest.approx(us, rel=0.01, abs=1e-9), engine
    # 20 instances per iteration, three stretches of 600, and the load in front.
    instances = 900 * 4 * 5 + 1
    assert short.scale.repeats == pytest.approx(instances / (3 * 30 * 20 + 1))
    assert len(short.execution) < len(full.execution) / 9
    notes = "90 of 900 iterations of the loop in line 10 are replayed; the rest goes on like them"
    assert notes in short.notes
    assert notes not in full.notes
    # What would change is predicted for the whole, too.
    ours, theirs = dict(short.what_if()), dict(full.what_if())
    for label in ours.keys() & theirs.keys():
        assert ours[label] == pytest.approx(theirs[label], rel=0.02), label


@pytest.mark.slow
def test_hundreds_of_thousands_of_instances_are_extrapolated_within_a_percent(monkeypatch):
    case = long(20_000)
    short = predicted(*case)
    assert short.scale.repeats > 2
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 10**9)
    full = predicted(*case)
    assert short.latency_us == pytest.approx(full.latency_us, rel=0.01)
    assert short.profile.hbm_read_bytes == full.profile.hbm_read_bytes
    assert short.profile.hbm_write_bytes == full.profile.hbm_write_bytes
    assert short.profile.hardware_flops == full.profile.hardware_flops


def test_what_a_few_instances_need_is_always_replayed_in_full(monkeypatch):
    monkeypatch.setattr(steady_state, "STRETCH", 600)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 900 * 20 + 1)
    assert predicted(*long(900)).scale.repeats == 1
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 900 * 20)
    assert predicted(*long(900)).scale.repeats > 1


EDGE = ", mask=128 * i + nl.arange(128)[:, None] < {rows}"


@pytest.mark.parametrize(
    ("loop", "mask", "steady"),
    [
        ("affine", ", mask=nl.arange(128)[:, None] < 100", True),
        ("affine", EDGE.format(rows=128 * 899 + 5), True),  # the last iteration is at an edge
        ("affine", EDGE.format(rows=128 * 500), False),  # the second half does nothing
        ("affine", ", mask=nl.arange(128)[:, None] < i", False),  # ever more rows
        ("affine", ", mask=nl.arange(128)[:, None] + 500 < i", False),  # it begins late
    ],
)
def test_iterations_that_differ_are_replayed_in_full(monkeypatch, loop, mask, steady):
    monkeypatch.setattr(steady_state, "STRETCH", 600)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 2_000)
    found = predicted(*long(900, loop=loop, mask=mask))
    assert (found.scale.repeats > 1) is steady
    if steady:
        monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 10**9)
        full = predicted(*long(900, loop=loop, mask=mask))
        assert found.latency_us == pytest.approx(full.latency_us, rel=0.01)


def test_an_inner_loop_that_grows_is_replayed_in_full(monkeypatch):
    monkeypatch.setattr(steady_state, "STRETCH", 100)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 1_000)
    text, x, w = long(90, loop="sequential", inner="sequential_range(i)")
    text = text.replace("512 * j, 512", "0 * j, 512")
    assert predicted(text, x, w).scale.repeats == 1


@pytest.mark.parametrize("when", ["i > 400", "i % 2 == 0", "i % 2 == 1", "j < 2 * (i - 300)"])
def test_an_instruction_that_does_not_run_in_every_iteration_is_not_missed(monkeypatch, when):
    # A kernel must not look fast because the replayed iterations are idle ones.
    text, x, w = long(900)
    text = text.replace("b = nl.add(nl.exp(a), p)", "b = nl.add(nl.exp(a), p)\n"
        + f"            if {when}:\n                b[...] = nl.exp(b)")  # fmt: skip
    monkeypatch.setattr(steady_state, "STRETCH", 600)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 2_000)
    assert predicted(text, x, w).scale.repeats == 1


def test_loads_that_come_every_few_iterations_are_not_extrapolated_from_too_few(monkeypatch):
    # Two iterations per stretch, and another weight every fourth one.
    monkeypatch.setattr(steady_state, "STRETCH", 40)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 2_000)
    text, x, _ = long(900)
    text = text.replace("    g = nl.load(w)\n", "").replace(
        "            p = ", "            g = nl.load(w[i // 4])\n            p = "
    )
    w = np.zeros((225, 128, 128), np.float32)
    found = predicted(text, x, w)
    assert found.profile.hbm_read_bytes == x.nbytes + w.nbytes


def test_counters_that_do_not_grow_evenly_are_replayed_in_full(monkeypatch):
    # The tensor engine hides the loads, so that the time alone would look steady.
    monkeypatch.setattr(steady_state, "STRETCH", 40)
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 2_000)
    text = """
    def kernel(x, w):
        out = nl.ndarray((300, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        for i in nl.affine_range(300):
            g = nl.load(w[EACH])
            acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(16):
                acc += nisa.nc_matmul(g, a)
            nl.store(out[i], nl.copy(acc))
        return out
    """
    x, w = np.zeros((128, 512), np.float32), np.zeros((300, 128, 128), np.float32)
    even = predicted(text.replace("EACH", "i"), x, w)
    assert even.scale.repeats > 1
    assert even.profile.hbm_read_bytes == x.nbytes + w.nbytes
    uneven = predicted(text.replace("EACH", "i // 4"), x, w)
    assert uneven.profile.hbm_read_bytes == x.nbytes + w.nbytes / 4
    assert uneven.scale.repeats == 1


def test_a_short_loop_is_replayed_in_full(monkeypatch):
    # Three stretches are as long as the loop.
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 100)
    monkeypatch.setattr(steady_state, "STRETCH", 600)
    assert predicted(*long(90)).scale.repeats == 1
    assert predicted(*long(91)).scale.repeats > 1


def test_the_loop_with_the_most_instances_is_the_one_that_is_cut(monkeypatch):
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 100)
    monkeypatch.setattr(steady_state, "STRETCH", 60)
    text = """
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(400):
            nl.store(out[i], nl.load(x[i]))
        for i in nl.affine_range(400):
            nl.store(out[i], nl.exp(nl.load(y[i])))
        return out
    """
    x = np.zeros((400, 128, 512), np.float32)
    found = predicted(text, x, x)
    assert "line 11" in found.scale.note
    assert found.profile.hbm_write_bytes == 2 * x.nbytes
    monkeypatch.setattr(steady_state, "REPLAY_LIMIT", 10**9)
    assert found.latency_us == pytest.approx(predicted(text, x, x).latency_us, rel=0.01)
