from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from accelopt.evaluation import Diagnostic, Stage
from accelopt.evaluation_pool import EvaluationPool, evaluation_key, usable_cores
from accelopt.journal import Journal
from accelopt.kernel import Dialect, KernelSource
from accelopt.testing import DummyBackend, dummy_kernel, dummy_task

TASK = dummy_task()


def source(latency_us=50.0, **options):
    return KernelSource(text=dummy_kernel(latency_us, **options))


@pytest.fixture
def journal(tmp_path):
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def test_a_kernel_is_judged_and_journalled(journal):
    backend = DummyBackend()
    with EvaluationPool(backend, TASK, journal) as pool:
        first, second = pool.evaluate(source()), pool.evaluate(source())
    assert first.evaluation.latency_us == 50
    assert (first.cached, second.cached) == (False, True)
    assert first.evaluation == second.evaluation
    assert backend.calls.evaluate == journal.counts().evaluations == 1


def test_a_later_pool_finds_it_in_the_journal(journal):
    with EvaluationPool(DummyBackend(), TASK, journal) as pool:
        pool.evaluate(source())
    backend = DummyBackend()
    with EvaluationPool(backend, TASK, journal) as pool:
        assert pool.evaluate(source()).cached
    assert backend.calls.evaluate == 0


def test_equal_attempts_at_the_same_time_are_evaluated_once(journal):
    backend = DummyBackend(delay_s=0.1)
    with EvaluationPool(backend, TASK, journal, workers=4) as pool, ThreadPoolExecutor(8) as many:
        results = list(many.map(lambda _: pool.evaluate(source()), range(8)))
    assert backend.calls.evaluate == 1
    assert sorted(result.cached for result in results) == [False] + [True] * 7


def test_no_more_run_at_once_than_there_are_workers(journal):
    backend = DummyBackend(delay_s=0.02)
    with EvaluationPool(backend, TASK, journal, workers=2) as pool, ThreadPoolExecutor(8) as many:
        list(many.map(lambda n: pool.evaluate(source(note=str(n))), range(10)))
    assert backend.calls.evaluate == 10
    assert backend.most_at_once == 2


def test_a_broken_backend_raises_out_and_nothing_is_journalled(journal):
    class Broken(DummyBackend):
        def _run(self, *args):
            raise RuntimeError("no device")

    with EvaluationPool(Broken(), TASK, journal) as pool:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no device"):
                pool.evaluate(source())
    assert journal.counts().evaluations == 0


def test_those_who_wait_for_a_broken_evaluation_hear_of_it(journal):
    entered, release = threading.Event(), threading.Event()

    class Broken(DummyBackend):
        def _run(self, *args):
            entered.set()
            release.wait(10)
            raise RuntimeError("no device")

    with EvaluationPool(Broken(), TASK, journal) as pool, ThreadPoolExecutor(2) as many:
        first = many.submit(pool.evaluate, source())
        entered.wait(10)
        second = many.submit(pool.evaluate, source())
        release.set()
        for future in (first, second):
            with pytest.raises(RuntimeError, match="no device"):
                future.result(10)


def test_another_layout_of_the_program_gets_its_own_lines(journal):
    text = "# status: rejected\n# line: 4\ndef kernel(x):\n    return x\n"
    moved = "# status: rejected\n\n\n\n\ndef kernel(x):\n    # here\n    return x\n"
    with EvaluationPool(DummyBackend(), TASK, journal) as pool:
        pool.evaluate(KernelSource(text=text))
        other = pool.evaluate(KernelSource(text=moved))
    assert other.cached
    [finding] = other.evaluation.diagnostics
    assert isinstance(finding, Diagnostic)
    assert finding.line == 8
    assert other.evaluation.source_sha256 == KernelSource(text=moved).sha256


def test_on_start_is_called_for_real_evaluations_only(journal):
    started = []
    with EvaluationPool(DummyBackend(), TASK, journal) as pool:
        for _ in range(3):
            pool.evaluate(source(), on_start=lambda: started.append(1))
    assert started == [1]


def test_the_key_covers_all_that_a_judgement_depends_on():
    backend = DummyBackend()
    newer = DummyBackend()
    newer.version = "2"
    elsewhere = DummyBackend()
    elsewhere.name = "elsewhere"
    kernel = source()
    keys = [
        evaluation_key(TASK, kernel, backend),
        evaluation_key(TASK, source(51.0), backend),
        evaluation_key(TASK, kernel.model_copy(update={"entry": "kernel"}), backend),
        evaluation_key(TASK, kernel.model_copy(update={"dialect": Dialect.NKI}), backend),
        evaluation_key(dummy_task(name="dummy/other"), kernel, backend),
        evaluation_key(TASK, kernel, newer),
        evaluation_key(TASK, kernel, elsewhere),
        evaluation_key(TASK, kernel, backend, seeds=(1,)),
        evaluation_key(TASK, kernel, backend, stages=frozenset({Stage.LOAD})),
    ]
    assert len(set(keys)) == len(keys)
    commented = kernel.model_copy(update={"text": kernel.text + "# bye\n", "filename": "other.py"})
    assert evaluation_key(TASK, commented, backend) == keys[0]


def test_there_is_at_least_one_core():
    assert usable_cores() >= 1
