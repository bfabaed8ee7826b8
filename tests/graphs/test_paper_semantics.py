"""The claims of the paper's loop, one test each.

Pinned on the pure functions, and not repeated here:

* `tests/core/test_curation.py`: who stands for a plan, strict thresholds, TopK and its halves, the
  global ranking, the queue;
* `tests/core/test_selection.py`: parents compete with children, one child per plan, ties, elitism;
* `test_graph_search.py`: call counts for small settings, the fastest kernel stays in the beam, a
  lesson without content is not stored, what the queue dropped is not offered.
"""

from __future__ import annotations

import re

import pytest

from accelopt import paths
from accelopt.beam_history import beam_history
from accelopt.config import PRESETS, RunConfig
from accelopt.curation import choose_pairs, teaches
from accelopt.embedders import HashedTokenEmbedder
from accelopt.memory import OptimizationMemory
from accelopt.models import Ensemble, Member, Role
from accelopt.run_store import RunStore
from accelopt.selection import Contender, select_beam
from accelopt.testing import DummyBackend, ScriptedChatModel, dummy_kernel, dummy_task

HALF, FULL = (0,), (0, 21)
"""Seeds of the dummy task: those of a kernel that does not matter, and those of one that does."""


def latency_of(text):
    """Latency of a kernel for the dummy backend."""
    return float(re.search(r"# latency_us: ([\d.]+)", text).group(1))


def count(chat, role):
    return sum(request.role == role for request in chat.requests)


def samples_of_one_plan(lab, *kernels):
    """An executor whose sample k is the k-th kernel, given as latency or (latency, status)."""

    def executor(request):
        given = kernels[request.index]
        latency_us, status = given if isinstance(given, tuple) else (given, "ok")
        return lab.fenced(dummy_kernel(latency_us, status=status, note=f"sample {request.index}"))

    return lab.by_role(executor)


def one_plan(lab, *kernels, **settings):
    """A run with one plan of the given samples: store, lessons and the seeds tried by latency.

    The baseline takes 100 us; a beam of one is full from the start.
    """
    options = {"beam_width": 1, "num_plans": 1, "iterations": 1, "fixer_rounds": 0}
    store = lab.store(**(options | {"num_samples": len(kernels)} | settings))
    lab.run(store, model=samples_of_one_plan(lab, *kernels))
    tried = {
        latency_of(text): seeds
        for text, seeds in zip(lab.backend.evaluated, lab.backend.seeds_tried, strict=True)
    }
    lessons = [(lesson.sign, lesson.speedup) for lesson in store.experiences()]
    return store, lessons, tried


# Sizes.


def calls(B, N, K, T):
    """Planner and executor calls of section 11: one parent at first, then B."""
    planners = N + (T - 1) * B * N
    return planners, K * planners


def test_the_papers_settings_make_1092_planner_and_2184_executor_calls():
    paper = RunConfig.load(preset="paper")
    sizes = (paper.beam_width, paper.num_plans, paper.num_samples, paper.iterations)
    assert calls(*sizes) == (1092, 2184)


@pytest.mark.parametrize(("B", "N", "K", "T"), [(2, 4, 2, 3), (3, 4, 1, 2)])
def test_a_run_makes_the_calls_of_section_11_and_at_most_topk_summaries_an_iteration(
    lab, B, N, K, T
):
    topk = 4
    factors = (0.9, 0.8, 1.5, 1.6)

    def executor(request):
        us = latency_of(request.kernel) * factors[int(request.plan.split()[1])]
        return lab.fenced(dummy_kernel(round(us, 6), note=f"{request.plan} {request.index}"))

    chat = lab.by_role(executor)
    sizes = {"beam_width": B, "num_plans": N, "num_samples": K, "iterations": T}
    store = lab.store(**sizes, fixer_rounds=0, topk_experiences=topk)
    result = lab.run(store, model=chat)
    planners, executors = calls(B, N, K, T)
    assert count(chat, "planner") == planners
    assert count(chat, "executor") == executors
    assert count(chat, "fixer") == 0
    # The last iteration's lessons are for later runs; upstream never makes them.
    assert count(chat, "summarizer") == topk * T
    assert result.model_calls == planners + executors + topk * T
    attempts = [candidate for candidate in store.candidates() if candidate.plan]
    assert len(attempts) == executors


# Presets.


