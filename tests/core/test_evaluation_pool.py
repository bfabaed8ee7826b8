from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from accelopt.backend import Capability
from accelopt.evaluation import Diagnostic, EvaluationStatus, SeedResult, Stage
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


def test_a_kernel_that_does_not_matter_is_compared_on_one_seed_and_not_found_correct(journal):
    backend = DummyBackend()
    with EvaluationPool(backend, TASK, journal) as pool:
        part = pool.evaluate(source(200.0), matters=lambda latency_us: latency_us < 100)
        assert [seed.seed for seed in part.evaluation.seeds] == [TASK.seeds[0]]
        assert part.evaluation.untried_seeds == TASK.seeds[1:]
        assert part.evaluation.right_so_far
        assert not part.evaluation.correct
        again = pool.evaluate(source(200.0), matters=lambda latency_us: latency_us < 100)
        assert again.cached
        # Where it matters, what was begun is completed and nothing is done twice.
        full = pool.evaluate(source(200.0))
    assert not full.cached
    assert [seed.seed for seed in full.evaluation.seeds] == list(TASK.seeds)
    assert full.evaluation.correct
    assert backend.calls.estimate == journal.counts().evaluations == 1
    assert backend.seeds_tried == [TASK.seeds[:1], TASK.seeds[1:]]


def test_what_cannot_pass_the_cheap_tier_never_reaches_the_numbers(journal):
    backend = DummyBackend()
    with EvaluationPool(backend, TASK, journal) as pool:
        found = pool.evaluate(source(status="constraint_violation")).evaluation
    assert found.status == "constraint_violation"
    assert (backend.calls.estimate, backend.calls.evaluate) == (1, 0)


def test_a_backend_that_cannot_estimate_judges_in_one_go(journal):
    class Device(DummyBackend):
        capabilities = DummyBackend.capabilities - {Capability.ESTIMATE}

    backend = Device()
    with EvaluationPool(backend, TASK, journal) as pool:
        found = pool.evaluate(source(200.0), matters=lambda latency_us: False).evaluation
    assert found.correct
    assert (backend.calls.estimate, backend.calls.evaluate) == (0, 1)


class OneTrace(DummyBackend):
    """Every kernel gives the same trace."""

    def _judge(self, *arguments):
        found = super()._judge(*arguments)
        return found.model_copy(update={"trace_hash": "one"}) if found.trace_hash else found


@pytest.mark.parametrize("status", ["ok", "incorrect"])
def test_two_sources_with_one_trace_are_executed_once(journal, status):
    backend = OneTrace()
    with EvaluationPool(backend, TASK, journal) as pool:
        first = pool.evaluate(source(note="a", status=status)).evaluation
        second = pool.evaluate(source(note="b", status=status)).evaluation
    assert first.status == second.status == status
    assert first.seeds == second.seeds
    assert first.source_sha256 != second.source_sha256
    assert (backend.calls.estimate, backend.calls.evaluate) == (2, 1)


def test_a_kernel_that_gives_another_trace_when_it_is_executed_is_rejected(journal):
    class Shifty(DummyBackend):
        def _judge(self, task, source, stages, seeds):
            found = super()._judge(task, source, stages, seeds)
            return found.model_copy(update={"trace_hash": f"{Stage.CORRECTNESS in stages}"})

    with EvaluationPool(Shifty(), TASK, journal) as pool:
        found = pool.evaluate(source()).evaluation
    assert found.status == "rejected"
    assert not found.correct
    assert [finding.rule for finding in found.diagnostics] == ["trace_not_reproducible"]


def test_runs_share_what_they_evaluated(tmp_path):
    first, second = DummyBackend(), DummyBackend()
    shared = tmp_path / "home" / "evaluations.sqlite"
    found = []
    for name, backend in (("a", first), ("b", second)):
        journal = Journal(tmp_path / name)
        with EvaluationPool(backend, TASK, journal, shared=shared) as pool:
            found.append(pool.evaluate(source()))
            assert pool.known.trouble == ""
        assert journal.counts().evaluations == (1 if name == "a" else 0)
        journal.close()
    assert first.calls.evaluate == 1
    assert second.calls.evaluate == second.calls.estimate == 0
    assert found[1].cached
    assert found[0].evaluation == found[1].evaluation


