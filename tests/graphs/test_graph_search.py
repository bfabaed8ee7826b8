"""What a search does: who is asked, what survives, what is counted."""

from __future__ import annotations

import itertools

import pytest

from accelopt.embedders import HashedTokenEmbedder
from accelopt.errors import AcceloptError, BudgetExhaustedError, ChatError, StoreError
from accelopt.memory import OptimizationMemory
from accelopt.plugins import installed
from accelopt.testing import RecordingObserver, ScriptedChatModel, dummy_kernel, dummy_task


def fenced(code):
    return f"```python\n{code}```"


def model(executor, *, planner=None, fixer=None, summarizer=None):
    """A model with one function per role; a role without one must not be asked."""
    roles = {
        "planner": planner or (lambda request: f"plan {request.index}"),
        "executor": executor,
        "fixer": fixer,
        "summarizer": summarizer or (lambda request: "**Title**\nLesson."),
    }

    def answer(request):
        function = roles[request.role]
        assert function is not None, f"the {request.role} must not be asked"
        return function(request)

    return ScriptedChatModel(answer=answer)


def by_slot(latencies, **options):
    """An executor whose kernels have latencies by (plan text, sample)."""

    def executor(request):
        key = (request.plan, request.index)
        return fenced(dummy_kernel(latencies[key], note=f"{key}", **options))

    return executor


def count(chat, role):
    return sum(request.role == role for request in chat.requests)


@pytest.mark.parametrize(("B", "N", "K", "T"), [(2, 2, 2, 3), (1, 3, 1, 2), (3, 2, 1, 3)])
def test_call_counts_for_b_n_k_t_are_those_of_the_paper(lab, B, N, K, T):
    serial = iter(range(10_000))
    chat = model(lambda request: fenced(dummy_kernel(99 - 0.01 * (n := next(serial)), note=str(n))))
    settings = {"beam_width": B, "num_plans": N, "num_samples": K, "iterations": T}
    result = lab.run(lab.store(**settings, topk_experiences=0), model=chat)
    sizes = [len(event["beam"]) for event in lab.observer.of("iteration_started")]
    # One representative per plan, so the first beam has at most N children and the parent.
    assert sizes[0] == 1
    assert all(size == min(B, N + 1) for size in sizes[1:])
    assert count(chat, "planner") == N * sum(sizes)
    assert count(chat, "executor") == N * K * sum(sizes)
    assert lab.backend.calls.evaluate == 1 + N * K * sum(sizes)
    assert result.model_calls == chat.calls
    planned = [event["planned_evaluations"] for event in lab.observer.of("iteration_started")]
    assert planned == [size * N * K for size in sizes]


def test_the_fastest_verified_kernel_is_in_every_later_beam(lab):
    with lab.store(iterations=4, num_plans=3) as store:
        lab.run(store)
        latencies = {c.id: c.latency_us for c in store.candidates()}
        known = {"baseline"}
        for iteration in range(1, 5):
            known |= {id_ for id_ in latencies if id_.startswith(f"i{iteration}-")}
            best = min(latencies[id_] for id_ in known if latencies[id_] is not None)
            [selected] = [
                e for e in lab.observer.of("beam_selected") if e["iteration"] == iteration
            ]
            assert latencies[selected["beam"][0]] == best


def test_a_faster_parent_outlives_slower_children(lab):
    chat = model(lambda request: fenced(dummy_kernel(150, note=f"{request.plan}{request.index}")))
    result = lab.run(lab.store(iterations=3, topk_experiences=0), model=chat)
    assert result.best.id == "baseline"
    assert [e["beam"][0] for e in lab.observer.of("beam_selected")] == ["baseline"] * 3


@pytest.mark.parametrize(("patience", "iterations"), [(0, 6), (1, 3), (2, 4), (9, 6)])
def test_a_run_ends_after_patience_iterations_without_a_faster_kernel(lab, patience, iterations):
    # The second iteration finds the best kernel; nothing later is faster.
    latencies = iter([90, 80, *[85] * 20])
    serial = iter(range(100))
    chat = model(lambda request: fenced(dummy_kernel(next(latencies), note=str(next(serial)))))
    settings = {"beam_width": 1, "num_plans": 1, "num_samples": 1, "iterations": 6}
    result = lab.run(lab.store(**settings, topk_experiences=0, patience=patience), model=chat)
    assert len(lab.observer.of("iteration_started")) == iterations
    assert result.best.latency_us == 80
    assert result.status == "finished"


