from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt.selection import Contender, representatives, select_beam, winner


def contender(id_, latency_us, *, plan="", parent="", source=None):
    return Contender(
        id=id_, latency_us=latency_us, plan=plan, parent=parent, source_hash=source or id_
    )


BASE = contender("baseline", 100.0)


def child(plan, sample, latency_us, *, source=None, iteration=1):
    plan_id = f"i{iteration}-c0-p{plan}"
    return contender(
        f"{plan_id}-s{sample}", latency_us, plan=plan_id, parent="baseline", source=source
    )


def ids(beam):
    return [entry.id for entry in beam]


def test_parents_compete_with_children():
    beam = select_beam([BASE], [child(0, 0, 200.0), child(1, 0, 50.0)], BASE, 2)
    assert ids(beam) == ["i1-c0-p1-s0", "baseline"]


def test_one_representative_per_plan():
    beam = select_beam([BASE], [child(0, 0, 20.0), child(0, 1, 10.0), child(1, 0, 30.0)], BASE, 3)
    assert ids(beam) == ["i1-c0-p0-s1", "i1-c0-p1-s0", "baseline"]


def test_equal_plans_of_two_parents_are_two_branches():
    one = contender("i2-c0-p0-s0", 10.0, plan="i2-c0-p0", parent="a")
    two = contender("i2-c1-p0-s0", 20.0, plan="i2-c1-p0", parent="b")
    assert representatives([two, one]) == [one, two]


def test_incorrect_children_are_never_selected():
    assert ids(select_beam([BASE], [child(0, 0, None)], BASE, 3)) == ["baseline"]


def test_the_best_so_far_is_selected_even_when_it_left_the_beam():
    best = contender("i1-c0-p0-s0", 10.0)
    beam = select_beam([BASE], [child(1, 0, 50.0, iteration=2)], best, 1)
    assert ids(beam) == ["i1-c0-p0-s0"]


def test_no_two_kernels_with_equal_source():
    children = [child(0, 0, 50.0, source="same"), child(1, 0, 50.0, source="same")]
    assert ids(select_beam([BASE], children, BASE, 3)) == ["i1-c0-p0-s0", "baseline"]


def test_ties_go_to_incumbents_then_to_slots_by_number():
    children = [child(10, 0, 100.0), child(9, 0, 100.0), child(2, 0, 100.0)]
    beam = select_beam([BASE], children, BASE, 4)
    assert ids(beam) == ["baseline", "i1-c0-p2-s0", "i1-c0-p9-s0", "i1-c0-p10-s0"]


def test_an_incumbent_keeps_its_place_against_its_own_copy():
    copy = child(0, 0, 100.0, source="baseline")
    assert ids(select_beam([BASE], [copy], BASE, 2)) == ["baseline"]


def test_the_beam_is_never_empty():
    broken = contender("baseline", None)
    assert select_beam([], [], broken, 3) == [broken]


def test_the_winner_is_the_exact_minimum():
    close = [child(0, 0, 100.0), child(1, 0, 100.0 - 1e-9), child(2, 0, None)]
    best = winner(close)
    assert best is not None
    assert best.id == "i1-c0-p1-s0"
    assert winner([child(0, 0, None)]) is None


def test_a_tie_for_the_winner_goes_to_the_smaller_slot():
    best = winner([child(10, 0, 5.0), child(9, 0, 5.0)])
    assert best is not None
    assert best.id == "i1-c0-p9-s0"


latencies = st.none() | st.floats(min_value=1, max_value=1e6)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), latencies), max_size=20),
    st.integers(1, 6),
    st.randoms(),
)
def test_elitism_distinctness_size_and_order_hold_for_any_children(specs, width, random):
    children = [
        child(plan, number, latency, source=str(source))
        for number, (plan, source, latency) in enumerate(specs)
    ]
    beam = select_beam([BASE], children, BASE, width)
    assert 1 <= len(beam) <= width
    assert len({entry.source_hash for entry in beam}) == len(beam)
    fastest = winner([BASE, *children])
    assert fastest is not None
    assert beam[0].latency_us == fastest.latency_us
    measured = [entry.latency_us for entry in beam if entry.latency_us is not None]
    assert measured == sorted(measured)
    shuffled = list(children)
    random.shuffle(shuffled)
    assert select_beam([BASE], shuffled, BASE, width) == beam


@pytest.mark.parametrize("width", [1, 2, 3])
def test_width_is_a_limit(width):
    children = [child(plan, 0, 50.0 + plan) for plan in range(5)]
    assert len(select_beam([BASE], children, BASE, width)) == width


def test_an_incumbent_wins_a_tie_even_with_a_later_slot():
    incumbent = contender("i9-c0-p0-s0", 50.0, source="same")
    assert ids(select_beam([incumbent], [child(0, 0, 50.0, source="same")], incumbent, 2)) == [
        "i9-c0-p0-s0"
    ]
