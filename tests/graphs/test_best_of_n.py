"""The graph `best-of-n`: the baseline sampled again and again, without memory and beam."""

from __future__ import annotations

import pytest

from accelopt import paths, slots
from accelopt.beam_history import beam_history
from accelopt.plugins import installed
from accelopt.replay import replay
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, ScriptedChatModel, dummy_kernel
from accelopt_graphs.best_of_n import build_best_of_n


class Killed(BaseException):
    """Stands for the death of the process: nothing catches it."""


@pytest.fixture
def lab(lab):
    lab.build = build_best_of_n
    return lab


def store_of(lab, **settings):
    return lab.store(**({"graph": "best-of-n", "num_plans": 3, "iterations": 3} | settings))


def copied(model, *, until=None, instead=None):
    """A model of its own with the same answers; after `until` calls with `instead`."""

    def answer(request):
        if until is not None and made.calls > until:
            return instead
        return model._answer(request)

    made = ScriptedChatModel(answer=answer)
    return made


def of_role(chat, role):
    return [request for request in chat.requests if request.role == role]


def serial(lab, latencies):
    """A model whose n-th kernel has the n-th latency."""
    left = iter(enumerate(latencies))

    def executor(request):
        number, latency_us = next(left)
        return lab.fenced(dummy_kernel(latency_us, note=f"kernel {number}"))

    return lab.by_role(executor)


def outcome(store):
    return (
        beam_history(store.journal),
        [(c.id, c.parent, c.source.text, c.latency_us, c.fixer_rounds) for c in store.candidates()],
        [(plan.id, plan.parent, plan.text) for plan in store.plans()],
        store.best_path.read_text().split("\n", 1)[1],
    )


def test_it_is_registered_drawn_and_has_neither_memory_nor_beam_selection():
    graph = installed().graph("best-of-n")
    assert graph.name == "best-of-n"
    assert "best" not in graph.description.split(":")[0]
    drawn = graph.mermaid()
    for node in ("baseline", "draw", "planner", "executor", "evaluate", "fixer", "keep_best"):
        assert f"{node}(" in drawn
    for node in ("recall", "curate", "summarizer", "memory", "beam_selection"):
        assert f"{node}(" not in drawn
        assert f"{node}(" in installed().graph("optimize").mermaid()


@pytest.mark.parametrize(("N", "K", "T"), [(1, 1, 1), (3, 2, 2), (2, 1, 4)])
def test_it_makes_t_n_planner_calls_and_t_n_k_executor_calls_whatever_the_beam_width(lab, N, K, T):
    chat = copied(lab.model)
    sizes = {"num_plans": N, "num_samples": K, "iterations": T, "beam_width": 5}
    result = lab.run(store_of(lab, **sizes, fixer_rounds=0), model=chat)
    assert len(of_role(chat, "planner")) == T * N
    assert len(of_role(chat, "executor")) == T * N * K
    assert chat.calls == result.model_calls == T * N * (1 + K)
    planned = [event["planned_evaluations"] for event in lab.observer.of("iteration_started")]
    assert planned == [N * K] * T


def test_every_plan_and_every_kernel_comes_from_the_baseline_and_nothing_earlier_is_told(lab):
    with store_of(lab) as store:
        lab.run(store)
        assert {plan.parent for plan in store.plans()} == {"baseline"}
        assert {c.parent for c in store.candidates()} == {"", "baseline"}
        beams = [beam for state in beam_history(store.journal) for beam in state.beam]
        assert set(beams) == {("baseline", 100.0)}
    baseline = lab.task.baseline.text
    assert {request.kernel for request in of_role(lab.model, "executor")} == {baseline}
    for request in of_role(lab.model, "planner"):
        assert (request.kernel, request.tried, request.experiences) == (baseline, (), ())


