from __future__ import annotations

import pytest

from accelopt.candidate import Candidate
from accelopt.evaluation import Diagnostic
from accelopt.kernel import KernelSource
from accelopt.prompts import render
from accelopt.requests import OfferedExperience
from accelopt.testing import DummyBackend, dummy_kernel, dummy_task
from accelopt_graphs.request_builders import (
    entry_of,
    execute_request,
    fix_request,
    plan_request,
    problem_facts,
    summarize_request,
)

TASK = dummy_task()
BACKEND = DummyBackend()
PROBLEM = problem_facts(TASK, BACKEND)
LESSON = OfferedExperience(id="e", title="T", strategy="S", speedup=1.5)


def candidate(latency_us=100.0, id_="baseline", **kernel):
    source = KernelSource(text=dummy_kernel(latency_us, **kernel))
    return Candidate(id=id_, iteration=0, source=source, evaluation=BACKEND.evaluate(TASK, source))


def plan(parent, *, tried=(), index=0, seed=0):
    return plan_request(PROBLEM, parent, experiences=(LESSON,), tried=tried, index=index, seed=seed)


def test_the_problem_holds_what_the_backend_knows():
    facts = BACKEND.prompt_facts("neuronxcc.nki")
    assert PROBLEM.device_facts == facts.hardware_limits
    assert PROBLEM.api_notes == facts.api_notes
    assert PROBLEM.language == facts.language
    assert PROBLEM.entry == "kernel"
    assert PROBLEM.arguments == ("(4, 8) float32",)
    assert "latency_us: time on the device, in microseconds." in PROBLEM.profile_glossary


def test_facts_that_a_backend_adds_reach_the_prompt():
    class Chip(DummyBackend):
        def prompt_facts(self, dialect):
            facts = super().prompt_facts(dialect)
            more = facts.profile_glossary | {"hbm_read_bytes": "MY-MEANING"}
            return facts.model_copy(
                update={
                    "hardware_limits": (*facts.hardware_limits, "MY-LIMIT"),
                    "api_notes": "MY-NOTES",
                    "profile_glossary": more,
                }
            )

    request = plan(candidate()).model_copy(update={"problem": problem_facts(TASK, Chip())})
    system = render(request).system
    for fact in ("MY-LIMIT", "MY-NOTES", "- hbm_read_bytes: MY-MEANING"):
        assert fact in system


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("import nki\n@nki.jit\ndef fast(x):\n    return x\n", "fast"),
        ("x = (", "kernel"),
        ("x = 1\n", "kernel"),
    ],
)
def test_the_entry_is_found_in_the_baseline(text, entry):
    assert entry_of(KernelSource(text=text)) == entry
    assert problem_facts(dummy_task(baseline=text), BACKEND).entry == entry


def test_a_named_entry_stays():
    assert entry_of(KernelSource(text="", entry="mine")) == "mine"


def test_a_planner_is_asked_about_a_candidate():
    parent = candidate()
    request = plan(parent, tried=("First line\nsecond", "", "x" * 300), index=2, seed=3)
    assert request.kernel == parent.source.text
    assert request.latency_us == 100.0
    assert request.tried == ("First line", "", "x" * 200)
    assert (request.index, request.seed) == (2, 3)
    assert request.experiences == (LESSON,)
    assert request.line_facts == {1: "the dummy backend read this line"}
    assert request.bottleneck == (
        "The latency is bound by: dma. Busy share of the run: dma 75.0 %, vector 25.0 %."
    )


def test_profile_lines_have_an_order_of_their_own_per_candidate_and_seed():
    orders = {plan(candidate(id_=f"c{n}")).profile for n in range(8)}
    orders |= {plan(candidate(), seed=n).profile for n in range(8)}
    assert len(orders) > 8
    assert len({frozenset(order) for order in orders}) == 1
    assert "hbm_read_bytes: 100000.0" in plan(candidate()).profile
    assert not [line for line in plan(candidate()).profile if "latency_us" in line]
    assert plan(candidate()) == plan(candidate())


def test_a_candidate_without_a_profile():
    bare = candidate()
    bare = bare.model_copy(
        update={
            "evaluation": bare.evaluation.model_copy(
                update={"profile": None, "bound": "", "latency_us": None}
            )
        }
    )
    request = plan(bare)
    assert (request.profile, request.bottleneck, request.latency_us) == ((), "", 0.0)
    assert summarize_request(PROBLEM, bare, candidate(), speedup=2.0, seed=0).moved == ()


def test_an_executor_is_asked_for_a_plan():
    request = execute_request(PROBLEM, candidate(), "the plan", index=1, seed=2)
    assert (request.plan, request.index, request.seed) == ("the plan", 1, 2)
    assert request.edit_mode == "full"
    edits = execute_request(PROBLEM, candidate(), "the plan", index=1, seed=2, edit_mode="edits")
    assert "SEARCH" in render(edits).user


def test_a_fixer_is_asked_about_a_kernel_that_failed():
    failed = candidate(90.0, "failed", status="constraint_violation")
    request = fix_request(
        PROBLEM, failed, candidate(), "the plan", index=1, seed=2, edit_mode="edits"
    )
    assert request.kernel == failed.source.text
    assert request.parent == candidate().source.text
    assert request.status == "constraint_violation"
    assert [type(finding) for finding in request.diagnostics] == [Diagnostic]
    assert request.edit_mode == "edits"


def test_a_summarizer_is_told_the_counters_that_moved():
    request = summarize_request(PROBLEM, candidate(), candidate(50.0, "fast"), speedup=2.0, seed=0)
    assert request.moved == (
        "latency_us: 100.0 -> 50.0",
        "hbm_read_bytes: 100000.0 -> 50000.0",
    )
    assert request.speedup == 2.0