def test_when_every_child_fails_the_beam_keeps_the_parent(lab):
    chat = model(
        lambda request: fenced(dummy_kernel(1, status="incorrect", note=request.plan)),
        fixer=lambda request: fenced(dummy_kernel(1, status="incorrect", note="again")),
    )
    result = lab.run(model=chat)
    assert result.best.id == "baseline"
    assert [e["beam"] for e in lab.observer.of("beam_selected")] == [["baseline"]] * 2


def test_no_beam_holds_two_kernels_of_one_program(lab):
    def executor(request):
        return fenced(f"# sample {request.index}\n" + dummy_kernel(50, note="same"))

    chat = model(executor)
    with lab.store(beam_width=4, num_plans=3) as store:
        lab.run(store, model=chat)
        assert lab.observer.of("beam_selected")[-1]["beam"] == ["i1-c0-p0-s0", "baseline"]
        # The same program is judged once, however many attempts come up with it.
        assert lab.backend.calls.evaluate == 2
        assert len(store.candidates()) == 1 + 6 + 12


def test_speedup_is_relative_to_the_immediate_parent(lab):
    latencies = {100.0: 50.0, 50.0: 40.0}

    def executor(request):
        parent_us = next(us for us in latencies if f"{us!r}" in request.kernel.split("def")[1])
        return fenced(dummy_kernel(latencies[parent_us], note=request.plan))

    chat = model(executor)
    lab.run(lab.store(beam_width=1, num_plans=1, num_samples=1), model=chat, task=dummy_task())
    found = [e["speedup"] for e in lab.observer.of("evaluation_finished") if "speedup" in e]
    assert found == [2.0, 1.25]
    asked = [r.speedup for r in chat.requests if r.role == "summarizer"]
    assert asked == [2.0, 1.25]


def test_lessons_swap_roles_for_a_slow_down_and_reach_the_next_planner(lab):
    chat = model(
        by_slot({("plan 0", 0): 50, ("plan 1", 0): 200}),
        summarizer=lambda request: f"**Times {request.speedup:.1f}**\nText {request.speedup:.1f}",
    )
    with lab.store(beam_width=1, num_samples=1) as store:
        lab.run(store, model=chat)
        lessons = {lesson.id.split("/")[1]: lesson for lesson in store.experiences()}
    good, bad = lessons["i1-c0-p0-s0"], lessons["i1-c0-p1-s0"]
    assert (good.sign, good.speedup) == ("positive", 2.0)
    assert good.slow_source == lab.task.baseline.text
    assert (bad.sign, bad.speedup) == ("negative", 2.0)
    assert bad.fast_source == lab.task.baseline.text
    planners = [r for r in chat.requests if r.role == "planner"]
    assert planners[0].experiences == ()
    assert {e.title for e in planners[-1].experiences} == {"Times 2.0"}
    assert any("Text 2.0" in prompt for prompt in chat.prompts if "Write one plan" in prompt)


def test_a_planner_is_never_offered_more_than_the_capacity_nor_what_the_run_forgot(lab):
    with lab.store(iterations=4, memory_capacity=2, num_plans=3) as store:
        lab.run(store)
        order = [
            f"{store.run_id}/{event['candidate']}" for event in lab.observer.of("experience_added")
        ]
        assert len(order) > 4
        planners = [r for r in lab.model.requests if r.role == "planner"]
        assert max(len(r.experiences) for r in planners) == 2
        last = [e.id for r in planners for e in r.experiences][-2:]
    added_before = [
        event
        for event in lab.observer.events
        if event["kind"] in ("experience_added",) and event["iteration"] < 4
    ]
    newest = {f"{store.run_id}/{event['candidate']}" for event in added_before[-2:]}
    assert set(last) == newest