def test_the_preset_paper_is_pinned():
    assert PRESETS["paper"] == {
        "beam_width": 6,
        "num_plans": 12,
        "num_samples": 2,
        "iterations": 16,
        "fixer_rounds": 0,
        "topk_experiences": 8,
        "memory_capacity": 16,
        "positive_threshold": 1.04,
        "negative_threshold": 1.15,
        "memory": "none",
        "patience": 0,
    }


def test_the_preset_quick_is_pinned():
    assert PRESETS["quick"] == {
        "beam_width": 2,
        "num_plans": 3,
        "num_samples": 1,
        "iterations": 4,
        "fixer_rounds": 1,
        "topk_experiences": 4,
        "patience": 2,
    }


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_changes_its_own_settings_and_no_other(name):
    given = PRESETS[name] | {"preset": name}
    assert RunConfig.load(preset=name) == RunConfig.load(**given)


@pytest.mark.parametrize(("memory", "offers_old"), [(None, False), ("", True)])
def test_the_preset_paper_starts_with_an_empty_private_memory_although_the_users_is_full(
    lab, memory, offers_old
):
    lab.run(lab.store(memory="", num_plans=3))
    with OptimizationMemory(paths.memory_dir(), HashedTokenEmbedder()) as shared:
        before = shared.count()
    assert before > 1
    config = RunConfig.load(
        preset="paper", task=lab.task.name, backend="dummy", num_plans=2, iterations=2,
        evaluation_cache="none", memory=memory,
    )  # fmt: skip
    chat = ScriptedChatModel(answer=lab.model._answer)
    with RunStore.create(lab.folder / "runs", config, lab.task.name) as store:
        lab.run(store, model=chat)
        learned = len(store.experiences())
    offered = [request.experiences for request in chat.requests if request.role == "planner"]
    assert bool(offered[0]) == offers_old
    with OptimizationMemory(paths.memory_dir(), HashedTokenEmbedder()) as shared:
        assert shared.count() - before == (learned if offers_old else 0)
    assert learned


def test_the_preset_paper_repairs_nothing(lab):
    config = RunConfig.load(
        preset="paper", task=lab.task.name, backend="dummy", num_plans=1, num_samples=1,
        iterations=1, evaluation_cache="none",
    )  # fmt: skip
    chat = samples_of_one_plan(lab, (50, "incorrect"))
    with RunStore.create(lab.folder / "runs", config, lab.task.name) as store:
        lab.run(store, model=chat)
    assert [request.role for request in chat.requests] == ["planner", "executor"]


# Beam selection.


def test_a_beam_holds_no_two_kernels_of_one_trace():
    def contender(id_, latency_us, source, trace):
        return Contender(
            id=id_, plan=id_, latency_us=latency_us, source_hash=source, trace_hash=trace
        )

    base = contender("baseline", 100.0, "a", "t0")
    same = [contender(f"i1-c0-p{n}-s0", 50.0 + n, f"s{n}", "t1") for n in range(3)]
    beam = select_beam([base], same, base, 4)
    assert [entry.id for entry in beam] == ["i1-c0-p0-s0", "baseline"]
    other = contender("i1-c0-p3-s0", 60.0, "s3", "t2")
    assert other in select_beam([base], [*same, other], base, 4)
    # Without a trace only the source tells programs apart.
    unknown = [contender(f"i1-c0-p{n}-s0", 50.0 + n, f"s{n}", "") for n in range(3)]
    assert len(select_beam([base], unknown, base, 4)) == 4


def test_in_a_run_programs_of_one_trace_take_one_place(lab):
    class OneTrace(DummyBackend):
        """All kernels of one latency do the same."""

        def _judge(self, task, source, stages, seeds):
            found = super()._judge(task, source, stages, seeds)
            return found.model_copy(update={"trace_hash": f"trace {latency_of(source.text)}"})

    backend = OneTrace()
    chat = lab.by_role(
        lambda request: lab.fenced(dummy_kernel(50, note=f"{request.plan} {request.index}"))
    )
    store = lab.store(beam_width=4, num_plans=3, iterations=1)
    lab.run(store, model=chat, backend=backend)
    assert [id_ for id_, _ in beam_history(store.journal)[-1].beam] == ["i1-c0-p0-s0", "baseline"]
    assert len({candidate.source.text for candidate in store.candidates()}) == 1 + 3 * 2


def test_the_beam_of_any_run_is_never_empty_and_never_holds_one_program_twice(lab):
    with lab.store(beam_width=3, num_plans=3, iterations=4) as store:
        lab.run(store)
        programs = {c.id: c.evaluation.trace_hash for c in store.candidates()}
        for state in beam_history(store.journal):
            ids = [id_ for id_, _ in state.beam]
            assert 1 <= len(ids) <= 3
            assert len({programs[id_] for id_ in ids}) == len(ids)


