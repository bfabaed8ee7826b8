from __future__ import annotations

import re

import pytest

from accelopt.errors import ConfigError
from accelopt.evaluation import Diagnostic
from accelopt.prompts import render
from accelopt.prompts.template import Template, load_template, load_text, parse_template
from accelopt.replies import NO_OPTIMIZATION
from accelopt.requests import (
    ExecuteRequest,
    FixRequest,
    OfferedExperience,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
)

PROBLEM = ProblemFacts(
    task="silu",
    device="Trainium 9",
    dialect="neuronxcc.nki",
    reference_source="REFERENCE-SOURCE",
    arguments=("(4096, 7168) float32", "1e-05"),
    output_shape=(4096, 7168),
    relative_l2_tolerance=2e-05,
    device_facts=("hbm_bandwidth_bytes_per_s: 440.2e9",),
)
PLAN = PlanRequest(
    problem=PROBLEM,
    kernel="KERNEL-SOURCE = {'a': f'{{x}}', '{{plan}}': {{}}}",
    latency_us=123.4567890123,
    profile=("hbm_read_bytes: 42.0", "spill_save_bytes: 0.0"),
    bottleneck="BOUND-BY-DMA",
    line_facts={7: "LINE-FACT"},
    experiences=(OfferedExperience(id="e", title="LESSON", strategy="STRATEGY", speedup=1.5),),
    tried=("TRIED-BEFORE",),
)
EXECUTE = ExecuteRequest(problem=PROBLEM, kernel="KERNEL-SOURCE {{kernel}}", plan="PLAN-TEXT {{x}}")
FIX = FixRequest(
    problem=PROBLEM,
    kernel="FAILED-SOURCE",
    parent="PARENT-SOURCE",
    plan="PLAN-TEXT",
    status="constraint_violation",
    diagnostics=(
        Diagnostic(
            rule="RULE-ID",
            message="MESSAGE",
            line=3,
            column=4,
            required="256",
            limit="128",
            hint="HINT",
        ),
    ),
)
SUMMARIZE = SummarizeRequest(
    problem=PROBLEM, slow="SLOW-SOURCE", fast="FAST-SOURCE", speedup=1.23456, moved=("a: 1 -> 2",)
)
REQUESTS = [PLAN, EXECUTE, FIX, SUMMARIZE]


def whole(request):
    prompt = render(request)
    return f"{prompt.system}\n{prompt.user}"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.role)
def test_prompts_hold_every_value_and_no_placeholder_is_left(request_):
    text = whole(request_)
    values = request_.model_dump()

    def strings(value):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for item in value.values():
                yield from strings(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from strings(item)

    own = "".join(strings(values))
    for placeholder in re.findall(r"\{\{.*?\}\}", text):
        assert placeholder in own


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        (
            PLAN,
            "KERNEL-SOURCE REFERENCE-SOURCE 123.4567890123 BOUND-BY-DMA LINE-FACT LESSON STRATEGY"
            " TRIED-BEFORE 440.2e9 Trainium neuronxcc.nki",
        ),
        (EXECUTE, "KERNEL-SOURCE REFERENCE-SOURCE PLAN-TEXT 2e-05 1e-05 neuronxcc.nki 440.2e9"),
        (
            FIX,
            "FAILED-SOURCE PARENT-SOURCE REFERENCE-SOURCE PLAN-TEXT RULE-ID MESSAGE 256 128 HINT"
            " constraint_violation +FAILED-SOURCE -PARENT-SOURCE 2e-05",
        ),
        (SUMMARIZE, "SLOW-SOURCE FAST-SOURCE 1.235 Trainium"),
    ],
    ids=["planner", "executor", "fixer", "summarizer"],
)
def test_each_prompt_says_what_its_agent_must_know(request_, parts):
    text = whole(request_)
    for part in parts.split():
        assert part in text


def test_values_with_braces_survive():
    assert PLAN.kernel in render(PLAN).user
    assert EXECUTE.kernel in render(EXECUTE).user
    assert EXECUTE.plan in render(EXECUTE).user


def test_the_executor_prompt_quotes_the_enforced_tolerance_and_no_other():
    for tolerance in (2e-05, 3e-05, 0.125):
        problem = PROBLEM.model_copy(update={"relative_l2_tolerance": tolerance})
        text = whole(EXECUTE.model_copy(update={"problem": problem}))
        assert f"must be below {tolerance!r}" in text
        assert "allclose" not in text


def test_index_and_seed_are_not_part_of_the_text():
    for request in (PLAN, EXECUTE, FIX):
        changed = request.model_copy(update={"index": 9, "seed": 9})
        assert render(changed) == render(request)
        assert render(changed).sha256 == render(request).sha256


def test_another_text_has_another_hash():
    assert render(EXECUTE).sha256 != render(EXECUTE.model_copy(update={"plan": "x"})).sha256


def test_lessons_are_in_the_planners_system_prompt_only():
    assert "STRATEGY" in render(PLAN).system
    assert "STRATEGY" not in render(PLAN).user


def test_profile_lines_keep_their_order():
    turned = PLAN.model_copy(update={"profile": PLAN.profile[::-1]})
    assert "\n".join(PLAN.profile) in render(PLAN).user
    assert "\n".join(turned.profile) in render(turned).user


def test_a_request_without_extras_says_so():
    bare = PlanRequest(problem=PROBLEM, kernel="k", latency_us=1.0, profile=())
    assert "None yet." in render(bare).system
    assert "No counters were reported." in render(bare).user


def test_each_dialect_has_its_own_rules():
    modern = EXECUTE.model_copy(update={"problem": PROBLEM.model_copy(update={"dialect": "nki"})})
    assert "affine_range" in render(EXECUTE).system
    assert "affine_range" not in render(modern).system
    assert "shared_hbm" in render(modern).system


def test_an_unknown_dialect_is_a_config_error():
    problem = PROBLEM.model_copy(update={"dialect": "triton"})
    with pytest.raises(ConfigError, match="triton"):
        render(EXECUTE.model_copy(update={"problem": problem}))


def test_the_planner_is_told_the_facts_that_carry_over():
    text = whole(PLAN)
    for fact in ("128 partitions", "512 float32", "192 KB", "precision", "already occur"):
        assert fact in text


def test_the_summarizer_is_told_the_fixed_phrase():
    assert NO_OPTIMIZATION in render(SUMMARIZE).system


def test_an_unfilled_placeholder_is_an_error():
    template = Template("t", "{{a}}", "{{ b }}")
    assert template.fill({"a": "1", "b": "{{a}}"}) == ("1", "{{a}}")
    with pytest.raises(ConfigError, match="no value for b"):
        template.fill({"a": "1"})
    with pytest.raises(ConfigError, match="no placeholder for c"):
        template.fill({"a": "1", "b": "2", "c": "3"})


@pytest.mark.parametrize("text", ["{{A b}}", "{{}}", "{{a", "a}}"])
def test_a_misspelt_placeholder_is_an_error_at_load(text):
    with pytest.raises(ConfigError):
        Template("t", text, "")


def test_a_template_whose_placeholders_differ_from_the_expected_is_refused():
    with pytest.raises(ConfigError, match="missing placeholders"):
        load_template("planner.md", frozenset({"nonsense"}))


@pytest.mark.parametrize("text", ["no parts", "<!-- system -->x", "<!-- user -->y<!-- system -->x"])
def test_a_template_needs_both_parts(text):
    with pytest.raises(ConfigError, match="part"):
        parse_template("t", text)


def test_a_shared_text_must_not_hold_placeholders():
    with pytest.raises(ConfigError, match="must not"):
        load_text("planner.md")