def test_a_lesson_without_content_is_never_stored(lab):
    chat = model(
        by_slot({("plan 0", 0): 50, ("plan 1", 0): 200}),
        summarizer=lambda request: "NO OPTIMIZATION FOUND",
    )
    with lab.store(iterations=1, num_samples=1) as store:
        lab.run(store, model=chat)
        assert store.experiences() == []
        with OptimizationMemory(store.path / "memory", HashedTokenEmbedder()) as memory:
            assert memory.count() == 0
    assert count(chat, "summarizer") == 2


def test_runs_of_a_user_share_the_memory(lab):
    first = lab.store(memory="", iterations=1)
    lab.run(first)
    lab.run(lab.store(memory="", iterations=1), model=lab.model)
    offered = [r.experiences for r in lab.model.requests if r.role == "planner"]
    assert offered[0] == ()
    assert all(e.id.startswith(first.run_id) for e in offered[-1])
    assert offered[-1]


def test_another_embedders_memory_is_refused_before_anything_is_paid_for(lab, tmp_path):
    class Other(HashedTokenEmbedder):
        @property
        def name(self):
            return "other"

    OptimizationMemory(tmp_path / "memory", Other()).close()
    with pytest.raises(StoreError, match="other"):
        lab.run(lab.store(memory=str(tmp_path / "memory")))
    assert lab.model.calls == 0


def test_the_fixer_gets_at_most_f_rounds_and_the_result_keeps_plan_and_sample(lab):
    chat = model(
        lambda request: fenced(dummy_kernel(10, status="incorrect", note=request.plan)),
        fixer=lambda request: (
            fenced(
                dummy_kernel(
                    20, status="ok" if request.index == 2 else "timeout", note=request.plan
                )
            )
            if request.plan == "plan 0"
            else fenced(dummy_kernel(30, status="rejected", note=f"{request.plan}{request.index}"))
        ),
    )
    with lab.store(iterations=1, num_samples=1, fixer_rounds=3) as store:
        result = lab.run(store, model=chat)
        repaired, hopeless = (store.candidate(f"i1-c0-p{n}-s0") for n in (0, 1))
        tries = [(t.id, t.fixer_rounds, t.evaluation.status) for t in store.attempts()]
    # The second timeout is the same program again, so the fixer has nothing new to say.
    assert repaired.fixer_rounds == 1
    assert repaired.evaluation.status == "timeout"
    assert (hopeless.fixer_rounds, hopeless.evaluation.status) == (3, "rejected")
    assert (hopeless.plan, hopeless.sample, hopeless.parent) == ("i1-c0-p1", 0, "baseline")
    assert [round_ for id_, round_, _ in tries if id_ == hopeless.id] == [0, 1, 2, 3]
    assert count(chat, "fixer") == 2 + 3
    assert result.best.id == "baseline"


def test_the_fixer_sees_plan_parent_and_findings_and_its_kernel_wins(lab):
    broken = "# status: constraint_violation\n# rule: psum_overflow\n# line: 4\ndef kernel(x): 1\n"
    chat = model(
        lambda request: fenced(broken),
        fixer=lambda request: fenced(dummy_kernel(10, note="repaired")),
    )
    result = lab.run(lab.store(iterations=1, num_plans=1, num_samples=1), model=chat)
    [request] = [r for r in chat.requests if r.role == "fixer"]
    assert request.plan == "plan 0"
    assert request.parent == lab.task.baseline.text
    assert request.status == "constraint_violation"
    assert [(d.rule, d.line) for d in request.diagnostics] == [("psum_overflow", 4)]
    assert (result.best.id, result.best.fixer_rounds) == ("i1-c0-p0-s0", 1)


def test_with_no_fixer_rounds_the_fixer_is_never_asked(lab):
    chat = model(lambda request: fenced(dummy_kernel(1, status="incorrect", note=request.plan)))
    lab.run(lab.store(fixer_rounds=0), model=chat)
    assert count(chat, "fixer") == 0


