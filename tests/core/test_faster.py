"""When is a kernel faster? Decisions over calibrations, and by a sequential test."""

from __future__ import annotations

import random

import pytest

from accelopt.backend import Backend
from accelopt.errors import AcceloptError
from accelopt.faster import LOOKS, Outcome, by_measurement, over_calibrations
from accelopt.testing.backend import DummyBackend, dummy_kernel, dummy_task


@pytest.mark.parametrize(
    ("children", "outcome"),
    [
        ((90.0, 92.0, 95.0), Outcome.FASTER),
        # One calibration disagrees on the sign.
        ((90.0, 92.0, 100.5), Outcome.TIE),
        # All agree, but by less than the least effect.
        ((99.5, 99.4, 99.6), Outcome.TIE),
        ((110.0, 112.0, 105.0), Outcome.SLOWER),
        ((100.0, 100.0, 100.0), Outcome.TIE),
    ],
)
def test_all_calibrations_must_agree_and_the_median_must_count(children, outcome):
    comparison = over_calibrations((100.0, 100.0, 100.0), children, "three fits")
    assert comparison.outcome is outcome
    assert not comparison.measured


def noisy(latency_us, spread, rng):
    return lambda: latency_us * rng.lognormvariate(0, spread)


def decide(parent_us, child_us, spread, seed):
    rng = random.Random(seed)
    return by_measurement(noisy(parent_us, spread, rng), noisy(child_us, spread, rng), rng=rng)


def test_a_clear_gain_is_found_at_the_first_look():
    comparison = decide(100, 80, 0.01, 1)
    assert comparison.outcome is Outcome.FASTER
    assert len(comparison.child_samples_us) == LOOKS[0]
    assert comparison.low < 1.25 < comparison.high
    assert comparison.measured


def test_equal_kernels_are_hardly_ever_called_different():
    outcomes = [decide(100, 100, 0.05, seed).outcome for seed in range(400)]
    wrong = sum(outcome is not Outcome.TIE for outcome in outcomes)
    assert wrong <= 0.05 * 400


def test_a_gain_below_the_least_effect_is_a_tie():
    outcomes = [decide(100, 99.5, 0.02, seed).outcome for seed in range(200)]
    assert sum(outcome is Outcome.FASTER for outcome in outcomes) <= 0.05 * 200


def test_a_real_gain_is_found_in_noise():
    outcomes = [decide(100, 90, 0.05, seed).outcome for seed in range(100)]
    assert sum(outcome is Outcome.FASTER for outcome in outcomes) >= 90


def test_the_order_in_a_pair_is_random_so_that_drift_cancels():
    # Every measurement takes longer than the last: whoever always went second would lose.
    clock = [100.0]
    order = []

    def measure(who):
        def run():
            order.append(who)
            clock[0] *= 1.02
            return clock[0]

        return run

    comparison = by_measurement(measure("p"), measure("c"), rng=random.Random(3))
    assert comparison.outcome is Outcome.TIE
    assert {tuple(order[i : i + 2]) for i in range(0, len(order), 2)} == {("p", "c"), ("c", "p")}


class NoisyBackend(DummyBackend):
    """Measures with noise, and uses the comparison that every measuring backend gets."""

    def __init__(self):
        super().__init__()
        self.rng = random.Random(5)

    compare = Backend.compare

    def _run(self, task, source, stages, seeds):
        result = super()._run(task, source, stages, seeds)
        noise = self.rng.lognormvariate(0, 0.01)
        return result.model_copy(update={"latency_us": (result.latency_us or 0) * noise})


def test_a_measuring_backend_measures_both_kernels_afresh():
    task, backend = dummy_task(), NoisyBackend()
    child = task.baseline.model_copy(update={"text": dummy_kernel(70.0)})
    comparison = backend.compare(task, task.baseline, child)
    assert comparison.outcome is Outcome.FASTER
    assert backend.calls.evaluate == 2 * len(comparison.child_samples_us)
    broken = task.baseline.model_copy(update={"text": dummy_kernel(70.0, status="timeout")})
    with pytest.raises(AcceloptError, match="can't measure"):
        backend.compare(task, task.baseline, broken.model_copy(update={"text": "x ="}))
