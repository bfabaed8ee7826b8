from __future__ import annotations

import pytest

from accelopt.curation import Sample, choose_pairs, push, representative


def sample(plan, number, speedup, parent="baseline"):
    return Sample(
        id=f"i1-c0-p{plan}-s{number}", parent=parent, plan=f"i1-c0-p{plan}", speedup=speedup
    )


def choose(speedups, topk=8):
    """One plan per speedup."""
    samples = [sample(plan, 0, speedup) for plan, speedup in enumerate(speedups)]
    return choose_pairs(samples, topk=topk, positive_threshold=1.04, negative_threshold=1.15)


@pytest.mark.parametrize(
    ("speedups", "chosen"),
    [
        ([1.5, 0.5], 1.5),  # a winner hides a bad loser
        ([1.2, 1.5], 1.5),
        ([0.9, 0.5], 0.5),  # all slower: the worst
        ([1.0, 0.5], None),  # the best changes nothing
        ([1.0], None),
        ([], None),
    ],
)
def test_representative_of_a_plan(speedups, chosen):
    found = representative([sample(0, number, s) for number, s in enumerate(speedups)])
    assert (None if found is None else found.speedup) == chosen


def test_a_tie_within_a_plan_goes_to_the_smaller_slot():
    found = representative([sample(0, 10, 2.0), sample(0, 9, 2.0)])
    assert found is not None
    assert found.id == "i1-c0-p0-s9"


@pytest.mark.parametrize(
    ("speedup", "teaches"),
    [(1.04, False), (1.0400001, True), (1 / 1.15, False), (1 / 1.1500001, True), (0.95, False)],
)
def test_thresholds_are_strict_on_both_sides(speedup, teaches):
    assert bool(choose([speedup])) is teaches


def test_positives_take_at_most_half_and_negatives_fill_up():
    pairs = choose([1.1, 1.2, 1.3, 1.4, 1.5, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert [pair.measured for pair in pairs] == [1.5, 1.4, 1.3, 1.2, 0.1, 0.2, 0.3, 0.4]


def test_without_positives_negatives_take_all():
    assert [pair.measured for pair in choose([0.05 * n for n in range(1, 11)])] == pytest.approx(
        [0.05 * n for n in range(1, 9)]
    )


def test_without_negatives_positives_still_take_half_only():
    assert len(choose([1.1 + n / 10 for n in range(10)])) == 4


def test_an_odd_topk_is_rounded_down_for_positives():
    pairs = choose([1.1, 1.2, 0.1, 0.2, 0.3], topk=3)
    assert [pair.sign for pair in pairs] == ["positive", "negative", "negative"]


def test_topk_of_one_takes_a_negative_and_zero_takes_nothing():
    assert [pair.measured for pair in choose([2.0, 0.5], topk=1)] == [0.5]
    assert choose([2.0, 0.5], topk=0) == []


def test_roles_are_swapped_for_a_slow_down():
    [faster, slower] = choose([2.0, 0.25])
    assert (faster.slow, faster.fast, faster.speedup) == ("baseline", "i1-c0-p0-s0", 2.0)
    assert (slower.slow, slower.fast, slower.speedup) == ("i1-c0-p1-s0", "baseline", 4.0)


def test_the_ranking_is_global_over_parents():
    samples = [sample(0, 0, 1.2, "a"), sample(1, 0, 1.5, "b"), sample(2, 0, 1.4, "a")]
    pairs = choose_pairs(samples, topk=4, positive_threshold=1.04, negative_threshold=1.15)
    assert [pair.measured for pair in pairs] == [1.5, 1.4]


def test_the_order_of_arrival_does_not_matter():
    samples = [sample(plan, 0, speedup) for plan, speedup in enumerate([1.5, 1.5, 0.5, 0.5, 1.5])]
    options = {"topk": 4, "positive_threshold": 1.04, "negative_threshold": 1.15}
    assert choose_pairs(samples, **options) == choose_pairs(samples[::-1], **options)


def test_after_n_iterations_exactly_the_newest_remain_oldest_first():
    queue: list[str] = []
    for iteration in range(5):
        queue = push(queue, [f"{iteration}-{lesson}" for lesson in range(3)], 4)
    assert queue == ["3-2", "4-0", "4-1", "4-2"]


def test_more_lessons_than_places_never_exceed_the_capacity():
    assert push([], ["a", "b", "c"], 2) == ["b", "c"]
    assert push(["a"], ["b"], 0) == []


def test_no_op_lessons_take_no_place():
    assert push(["a"], ["", "b", "a"], 8) == ["a", "b"]


def test_a_slow_down_of_exactly_the_threshold_teaches_nothing_and_one_above_does():
    def lessons(child_us):
        sample = Sample(
            id="i1-c0-p0-s0", parent="baseline", plan="i1-c0-p0", speedup=100 / child_us
        )
        return choose_pairs([sample], topk=8, positive_threshold=1.04, negative_threshold=1.15)

    assert lessons(115) == []
    assert len(lessons(115.001)) == 1
