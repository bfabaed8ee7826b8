"""Forks, replays and longer runs: what a recorded run is good for, beside being resumed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from accelopt import slots
from accelopt.beam_history import beam_history
from accelopt.errors import ConfigError, SchemaVersionError, StoreError
from accelopt.fork import fork
from accelopt.journal import Journal
from accelopt.plugins import installed
from accelopt.replay import replay
from accelopt.run_changes import changed
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, RecordingObserver, ScriptedChatModel

ITERATIONS = 4


def copied(model, *, until=None, instead=None):
    """A model of its own with the same answers; from call `until` on with `instead`."""

    def answer(request):
        if until is not None and made.calls > until:
            return instead
        return model._answer(request)

    made = ScriptedChatModel(answer=answer)
    return made


def outcome(store):
    """Everything a run decides; lessons without the name of the run."""
    return (
        beam_history(store.journal),
        [(c.id, c.parent, c.plan, c.source.text, c.latency_us) for c in store.candidates()],
        [(plan.id, plan.text) for plan in store.plans()],
        [(e.id.split("/")[1], e.title, e.speedup, e.sign) for e in store.experiences()],
        store.best_path.read_text().split("\n", 1)[1],
    )


class Bench:
    """A lab with one recorded run."""

    def __init__(self, lab, **settings):
        self.lab = lab
        with lab.store(iterations=ITERATIONS, **settings) as store:
            self.result = lab.run(store, observers=())
            self.path = store.path
        with self.open() as store:
            self.outcome = outcome(store)
            self.history = beam_history(store.journal)
        self.calls = lab.model.calls

    def open(self):
        return RunStore.open(self.path)

    def fork(self, at, **changes):
        with self.open() as parent:
            config = changed(parent.config, changes, fork=True)
            return fork(parent, at, config, self.lab.folder / "runs")

    def run(self, store, *, model=None, backend=None, **changes):
        """Run a folder; what was asked, what was judged and what happened."""
        model = copied(self.lab.model) if model is None else model
        backend = DummyBackend() if backend is None else backend
        observer = RecordingObserver()
        services = self.lab.services(
            store, model=model, backend=backend, observers=(observer,), **changes
        )
        return installed().graph("optimize").run(services), model, backend, observer


@pytest.fixture(scope="module")
def bench(new_lab, tmp_path_factory):
    """A run that is recorded once; tests leave it as it is."""
    return Bench(new_lab(tmp_path_factory.mktemp("bench")))


def stopping_after(events):
    """(stop, observer): the stop is asked for when so many events have happened."""
    stop = threading.Event()

    class Stopper(RecordingObserver):
        def observe(self, event):
            super().observe(event)
            if len(self.events) == events:
                stop.set()

    return stop, Stopper()


# Forks.


@pytest.mark.parametrize("changes", [{}, {"num_plans": 3}, {"iterations": 6, "beam_width": 1}])
@pytest.mark.parametrize("at", [0, 2, ITERATIONS - 1])
def test_a_fork_shares_its_first_iterations_and_goes_its_own_way(bench, at, changes):
    with bench.fork(at, **changes) as store:
        assert (store.forked_from, store.forked_at) == (bench.path.name, at)
        result, model, backend, observer = bench.run(store)
        history = beam_history(store.journal)
        assert result.status == "finished"
        assert history[: at + 1] == bench.history[: at + 1]
        assert len(history) == changes.get("iterations", ITERATIONS) + 1
        asked = observer.of("model_call_started")
        assert {event["iteration"] for event in asked} == set(range(at + 1, len(history)))
        assert len(asked) == model.calls == store.journal.counts().model_calls
        # With the same settings the parent has judged it all.
        assert bool(backend.calls.estimate) == bool(changes)
        assert all(event["iteration"] > at for event in observer.of("evaluation_started"))
        counts = store.journal.counts()
        assert (result.model_calls, result.evaluations) == (counts.model_calls, counts.evaluations)
        assert counts.evaluations == backend.calls.estimate
        if not changes:
            assert outcome(store) == bench.outcome
    with bench.open() as parent:
        assert outcome(parent) == bench.outcome
        assert parent.journal.counts().model_calls == bench.calls


@pytest.mark.parametrize("at", [0, 2, ITERATIONS - 1])
def test_a_new_fork_knows_nothing_of_later_iterations_and_has_paid_for_nothing(bench, at):
    with bench.fork(at) as store:
        known = [c.id for c in store.candidates()] + [plan.id for plan in store.plans()]
        known += [lesson.id for lesson in store.experiences()]
        assert "baseline" in known
        assert all(slots.iteration_of(id_) <= at for id_ in known)
        assert any(slots.iteration_of(id_) == at for id_ in known)
        paid = store.journal.counts()
        assert (paid.model_calls, paid.evaluations, paid.cost_usd) == (0, 0, 0.0)
        assert (paid.input_tokens, paid.output_tokens, paid.unpriced_calls) == (0, 0, 0)
        assert store.journal.failure_counts() == {}
        assert {path.stem for path in (store.path / "kernels").iterdir()} == {
            c.id for c in store.candidates()
        }
        assert store.status == "created"


def test_a_fork_is_offered_lessons_of_the_common_part_and_its_own_only(bench):
    at = 2
    with bench.fork(at) as store:
        bench.run(store)
        common = own = 0
        for iteration in range(at + 1, ITERATIONS + 1):
            offered = {
                item["id"]
                for index in range(store.config.beam_width)
                for item in store.journal.retrieval(slots.retrieval_slot(iteration, index)) or []
            }
            for id_ in offered:
                learned = slots.iteration_of(id_)
                assert learned < iteration
                assert id_.split("/")[0] == (bench.path.name if learned <= at else store.run_id)
                common, own = common + (learned <= at), own + (learned > at)
        assert common
        assert own


def test_a_fork_can_be_stopped_and_resumed(bench):
    with bench.fork(1) as store:
        bench.run(store)
        straight, paid = outcome(store), store.journal.counts()
    stop, stopper = stopping_after(25)
    with bench.fork(1) as store:
        first = copied(bench.lab.model)
        services = bench.lab.services(store, model=first, observers=(stopper,), stop=stop)
        assert installed().graph("optimize").run(services).status == "stopped"
    with RunStore.open(store.path) as store:
        _, second, _, _ = bench.run(store)
        assert first.calls + second.calls == store.journal.counts().model_calls
        assert outcome(store) == straight
        assert store.journal.counts().model_calls == paid.model_calls


def test_a_fork_can_be_forked_and_both_replay(bench):
    with bench.fork(1, num_plans=3) as store:
        bench.run(store)
        middle = beam_history(store.journal)
        assert replay(store, bench.lab.task, DummyBackend()).same
        config = changed(store.config, {"iterations": 5, "num_plans": 1}, fork=True)
        with fork(store, 3, config, bench.lab.folder / "runs") as second:
            _, model, _, observer = bench.run(second)
            assert beam_history(second.journal)[:4] == middle[:4]
            assert {e["iteration"] for e in observer.of("model_call_started")} == {4, 5}
            assert second.journal.counts().model_calls == model.calls
            again = replay(second, bench.lab.task, DummyBackend())
            assert (again.same, again.iterations, again.changed_prompts) == (True, 5, ())


@pytest.mark.parametrize(("at", "changes", "says"), [
    (-1, {}, "can't be forked at iteration -1: it has finished 4"),
    (ITERATIONS + 1, {"iterations": 9}, "can't be forked at iteration 5: it has finished 4"),
    (ITERATIONS, {}, "a fork at iteration 4 needs more than 4 iterations"),
    (2, {"iterations": 1}, "a fork at iteration 2 needs more than 1 iterations"),
])  # fmt: skip
def test_a_fork_that_makes_no_sense_is_one_clear_error_and_makes_no_folder(
    bench, at, changes, says
):
    before = sorted((bench.lab.folder / "runs").iterdir())
    with pytest.raises(ConfigError, match=says) as caught:
        bench.fork(at, **changes)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert sorted((bench.lab.folder / "runs").iterdir()) == before


def test_a_run_that_has_not_begun_can_be_neither_forked_nor_replayed(lab):
    with lab.store() as store:
        with pytest.raises(ConfigError, match="can't be forked at iteration 0") as caught:
            fork(store, 0, store.config, lab.folder / "forks")
        assert caught.value.hint == "resume it first"
        with pytest.raises(ConfigError, match="nothing to replay"):
            replay(store, lab.task, lab.backend)


# Replays.


def test_a_recorded_run_replays_without_a_model_and_without_an_evaluation(bench):
    backend, observer = DummyBackend(), RecordingObserver()
    with bench.open() as store:
        files = {path: path.read_bytes() for path in store.path.glob("*.json*")}
        again = replay(store, bench.lab.task, backend, (observer,))
        assert {path: path.read_bytes() for path in files} == files
        assert outcome(store) == bench.outcome
    assert (again.same, again.difference, again.changed_prompts) == (True, "", ())
    assert (again.iterations, again.answers, again.evaluations) == (ITERATIONS, bench.calls, 0)
    assert again.best == again.recorded_best == (bench.result.best.id, bench.result.best.latency_us)
    assert backend.evaluated == []
    assert backend.calls.estimate == backend.calls.evaluate == backend.calls.screen == 0
    assert observer.of("model_call_started") == []
    beams = [event["beam"] for event in observer.of("beam_selected")]
    assert beams == [[id_ for id_, _ in state.beam] for state in bench.history[1:]]


class Rejudging(DummyBackend):
    """A newer version of the judge, which finds kernels slower by `more_us(source)`."""

    version = "2"

    def __init__(self, more_us):
        super().__init__()
        self._more_us = more_us

    def _judge(self, task, source, stages, seeds):
        evaluation = super()._judge(task, source, stages, seeds)
        if evaluation.latency_us is None:
            return evaluation
        more_us = self._more_us(evaluation.latency_us)
        return evaluation.model_copy(update={"latency_us": evaluation.latency_us + more_us})


def test_a_newer_judge_that_agrees_judges_anew_and_finds_no_difference(bench):
    backend = Rejudging(lambda latency_us: 0.0)
    with bench.open() as store:
        again = replay(store, bench.lab.task, backend)
        assert again.evaluations == store.journal.counts().evaluations == backend.calls.estimate
    assert again.same
    assert again.changed_prompts == ()


def test_a_newer_judge_that_disagrees_is_told_by_the_first_difference(lab):
    # Without lessons the same questions are asked although the judge changed its mind.
    recorded = Bench(lab, topk_experiences=0)
    with recorded.open() as store:
        slower = replay(store, lab.task, Rejudging(lambda latency_us: 1.0))
        # The baseline takes 100 us; what was faster is slower now.
        other = replay(store, lab.task, Rejudging(lambda us: 60.0 if us < 100 else 0.0))
    assert slower.difference == (
        "the baseline: the beam was baseline (100.000 us), now it is baseline (101.000 us)"
    )
    assert other.difference.startswith("iteration 1: the beam was i1-c0-")
    assert ", now it is baseline (100.000 us), " in other.difference
    assert other.best == ("baseline", 100.0)
    for again in (slower, other):
        assert not again.same
        assert "\n" not in again.difference
        assert again.evaluations > 0
        assert again.recorded_best == recorded.history[-1].best


def test_a_newer_judge_for_which_no_answer_is_recorded_ends_the_replay(bench):
    """Other pairs become lessons, and nobody was asked about those."""
    with bench.open() as store:
        again = replay(store, bench.lab.task, Rejudging(lambda us: 60.0 if us < 100 else 0.0))
    assert again.difference == "iteration 1 was recorded and could not be replayed"
    assert again.iterations == 0


def test_other_prompts_are_counted_and_get_the_recorded_answers(bench, monkeypatch):
    # The package has a function of that name, too.
    render = sys.modules["accelopt.prompts.render"]
    load = render.load_template

    def other(name, keys):
        template = load(name, keys)
        if name != "planner.md":
            return template

        class Longer:
            def fill(self, values):
                system, user = template.fill(values)
                return f"{system}\nBe brief.", user

        return Longer()

    monkeypatch.setattr(render, "load_template", other)
    backend = DummyBackend()
    with bench.open() as store:
        again = replay(store, bench.lab.task, backend)
        planners = {plan.id for plan in store.plans()}
    assert again.same
    assert set(again.changed_prompts) == planners
    assert len(again.changed_prompts) == len(planners)
    assert (again.answers, again.evaluations) == (bench.calls, 0)


@pytest.mark.parametrize("events", [12, 40, 70, 100])
def test_a_stopped_run_replays_as_far_as_it_got(lab, events):
    stop, stopper = stopping_after(events)
    with lab.store(iterations=3) as store:
        assert lab.run(store, observers=(stopper,), stop=stop).status == "stopped"
    with RunStore.open(store.path) as store:
        backend = DummyBackend()
        again = replay(store, lab.task, backend)
        assert again.same
        assert again.iterations == store.summary().iterations
        assert again.best == again.recorded_best
        assert backend.calls.estimate == again.evaluations == 0
        assert store.status == "stopped"


def test_a_run_with_unusable_answers_replays_with_its_repeated_questions(lab):
    def answer(request):
        refuses = request.role == "executor" and request.index == 0 and not request.complaint
        return "I'm sorry, I can't." if refuses else lab.model._answer(request)

    model = ScriptedChatModel(answer=answer)
    with lab.store(reply_reasks=1) as store:
        result = lab.run(store, model=model)
    assert result.failures["reply_format:refusal"] > 1
    with RunStore.open(store.path) as store:
        again = replay(store, lab.task, DummyBackend())
    assert (again.same, again.iterations, again.answers) == (True, 2, model.calls)
    assert again.changed_prompts == ()


@pytest.mark.parametrize("role", ["planner", "executor", "fixer", "summarizer"])
def test_a_run_that_lost_calls_for_good_replays_without_them(lab, role):
    lost = []

    def answer(request):
        if request.role == role and not lost:
            lost.append(request)
            return ConnectionError("the server is gone")
        return lab.model._answer(request)

    with lab.store() as store:
        result = lab.run(store, model=ScriptedChatModel(answer=answer))
    assert result.failures == {"connection": 1}
    with RunStore.open(store.path) as store:
        again = replay(store, lab.task, DummyBackend())
    assert (again.difference, again.iterations) == ("", 2)


# One process at a time.


HOLDER = """
import sys, time
from pathlib import Path
from accelopt.run_store import RunStore