def test_a_time_out_is_not_shared_but_a_wrong_kernel_is(tmp_path):
    shared = tmp_path / "evaluations.sqlite"
    counts = {}
    for status in ("timeout", "incorrect"):
        for name in ("a", "b"):
            backend = DummyBackend()
            journal = Journal(tmp_path / f"{status}-{name}")
            with EvaluationPool(backend, TASK, journal, shared=shared) as pool:
                assert pool.evaluate(source(status=status)).evaluation.status == status
            counts[status, name] = backend.calls.evaluate
            journal.close()
    assert counts == {
        ("timeout", "a"): 1,
        ("timeout", "b"): 1,
        ("incorrect", "a"): 1,
        ("incorrect", "b"): 0,
    }


@pytest.mark.parametrize("content", [b"this is no database" * 100, None])
def test_a_shared_cache_that_cannot_be_used_costs_nothing_but_its_help(tmp_path, journal, content):
    shared = tmp_path / "evaluations.sqlite"
    if content is None:
        shared.mkdir()
    else:
        shared.write_bytes(content)
    with EvaluationPool(DummyBackend(), TASK, journal, shared=shared) as pool:
        assert "cache" in pool.known.trouble
        assert pool.evaluate(source()).evaluation.correct


def test_a_program_that_is_not_admitted_is_not_judged(journal):
    class FullError(Exception):
        pass

    def refuse():
        raise FullError

    backend = DummyBackend()
    with EvaluationPool(backend, TASK, journal) as pool:
        pool.evaluate(source(50.0))
    with EvaluationPool(backend, TASK, journal, admit=refuse) as pool:
        assert pool.evaluate(source(50.0)).cached
        with pytest.raises(FullError):
            pool.evaluate(source(51.0))
    assert backend.calls.estimate == 1


class Late(DummyBackend):
    """Every kernel is right on the first seed and wrong on the second."""

    def _judge(self, task, source, stages, seeds):
        found = super()._judge(task, source, stages, seeds)
        if TASK.seeds[1] not in seeds:
            return found
        results = tuple(
            SeedResult(seed=seed, error=1.0, tolerance=1e-5, ok=seed != TASK.seeds[1])
            for seed in seeds
        )
        return found.model_copy(update={"status": EvaluationStatus.INCORRECT, "seeds": results})


def test_what_a_kernel_is_worth_does_not_depend_on_who_judged_it_before(journal):
    def unimportant(latency_us):
        return False

    with EvaluationPool(Late(), TASK, journal) as pool:
        before = pool.evaluate(source(note="a"), matters=unimportant).evaluation
        full = pool.evaluate(source(note="a")).evaluation
        after = pool.evaluate(source(note="a"), matters=unimportant).evaluation
    assert full.status == "incorrect"
    assert (before.status, after.status) == ("ok", "ok")
    assert before.seeds == after.seeds
    assert before.untried_seeds == after.untried_seeds == TASK.seeds[1:]
    assert not after.correct


def test_an_evaluation_that_is_owed_needs_no_admission(journal):
    def refuse():
        raise RuntimeError("full")

    with EvaluationPool(DummyBackend(), TASK, journal, admit=refuse) as pool:
        assert pool.evaluate(source(), admitted=True).evaluation.correct


class Checking(DummyBackend):
    """Says which stages each comparison asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def _run(self, task, source, stages, seeds):
        if Stage.CORRECTNESS in stages:
            self.asked.append((seeds, Stage.ROBUSTNESS in stages))
        return super()._run(task, source, stages, seeds)


@pytest.mark.parametrize("seeds", [(0, 21), (0,)])
def test_fresh_and_stress_inputs_come_last_and_only_for_what_matters(journal, seeds):
    task = replace(TASK, seeds=seeds)
    backend = Checking()
    with EvaluationPool(backend, task, journal) as pool:
        idle = pool.evaluate(source(), matters=lambda latency_us: False).evaluation
        assert backend.asked == [(seeds[:1], False)]
        assert idle.ok
        assert not idle.correct
        assert idle.untried_checks
        later = pool.evaluate(source(), matters=lambda latency_us: True).evaluation
        assert backend.asked[1:] == [(seeds[1:], True)]
    assert later.correct
    assert not later.untried_checks
