"""Killed or stopped anywhere, a run resumes, pays for nothing twice and ends the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from accelopt.models import Ensemble, Role
from accelopt.plugins import installed
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, ScriptedChatModel


class Killed(BaseException):
    """Stands for the death of the process: nothing catches it."""


def outcome(store):
    """Everything a run decides, without the times it took."""
    candidates = [
        (c.id, c.parent, c.plan, c.latency_us, c.source.text, c.evaluation.status, c.fixer_rounds)
        for c in store.candidates()
    ]
    lessons = [
        (lesson.id.split("/")[1], lesson.title, lesson.speedup, lesson.sign)
        for lesson in store.experiences()
    ]
    beams = [e["beam"] for e in store.events() if e["kind"] == "beam_selected"]
    best = store.best_path.read_text().split("\n", 1)[1]
    return candidates, lessons, beams[-1], best, [p.text for p in store.plans()]


def answers(model, limit=None, error=None):
    """The same answers as `model`, until `limit` calls were made."""

    def answer(request):
        if limit is not None and wrapped.calls > limit:
            return error
        return model._answer(request)

    wrapped = ScriptedChatModel(answer=answer)
    return wrapped


def slots_asked(store):
    return [
        event["slot"]
        for event in store.events()
        if event["kind"] == "model_call_finished" and not event.get("cached")
    ]


@pytest.fixture(scope="module")
def straight(new_lab, tmp_path_factory):
    """A run that nothing disturbs."""
    lab = new_lab(tmp_path_factory.mktemp("straight"))
    with lab.store() as store:
        result = lab.run(store)
        return result, outcome(store), lab.model.calls, lab.backend.calls.estimate


@pytest.mark.parametrize("limit", [0, 1, 4, 9, 13, 20, 26])
def test_killed_after_any_call_and_resumed_nothing_is_asked_or_evaluated_twice(
    lab, straight, limit
):
    result, expected, calls, evaluations = straight
    model = answers(lab.model, limit, Killed())
    backend = DummyBackend()
    store = lab.store()
    with pytest.raises(Killed):
        lab.run(store, model=model, backend=backend)
    good = min(limit, calls)
    assert store.journal.counts().model_calls == good
    store.close()

    with RunStore.open(store.path) as again:
        second = answers(lab.model)
        resumed = (
            installed().graph("optimize").run(lab.services(again, model=second, backend=backend))
        )
        assert good + second.calls == calls
        assert backend.calls.estimate == evaluations
        asked = slots_asked(again)
        assert len(asked) == len(set(asked)) == calls
        assert outcome(again) == expected
        assert again.status == "finished"
    assert resumed.best.id == result.best.id
    assert resumed.model_calls == result.model_calls == calls
    assert resumed.evaluations == result.evaluations == evaluations


@pytest.mark.parametrize("after", [2, 7, 20, 45])
def test_a_stopped_run_is_resumable_and_ends_the_same(lab, straight, after):
    _, expected, calls, evaluations = straight
    stop = threading.Event()

    class Stopper:
        def __init__(self):
            self.seen = 0

        def observe(self, event):
            self.seen += 1
            if self.seen == after:
                stop.set()

        def close(self):
            pass

    backend, first = DummyBackend(), answers(lab.model)
    store = lab.store()
    stopped = lab.run(store, model=first, backend=backend, observers=(Stopper(),), stop=stop)
    assert stopped.status == "stopped"
    assert store.status == "stopped"
    assert first.calls < calls
    assert store.events()[-1]["kind"] == "run_stopped"
    with RunStore.open(store.path) as again:
        second = answers(lab.model)
        resumed = (
            installed().graph("optimize").run(lab.services(again, model=second, backend=backend))
        )
        assert resumed.status == "finished"
        assert first.calls + second.calls == calls
        assert backend.calls.estimate == evaluations
        assert outcome(again) == expected
        assert "run_resumed" in [event["kind"] for event in again.events()]


def test_a_run_stopped_before_it_starts_still_names_its_baseline(lab):
    stop = threading.Event()
    stop.set()
    result = lab.run(stop=stop)
    assert result.status == "stopped"
    assert result.best.id == result.baseline.id == "baseline"
    assert lab.model.calls == 0


def test_without_checkpoints_the_journal_replays_the_run_for_free(lab, straight):
    _, expected, _, _ = straight
    store = lab.store()
    lab.run(store, model=answers(lab.model))
    store.update(status="stopped")
    for path in store.path.glob("checkpoints.sqlite*"):
        path.unlink()
    with RunStore.open(store.path) as again:
        nothing, backend = ScriptedChatModel(), DummyBackend()
        installed().graph("optimize").run(lab.services(again, model=nothing, backend=backend))
        assert nothing.calls == 0
        assert backend.calls.estimate == 0
        assert outcome(again) == expected


def test_a_damaged_checkpoint_file_costs_nothing(lab, straight):
    _, expected, _, _ = straight
    store = lab.store()
    lab.run(store, model=answers(lab.model))
    store.update(status="stopped")
    for path in store.path.glob("checkpoints.sqlite*"):
        path.unlink()
    store.checkpoints_path.write_bytes(b"this is no database" * 100)
    with RunStore.open(store.path) as again:
        nothing = ScriptedChatModel()
        installed().graph("optimize").run(lab.services(again, model=nothing))
        assert nothing.calls == 0
        assert outcome(again) == expected


def test_a_finished_run_is_not_run_again(lab):
    store = lab.store()
    first = lab.run(store)
    with RunStore.open(store.path) as again:
        nothing, backend = ScriptedChatModel(), DummyBackend()
        second = (
            installed().graph("optimize").run(lab.services(again, model=nothing, backend=backend))
        )
    assert second == first
    assert backend.calls.estimate == backend.calls.screen == nothing.calls == 0


def test_a_broken_backend_ends_the_run_and_it_can_be_resumed(lab, straight):
    _, expected, calls, evaluations = straight

    class Breaking(DummyBackend):
        def evaluate(self, task, source, **options):
            if self.calls.evaluate >= 4:
                raise RuntimeError("the device fell off")
            return super().evaluate(task, source, **options)

    first, breaking = answers(lab.model), Breaking()
    store = lab.store()
    with pytest.raises(RuntimeError, match="fell off"):
        lab.run(store, model=first, backend=breaking)
    assert store.status == "failed"
    assert "the device fell off" in store.summary().message
    with RunStore.open(store.path) as again:
        judged = again.journal.counts().evaluations
        # What was begun when the device fell off is lost; everything journalled is kept.
        assert 0 < judged <= breaking.calls.estimate
        second, backend = answers(lab.model), DummyBackend()
        installed().graph("optimize").run(lab.services(again, model=second, backend=backend))
        assert first.calls + second.calls == calls
        assert judged + backend.calls.estimate == evaluations
        assert outcome(again) == expected


def test_two_processes_cannot_run_one_run(lab):
    from accelopt.errors import StoreError

    store = lab.store()
    with store.exclusive(), pytest.raises(StoreError, match="another process"):
        lab.run(RunStore.open(store.path))


def test_same_seed_and_answers_give_the_same_run_however_calls_are_ordered(lab):
    outcomes = []
    for concurrency, workers in ((1, 1), (8, 4), (3, 2)):
        with lab.store(model_concurrency=concurrency, workers=workers) as store:
            lab.run(store, model=answers(lab.model), backend=DummyBackend())
            outcomes.append(outcome(store))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_roles_may_have_models_of_their_own(lab):
    models = {role: answers(lab.model) for role in Role}
    lab.run(chat_models={role: Ensemble.of(role, chat) for role, chat in models.items()})
    for role, model in models.items():
        assert {request.role for request in model.requests} <= {role.value}
    assert models[Role.PLANNER].calls
    assert models[Role.EXECUTOR].calls


KILLED_RUN = """
import os, signal, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from conftest import Lab, searching
from accelopt.testing import ScriptedChatModel