store = RunStore.open(Path(sys.argv[1]))
with store.exclusive():
    store.update(status="running")
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def held(lab):
    """A finished run that another process holds, and this process."""
    with lab.store() as store:
        lab.run(store)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield store.path, process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_until_the_first_is_gone(lab, held):
    path, process = held
    with RunStore.open(path) as store:
        assert store.status == "running"
        calls = lab.model.calls
        with pytest.raises(StoreError, match="is being run by another process") as caught:
            lab.run(store)
        assert "\n" not in str(caught.value)
        assert lab.model.calls == calls
        assert json.loads((path / "run.json").read_text())["status"] == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    with RunStore.open(path) as store:
        assert store.status == "interrupted"
        assert lab.run(store).status == "finished"


def test_a_run_that_another_process_holds_replays_and_forks(lab, held):
    path, _ = held
    with RunStore.open(path) as store:
        assert replay(store, lab.task, DummyBackend()).same
        config = changed(store.config, {"iterations": 3}, fork=True)
        with fork(store, 1, config, lab.folder / "runs") as other:
            assert lab.run(other).status == "finished"


# More of the same run.


def test_more_iterations_go_on_where_the_run_had_ended(bench, new_lab, tmp_path):
    short = Bench(new_lab(tmp_path))
    with short.open() as store:
        more = changed(store.config, {"iterations": ITERATIONS + 2}, fork=False)
        store.reconfigure(more)
        result, model, backend, observer = short.run(store)
        assert result.status == "finished"
        assert {e["iteration"] for e in observer.of("model_call_started")} == {5, 6}
        history = beam_history(store.journal)
        assert history[: ITERATIONS + 1] == bench.history
        assert len(history) == ITERATIONS + 3
        assert result.model_calls == short.calls + model.calls
        extended = outcome(store)
    straight = new_lab(tmp_path / "straight")
    with straight.store(iterations=ITERATIONS + 2) as store:
        straight.run(store)
        assert extended == outcome(store)
        assert straight.model.calls == short.calls + model.calls
        assert straight.backend.calls.estimate == (
            short.lab.backend.calls.estimate + backend.calls.estimate
        )