# Lessons.


@pytest.mark.parametrize(
    ("latencies", "lessons"),
    [
        ((50, 200), [("positive", 2.0)]),  # a winner hides a bad loser
        ((50, 25), [("positive", 4.0)]),
        ((125, 200), [("negative", 2.0)]),  # all slower: the worst
        ((100, 200), []),  # the best changes nothing
    ],
)
def test_one_sample_stands_for_its_plan(lab, latencies, lessons):
    assert one_plan(lab, *latencies)[1] == lessons


@pytest.mark.parametrize(
    ("latency_us", "signs"),
    [(96.2, []), (96.1, ["positive"]), (114.9, []), (115.1, ["negative"])],
)
def test_a_lesson_takes_more_than_4_percent_faster_or_15_percent_slower(lab, latency_us, signs):
    found = one_plan(lab, latency_us)[1]
    assert [sign for sign, _ in found] == signs


def test_exactly_4_percent_faster_is_no_lesson(lab):
    # 104 / 100 is exactly the threshold.
    chat = samples_of_one_plan(lab, 100)
    with lab.store(num_plans=1, num_samples=1, iterations=1) as store:
        lab.run(store, model=chat, task=dummy_task(baseline_us=104))
        assert store.experiences() == []
        assert store.candidate("i1-c0-p0-s0").latency_us == 100


@pytest.mark.parametrize("speedup", [0.5, 0.86, 0.8695, 0.87, 1.0, 1.04, 1.0401, 3.0])
def test_what_may_teach_is_what_curation_would_take(speedup):
    from accelopt.curation import Sample

    options = {"topk": 8, "positive_threshold": 1.04, "negative_threshold": 1.15}
    alone = Sample(id="i1-c0-p0-s0", parent="baseline", plan="i1-c0-p0", speedup=speedup)
    assert teaches(speedup, **options) == bool(choose_pairs([alone], **options))
    assert not teaches(speedup, **(options | {"topk": 0}))


@pytest.mark.parametrize(
    ("factors", "signs"),
    [
        ((0.9, 0.8, 0.7, 0.6, 0.5), ["positive", "positive"]),
        ((0.9, 0.8, 0.7, 2.0, 3.0), ["negative", "negative", "positive", "positive"]),
        ((0.9, 2.0, 3.0, 4.0, 5.0), ["negative", "negative", "negative", "positive"]),
        ((1.5, 2.0, 3.0, 4.0, 5.0), ["negative"] * 4),
    ],
)
def test_of_topk_lessons_at_most_half_are_positive(lab, factors, signs):
    def executor(request):
        us = 100 * factors[int(request.plan.split()[1])]
        return lab.fenced(dummy_kernel(us, note=request.plan))

    with lab.store(num_plans=5, num_samples=1, iterations=1, topk_experiences=4) as store:
        lab.run(store, model=lab.by_role(executor))
        assert sorted(lesson.sign for lesson in store.experiences()) == signs


def test_the_capacity_bounds_what_a_run_is_offered_and_not_what_the_store_holds(lab):
    with lab.store(iterations=4, num_plans=3, memory_capacity=1) as store:
        lab.run(store)
        learned = {lesson.id for lesson in store.experiences()}
        with OptimizationMemory(store.path / "memory", HashedTokenEmbedder()) as memory:
            held = {lesson.id for lesson in memory.all()}
    offered = [request.experiences for request in lab.model.requests if request.role == "planner"]
    assert max(len(lessons) for lessons in offered) == 1
    assert len(learned) > 4
    assert held == learned


# Chance.


def with_voices(lab, **settings):
    """A run whose planner is one of three models: who was asked, and all that was decided."""

    def voice(name):
        return ScriptedChatModel(
            answer=lambda request: (
                f"{name}: {lab.model._answer(request)}"
                if request.role == "planner"
                else lab.model._answer(request)
            )
        )

    planners = Ensemble(tuple(Member(name, 1.0, voice(name)) for name in ("a", "b", "c")))
    models = dict.fromkeys(Role, Ensemble.of("scripted", voice("-"))) | {Role.PLANNER: planners}
    lab.observer.events.clear()
    with lab.store(**({"num_plans": 4} | settings)) as store:
        lab.run(store, chat_models=models)
        asked = {
            event["slot"]: event["model"]
            for event in lab.observer.of("model_call_started")
            if event["role"] == "planner"
        }
        decided = (
            beam_history(store.journal),
            [(c.id, c.parent, c.source.text, c.latency_us) for c in store.candidates()],
            [(plan.id, plan.text) for plan in store.plans()],
            [(e.id.split("/")[1], e.title, e.speedup) for e in store.experiences()],
        )
    return asked, decided