@pytest.mark.parametrize("reply", [RuntimeError("boom"), "no code here", "", TimeoutError("slow")])
def test_a_failed_sample_is_recorded_and_does_not_affect_the_next(lab, reply):
    def executor(request):
        return reply if request.index == 0 else fenced(dummy_kernel(70, note=request.plan))

    with lab.store(iterations=1) as store:
        result = lab.run(store, model=model(executor))
        statuses = {c.id: c.evaluation.status.value for c in store.candidates()}
        [finding] = store.candidate("i1-c0-p0-s0").evaluation.diagnostics
    assert statuses["i1-c0-p0-s0"] == statuses["i1-c0-p1-s0"] == "load_error"
    assert statuses["i1-c0-p0-s1"] == statuses["i1-c0-p1-s1"] == "ok"
    assert finding.rule in ("model_call", "reply_format")
    assert result.best.latency_us == 70


def test_a_timeout_of_one_sample_does_not_affect_the_next(lab):
    def executor(request):
        status = "timeout" if request.index == 0 else "ok"
        return fenced(dummy_kernel(70, status=status, note=request.plan))

    result = lab.run(lab.store(iterations=1, fixer_rounds=0), model=model(executor))
    assert result.best.id == "i1-c0-p0-s1"


def test_a_failed_planner_call_costs_its_plan_only(lab):
    def planner(request):
        return RuntimeError("boom") if request.index == 0 else "plan 1"

    chat = model(by_slot({("plan 1", 0): 60, ("plan 1", 1): 61}), planner=planner)
    with lab.store(iterations=1) as store:
        result = lab.run(store, model=chat)
        assert [plan.id for plan in store.plans()] == ["i1-c0-p1"]
    assert result.best.id == "i1-c0-p1-s0"


def test_a_failed_summary_costs_its_lesson_only(lab):
    chat = model(
        by_slot({("plan 0", 0): 50, ("plan 1", 0): 60}),
        summarizer=lambda r: RuntimeError("boom") if r.speedup == 2 else "**Kept**\nText",
    )
    with lab.store(iterations=1, num_samples=1) as store:
        lab.run(store, model=chat)
        assert [lesson.title for lesson in store.experiences()] == ["Kept"]


def test_when_no_call_succeeds_the_run_says_so_and_resumes_when_the_server_is_back(lab):
    down = ScriptedChatModel(answer=lambda request: ConnectionError("refused"))
    store = lab.store(iterations=1)
    with pytest.raises(ChatError, match="refused"):
        lab.run(store, model=down)
    assert store.status == "failed"
    result = lab.run(store)
    assert result.status == "finished"
    assert result.model_calls == lab.model.calls > 0


def test_a_long_outage_ends_the_run_before_the_iterations_are_used_up(lab):
    def answer(request):
        return "plan" if request.role == "planner" else ConnectionError("gone")

    chat = ScriptedChatModel(answer=answer)
    with pytest.raises(ChatError, match="in a row"):
        lab.run(lab.store(iterations=30, model_concurrency=1), model=chat)
    assert chat.calls < 40


def test_a_budget_that_runs_out_stops_cleanly_and_resumably(lab):
    asked = itertools.count()

    def executor(request):
        if next(asked):
            return BudgetExhaustedError("the budget of 3 calls is used up")
        return fenced(dummy_kernel(70, note=f"{request.index}"))

    with lab.store(iterations=1, num_samples=1) as store:
        result = lab.run(store, model=model(executor))
        assert result.status == store.status == "stopped"
        assert "budget" in store.summary().message
    assert result.best.latency_us == 70


def test_passing_errors_are_retried_and_the_answer_counts_once(lab, monkeypatch):
    monkeypatch.setattr("accelopt_graphs.stopping.StopSignal.sleep", lambda self, seconds: None)
    failures = [TimeoutError("1"), ConnectionError("2")]

    def planner(request):
        return failures.pop() if failures else "plan 0"

    chat = model(by_slot({("plan 0", 0): 60}), planner=planner)
    store = lab.store(iterations=1, num_plans=1, num_samples=1, model_retries=2)
    result = lab.run(store, model=chat)
    assert result.best.latency_us == 60
    assert count(chat, "planner") == 3
    assert result.model_calls == 3  # planner, executor, summarizer