@pytest.mark.parametrize(("graph", "touched"), [("best-of-n", False), ("optimize", True)])
def test_the_memory_is_not_touched(lab, graph, touched):
    with lab.store(graph=graph, memory="", iterations=2) as store:
        chat = copied(lab.model)
        installed().graph(graph).run(lab.services(store, model=chat))
        asked = store.journal.retrieval(slots.retrieval_slot(1, 0))
        assert (asked is not None) == touched
        assert bool(store.experiences()) == touched
    assert paths.memory_dir().exists() == touched
    assert bool(of_role(chat, "summarizer")) == touched


def test_the_best_is_kept_over_all_rounds(lab):
    chat = serial(lab, [90, 95, 70, 80, 60, 85])
    settings = {"num_plans": 1, "num_samples": 2, "iterations": 3}
    with store_of(lab, **settings) as store:
        result = lab.run(store, model=chat)
        best = [state.best for state in beam_history(store.journal)]
    assert [latency_us for _, latency_us in best] == [100, 90, 70, 60]
    assert [slots.iteration_of(id_) for id_, _ in best] == [0, 1, 2, 3]
    assert (result.best.id, result.best.latency_us) == best[-1]


def test_a_later_slower_kernel_does_not_take_the_place_of_the_best(lab):
    settings = {"num_plans": 1, "num_samples": 1, "iterations": 3}
    result = lab.run(store_of(lab, **settings), model=serial(lab, [60, 70, 60]))
    assert (result.best.id, result.best.latency_us) == ("i1-c0-p0-s0", 60)
    # What is not faster than the best so far is compared on one seed only.
    assert lab.backend.seeds_tried == [(0, 21), (0, 21), (0,), (0,)]


def test_without_a_correct_kernel_the_baseline_is_the_best(lab):
    chat = lab.by_role(
        lambda request: lab.fenced(dummy_kernel(10, status="incorrect", note=request.plan))
    )
    assert lab.run(store_of(lab, fixer_rounds=0), model=chat).best.id == "baseline"


@pytest.mark.parametrize(("patience", "rounds"), [(0, 6), (1, 3), (2, 4), (9, 6)])
def test_it_ends_after_patience_rounds_without_a_faster_kernel(lab, patience, rounds):
    settings = {"num_plans": 1, "num_samples": 1, "iterations": 6, "patience": patience}
    result = lab.run(store_of(lab, **settings), model=serial(lab, [90, 80, *[85] * 9]))
    assert len(lab.observer.of("iteration_started")) == rounds
    assert (result.status, result.best.latency_us) == ("finished", 80)


@pytest.mark.parametrize("limit", [0, 3, 8, 15, 24])
def test_killed_anywhere_it_resumes_and_pays_for_nothing_twice(lab, limit):
    with store_of(lab) as straight:
        whole = copied(lab.model)
        expected = lab.run(straight, model=whole)
        decided = outcome(straight)
    assert whole.calls > limit
    store, backend = store_of(lab), DummyBackend()
    with pytest.raises(Killed):
        lab.run(store, model=copied(lab.model, until=limit, instead=Killed()), backend=backend)
    with RunStore.open(store.path) as again:
        assert again.journal.counts().model_calls == limit
        second = copied(lab.model)
        result = lab.run(again, model=second, backend=backend)
        # `lab.run` closes the store; it opens again when it is read.
        assert outcome(again) == decided
        again.close()
    assert limit + second.calls == whole.calls == result.model_calls
    assert backend.calls.estimate == expected.evaluations == result.evaluations
    assert result.best == expected.best


def test_it_replays_without_a_model(lab):
    with store_of(lab) as store:
        result = lab.run(store)
    with RunStore.open(store.path) as again:
        backend = DummyBackend()
        found = replay(again, lab.task, backend)
    assert found.same, found.difference
    assert (found.iterations, found.answers) == (3, result.model_calls)
    assert found.best == (result.best.id, result.best.latency_us)
    assert backend.calls.estimate == backend.calls.evaluate == 0