# Files of a newer version.


def make_newer(path):
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.commit()
    connection.close()


def test_a_newer_run_file_is_refused(lab):
    with lab.store() as store:
        lab.run(store)
    file = store.path / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 99, "new": 1}))
    with pytest.raises(
        SchemaVersionError, match="has schema version 99, this accelopt reads up to"
    ):
        RunStore.open(store.path)
    summaries, broken = RunStore.list_runs(store.path.parent)
    assert summaries == []
    assert "schema version 99" in broken[store.path]


@pytest.mark.parametrize("use", ["run", "fork", "replay", "summary"])
def test_a_newer_journal_is_refused(lab, use):
    with lab.store() as store:
        lab.run(store)
        store.update(status="stopped")
    make_newer(store.path / "journal.sqlite")
    calls = lab.model.calls
    with RunStore.open(store.path) as store:
        uses = {
            "run": lambda: lab.run(store),
            "fork": lambda: fork(store, 1, store.config, lab.folder / "forks"),
            "replay": lambda: replay(store, lab.task, lab.backend),
            "summary": store.summary,
        }
        with pytest.raises(
            SchemaVersionError, match=r"journal\.sqlite has schema version 99"
        ) as got:
            uses[use]()
    assert got.value.hint == "upgrade accelopt"
    assert "\n" not in str(got.value)
    assert lab.model.calls == calls


def test_a_newer_cache_of_evaluations_is_not_used_and_said_so(lab):
    cache = lab.folder / "evaluations.sqlite"
    Journal(cache).close()
    make_newer(cache)
    before = cache.read_bytes()
    with lab.store(evaluation_cache=str(cache)) as store:
        assert lab.run(store).status == "finished"
    [warning] = [e["message"] for e in lab.observer.of("warning")]
    assert warning.startswith("the cache of evaluations is not used: ")
    assert "schema version 99" in warning
    assert cache.read_bytes() == before