def test_the_baseline_must_be_correct(lab):
    text = dummy_kernel(100, status="incorrect").replace(
        "# status", "# message: wrong by half\n# status"
    )
    with pytest.raises(AcceloptError, match="wrong by half") as caught:
        lab.run(task=dummy_task(baseline=text))
    assert "\n" not in str(caught.value)
    assert lab.model.calls == 0


def test_tried_plans_are_told_to_the_next_planner_of_the_same_candidate(lab):
    chat = model(
        lambda request: fenced(dummy_kernel(150, note=f"{request.plan}{request.index}")),
        planner=lambda request: f"plan {request.index} after {len(request.tried)}\nmore text",
    )
    lab.run(lab.store(topk_experiences=0, beam_width=1), model=chat)
    planners = [r for r in chat.requests if r.role == "planner"]
    assert [r.tried for r in planners[:2]] == [(), ()]
    assert (
        planners[2].tried
        == planners[3].tried
        == (
            "plan 0 after 0 (gave 0.67x)",
            "plan 1 after 0 (gave 0.67x)",
        )
    )


def test_all_n_planner_prompts_of_a_candidate_have_the_same_text_and_different_indices(lab):
    lab.run(lab.store(iterations=1, num_plans=3))
    prompts = {p for p in lab.model.prompts if "Write one plan" in p}
    assert len(prompts) == 1
    assert {r.index for r in lab.model.requests if r.role == "planner"} == {0, 1, 2}


def test_the_order_of_profile_lines_follows_the_seed(lab):
    def order(seed):
        lab.run(lab.store(iterations=1, num_plans=1, seed=seed))
        return [r for r in lab.model.requests if r.role == "planner"][-1].profile

    first, second, again = order(1), order(2), order(1)
    assert first == again
    assert first != second
    assert sorted(first) == sorted(second)
    assert "hbm_read_bytes: 100000.0" in first


def test_an_observer_that_raises_is_dropped_with_one_warning(lab):
    class Broken:
        calls = 0

        def observe(self, event):
            self.calls += 1
            raise ValueError("no terminal")

        def close(self):
            raise AssertionError("it was dropped")

    broken, other = Broken(), RecordingObserver()
    result = lab.run(observers=(broken, other))
    assert result.status == "finished"
    assert broken.calls == 1
    [warning] = other.of("warning")
    assert "Broken" in warning["message"]
    assert "no terminal" in warning["message"]
    assert other.closed == 1


def test_events_are_logged_in_the_order_they_are_observed(lab):
    with lab.store() as store:
        lab.run(store)
        assert store.events() == lab.observer.events
    kinds = lab.observer.kinds()
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert lab.observer.closed == 1


def test_the_winner_is_written_with_its_header(lab):
    with lab.store() as store:
        result = lab.run(store)
        text = store.best_path.read_text()
        summary = store.summary()
    assert text.endswith(result.best.source.text)
    header = text.removesuffix(result.best.source.text)
    assert all(line.startswith("#") for line in header.splitlines())
    assert lab.task.name in header
    assert f"{result.best.latency_us:.3f} us" in header
    assert summary.status == "finished"
    assert summary.iterations == 2
    assert summary.best_latency_us == result.best.latency_us
    assert summary.speedup == 100 / result.best.latency_us


def test_a_winner_that_traces_differently_the_second_time_does_not_win(lab):
    class Fickle(type(lab.backend)):
        def screen(self, task, source):
            found = super().screen(task, source)
            changed = "50" in source.text
            return found.model_copy(update={"trace_hash": "other"}) if changed else found

    chat = model(by_slot({("plan 0", 0): 50, ("plan 1", 0): 70}))
    store = lab.store(iterations=1, num_samples=1)
    result = lab.run(store, model=chat, backend=Fickle())
    assert result.best.latency_us == 70
    assert "another trace" in lab.observer.of("warning")[0]["message"]


def test_no_more_evaluations_run_at_once_than_there_are_workers(lab):
    backend = type(lab.backend)(delay_s=0.01)
    lab.run(lab.store(workers=2, num_plans=4, model_concurrency=8, iterations=1), backend=backend)
    assert 1 <= backend.most_at_once <= 2


def test_graph_describes_itself():
    graph = installed().graph("optimize")
    assert graph.name == "optimize"
    assert graph.description
