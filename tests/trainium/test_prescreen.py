"""The pre-screen saves device time, says how much, and what its refusals cost."""

from __future__ import annotations

import pytest

from accelopt.errors import ConfigError
from accelopt.evaluation import Evaluation, EvaluationStatus
from accelopt.kernel import Dialect
from accelopt.testing.samples import nki_sample
from accelopt_trainium.known_kernels import fast_kernel, known_task
from accelopt_trainium.prescreen import SAMPLE_EVERY, Counts, Decision, Prescreen, is_sampled

SAMPLE = nki_sample()


@pytest.fixture
def prescreen():
    made = Prescreen("trn1")
    yield made
    made.close()


def refused(index=0):
    text = SAMPLE.broken["reads out of bounds"].text + f"\nSIZE = {index}\n"
    return SAMPLE.good.model_copy(update={"text": text})


def test_what_the_simulator_refuses_is_kept_from_the_device(prescreen):
    source = next(s for s in map(refused, range(50)) if not is_sampled(CONSTRAINT, s))
    assert prescreen.decide(SAMPLE.task, SAMPLE.good) == Decision()
    decision = prescreen.decide(SAMPLE.task, source)
    assert decision.refusal.status is EvaluationStatus.CONSTRAINT_VIOLATION
    assert decision.refusal.notes[-1].startswith("refused by the pre-screen of sim-trn1")
    prescreen.judged(Decision(), evaluation(EvaluationStatus.OK, 90.0))
    assert prescreen.counts.words == (
        "kept 1 of 2 kernels from the device, about 1.5 min of it; no refusal was sampled"
    )


CONSTRAINT = EvaluationStatus.CONSTRAINT_VIOLATION


def evaluation(status, elapsed_s=1.0):
    return Evaluation(
        status=status, task="t", backend="trn1", source_sha256="0", elapsed_s=elapsed_s
    )


def test_a_share_of_the_refused_goes_to_the_device_and_is_counted(prescreen):
    sources = [refused(index) for index in range(400)]
    sampled = [source for source in sources if is_sampled(CONSTRAINT, source)]
    assert len(sampled) == pytest.approx(len(sources) / SAMPLE_EVERY, rel=0.5)
    right, wrong = sampled[:2]
    for source, status in ((right, EvaluationStatus.CONSTRAINT_VIOLATION), (wrong, "ok")):
        decision = prescreen.decide(SAMPLE.task, source)
        assert (decision.refusal, decision.sampled) == (None, True)
        prescreen.judged(decision, evaluation(EvaluationStatus(status)))
    assert "1 of 2 sampled refusals were wrong" in prescreen.counts.words
    # What looks like an attack never goes there.
    assert not any(is_sampled(EvaluationStatus.REJECTED, source) for source in sources)


def test_it_can_be_turned_off_and_named(prescreen, monkeypatch):
    monkeypatch.setenv("ACCELOPT_PRESCREEN", "off")
    assert prescreen.decide(SAMPLE.task, refused()) == Decision()
    assert prescreen.state() == "off"
    monkeypatch.setenv("ACCELOPT_PRESCREEN", "sim-trn2")
    prescreen.close()
    assert prescreen.state() == "by sim-trn2"
    prescreen.close()
    monkeypatch.setenv("ACCELOPT_PRESCREEN", "trn2")
    with pytest.raises(ConfigError, match="ACCELOPT_PRESCREEN"):
        prescreen.decide(SAMPLE.task, refused())


def test_it_does_not_see_the_dialect_nki(prescreen):
    assert prescreen.decide(known_task(Dialect.NKI), fast_kernel(Dialect.NKI)) == Decision()
    assert prescreen.counts == Counts()
