"""The end of a run: a winner is compared with the baseline, and leaves evidence."""

from __future__ import annotations

import random

from accelopt.backend import Backend
from accelopt.evidence import FOLDER, read_bundle
from accelopt.faster import Outcome
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend


class Noisy(DummyBackend):
    """Every measurement differs, and those of the search are too good by a third."""

    name = "noisy"

    def __init__(self):
        super().__init__()
        self.rng = random.Random(1)
        self.luck = 0.66

    def _run(self, task, source, stages, seeds):
        result = super()._run(task, source, stages, seeds)
        if result.latency_us is None:
            return result
        factor = self.luck * self.rng.lognormvariate(0, 0.005)
        return result.model_copy(update={"latency_us": result.latency_us * factor})

    def compare(self, task, parent, child):
        self.luck = 1.0
        return Backend.compare(self, task, parent, child)


def test_the_winner_of_a_measuring_backend_is_reported_by_fresh_measurements_only(lab):
    store = lab.store()
    result = lab.run(store, backend=Noisy())
    comparison = result.comparison
    assert comparison is not None
    assert comparison.measured
    assert comparison.outcome is Outcome.FASTER
    assert result.best_us == comparison.child_us
    assert result.baseline_us == comparison.parent_us
    assert result.best.latency_us < 0.8 * comparison.child_us
    evidence, texts = read_bundle(store.path / FOLDER)
    assert evidence.comparison == comparison
    assert texts["kernel.py"] == result.best.source.text
    assert f"# latency: {comparison.child_us:.3f} us" in store.best_path.read_text()


def test_a_comparison_is_made_once(lab, monkeypatch):
    store = lab.store()
    first = lab.run(store)
    assert first.comparison is not None
    monkeypatch.setattr(lab.backend, "compare", None)
    with RunStore.open(store.path) as again:
        assert lab.run(again).comparison == first.comparison
