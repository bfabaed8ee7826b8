"""The baselines compute what their references compute."""

from __future__ import annotations

import pytest

from accelopt.plugins import installed
from nkibench.suite import suite

FULL = [name for name in suite() if "@" not in name]
VARIANTS = [name for name in suite() if "@" in name]
SMALL = [name for name in VARIANTS if name.endswith("@small")]


@pytest.fixture(scope="module")
def backend():
    made = installed().backend("sim-trn1")
    yield made
    made.close()


def check(backend, name, seeds):
    task = suite()[name]()
    evaluation = backend.evaluate(task, task.baseline, seeds=seeds)
    assert evaluation.ok, (evaluation.status, evaluation.diagnostics, evaluation.seeds)
    assert [result.seed for result in evaluation.seeds] == list(seeds)
    # A tenth of the tolerance leaves room for a kernel that sums in another order.
    assert all(r.error < 0.1 * r.tolerance for r in evaluation.seeds)
    assert evaluation.latency_us > 0


@pytest.mark.parametrize("name", SMALL)
def test_a_baseline_is_right_on_its_small_variant(backend, name):
    check(backend, name, [21])


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_baseline_is_right_on_every_variant_and_seed(backend, name):
    check(backend, name, suite()[name]().seeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_a_baseline_is_right_on_the_published_shape(backend, name):
    check(backend, name, [42])