lab = Lab(Path(sys.argv[2]))
limit = int(sys.argv[3])


def answer(request):
    if model.calls > limit:
        os.kill(os.getpid(), signal.SIGKILL)
    return searching(request)


model = ScriptedChatModel(answer=answer)
lab.run(lab.store(), model=model)
"""


@pytest.mark.parametrize("limit", [11])
def test_kill_9_of_the_whole_process_and_resume(lab, straight, limit, tmp_path):
    _, expected, calls, evaluations = straight
    folder = tmp_path / "elsewhere"
    done = subprocess.run(
        [sys.executable, "-c", KILLED_RUN, str(Path(__file__).parent), str(folder), str(limit)],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    [path] = (folder / "runs").iterdir()
    with RunStore.open(path) as store:
        assert store.status == "interrupted"
        paid = store.journal.counts()
        # Answers in flight when the process died are lost; everything journalled is kept.
        assert 0 < paid.model_calls <= limit
        second, backend = answers(lab.model), DummyBackend()
        installed().graph("optimize").run(lab.services(store, model=second, backend=backend))
        assert paid.model_calls + second.calls == calls
        assert paid.evaluations + backend.calls.estimate == evaluations
        assert outcome(store) == expected


def test_a_run_without_time_for_its_baseline_still_names_it(lab):
    with lab.store(max_minutes=1e-9) as store:
        result = lab.run(store)
        assert (result.status, store.status) == ("stopped", "stopped")
    assert result.best.id == "baseline"
    assert result.best.latency_us == 100
    assert "minutes" in result.message
    assert lab.model.calls == 0