def test_the_same_seed_picks_the_same_members_and_gives_the_same_run_under_any_concurrency(lab):
    alone = with_voices(lab, model_concurrency=1, workers=1)
    assert set(alone[0].values()) == {"a", "b", "c"}
    assert with_voices(lab, model_concurrency=8, workers=4) == alone


def test_another_seed_picks_other_members_of_an_ensemble(lab):
    first, second = (with_voices(lab, seed=seed, iterations=1)[0] for seed in (0, 1))
    assert first.keys() == second.keys()
    assert first != second


def test_another_seed_shuffles_the_profile_and_changes_nothing_else_of_the_prompt(lab):
    prompts = []
    for seed in (1, 1, 2):
        chat = ScriptedChatModel(answer=lab.model._answer)
        lab.run(lab.store(iterations=1, num_plans=1, seed=seed), model=chat)
        prompts.append(next(text for text in chat.prompts if "Write one plan" in text))
    assert prompts[0] == prompts[1] != prompts[2]
    assert sorted(prompts[0].splitlines()) == sorted(prompts[2].splitlines())


# Kernels that nothing depends on.


@pytest.mark.parametrize(
    ("latency_us", "topk", "seeds"),
    [
        (105, 8, HALF),  # neither faster than the full beam nor slow enough for a lesson
        (100, 8, HALF),  # a tie, which the incumbent wins
        (99.9, 8, FULL),  # may enter the beam
        (120, 8, FULL),  # may become a lesson
        (120, 0, HALF),  # nothing is learned
    ],
)
def test_only_a_kernel_that_can_enter_the_beam_or_teach_is_compared_on_all_seeds(
    lab, latency_us, topk, seeds
):
    _, _, tried = one_plan(lab, latency_us, topk_experiences=topk)
    assert tried == {100.0: FULL, latency_us: seeds}


@pytest.mark.parametrize(("beam_width", "seeds"), [(1, HALF), (2, FULL)])
def test_while_the_beam_has_room_every_kernel_may_enter_it(lab, beam_width, seeds):
    store, _, tried = one_plan(lab, 105, beam_width=beam_width)
    assert tried[105] == seeds
    beam = [id_ for id_, _ in beam_history(store.journal)[-1].beam]
    assert ("i1-c0-p0-s0" in beam) == (seeds == FULL)


def test_a_half_compared_kernel_is_never_selected_never_best_and_never_a_lesson(lab):
    store, lessons, tried = one_plan(lab, 105, iterations=3, patience=0)
    assert tried[105] == HALF
    half = store.candidate("i1-c0-p0-s0")
    assert half.evaluation.right_so_far
    assert not half.evaluation.correct
    assert half.latency_us is None
    assert lessons == []
    for state in beam_history(store.journal):
        assert state.beam == (("baseline", 100.0),)
        assert state.best == ("baseline", 100.0)
    assert store.summary().best_latency_us == 100


@pytest.mark.parametrize("stands", [100, 98])
def test_a_kernel_in_the_dead_zone_stands_for_its_plan_and_hides_a_bad_sample(lab, stands):
    # A kernel that ties with the beam is compared on one seed only; one that is faster on all.
    _, lessons, tried = one_plan(lab, stands, 200)
    assert tried[200] == FULL
    assert lessons == []


@pytest.mark.parametrize("stands", [100, 98])
def test_a_wrong_kernel_stands_for_nothing(lab, stands):
    store, lessons, _ = one_plan(lab, (stands, "incorrect"), 200)
    assert lessons == [("negative", 2.0)]
    assert store.candidate("i1-c0-p0-s0").evaluation.status == "incorrect"


def test_a_planner_is_told_the_speedup_of_a_half_compared_kernel(lab):
    chat = samples_of_one_plan(lab, 105)
    settings = {"beam_width": 1, "num_plans": 1, "num_samples": 1, "iterations": 2}
    lab.run(lab.store(**settings), model=chat)
    last = [request for request in chat.requests if request.role == "planner"][-1]
    assert last.tried == ("plan 0 (gave 0.95x)",)
