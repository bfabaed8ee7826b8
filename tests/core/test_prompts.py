from __future__ import annotations

import json
import re

import pytest

from accelopt.errors import ConfigError
from accelopt.evaluation import Diagnostic
from accelopt.kernel import Dialect
from accelopt.prompt_facts import PromptFacts, default_prompt_facts, packaged_glossary
from accelopt.prompts import render
from accelopt.prompts.template import (
    Template,
    fill_text,
    load_template,
    load_text,
    packaged_template,
    parse_template,
)
from accelopt.replies import NO_OPTIMIZATION
from accelopt.requests import (
    ExecuteRequest,
    FixRequest,
    OfferedExperience,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
    parse_request,
)
from accelopt.testing import DummyBackend

PROBLEM = ProblemFacts(
    task="silu",
    device="Trainium 9",
    dialect="neuronxcc.nki",
    reference_source="REFERENCE-SOURCE",
    arguments=("(4096, 7168) float32", "1e-05"),
    output_shape=(4096, 7168),
    relative_l2_tolerance=2e-05,
    device_facts=("Peak HBM bandwidth: 440.2 GB/s",),
    api_notes="API-NOTES",
    profile_glossary=(
        "latency_us: TIME",
        "hbm_read_bytes, hbm_write_bytes: TRAFFIC",
        "psum_read_bytes: PSUM-TRAFFIC",
    ),
    language="NKI-LANGUAGE",
    entry="my_kernel",
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
            " TRIED-BEFORE 440.2 Trainium NKI-LANGUAGE API-NOTES TRAFFIC my_kernel",
        ),
        (
            EXECUTE,
            "KERNEL-SOURCE REFERENCE-SOURCE PLAN-TEXT 2e-05 1e-05 NKI-LANGUAGE API-NOTES"
            " 440.2 my_kernel",
        ),
        (
            FIX,
            "FAILED-SOURCE PARENT-SOURCE REFERENCE-SOURCE PLAN-TEXT RULE-ID MESSAGE 256 128 HINT"
            " constraint_violation +FAILED-SOURCE -PARENT-SOURCE 2e-05 API-NOTES my_kernel",
        ),
        (SUMMARIZE, "SLOW-SOURCE FAST-SOURCE 1.235 Trainium NKI-LANGUAGE"),
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


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.role)
def test_rendering_what_a_message_carries_gives_the_whole_text(request_):
    carried = json.loads(json.dumps(request_.model_dump(mode="json")))
    assert render(parse_request(carried)) == render(request_)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.role)
def test_templates_name_no_device_and_no_language(request_):
    template = packaged_template(f"{request_.role}.md")
    assert not re.search(r"trainium|nki|aws|psum|sbuf", template.system + template.user, re.I)


def test_the_planner_is_told_about_the_counters_of_its_profile_only():
    system = render(PLAN).system
    assert "- hbm_read_bytes: TRAFFIC" in system
    assert "- latency_us: TIME" in system
    assert "hbm_write_bytes" not in system
    assert "PSUM-TRAFFIC" not in system


def test_complete_files_are_asked_for_unless_edits_are():
    for request, kernel in ((EXECUTE, "kernel to start from"), (FIX, "kernel that failed")):
        full = render(request).user
        edits = render(request.model_copy(update={"edit_mode": "edits"})).user
        assert full.endswith(
            "Answer with the complete kernel file, imports included, in one ```python code block."
        )
        assert "SEARCH" not in full
        assert f"Answer with edits to the {kernel}" in edits
        assert "complete kernel file" not in edits
        assert "<<<<<<< SEARCH" in edits
        assert "```diff" in edits
        start = full.index("Answer with the complete")
        assert edits[:start] == full[:start]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.role)
def test_a_complaint_ends_the_prompt(request_):
    plain = render(request_)
    again = render(request_.model_copy(update={"complaint": "the reply has {{no}} code block\n"}))
    assert again.system == plain.system
    assert again.user.startswith(plain.user)
    added = again.user.removeprefix(plain.user)
    assert "could not be used\n\nthe reply has {{no}} code block\n\nAnswer again" in added
    assert len(added) < 200
    assert again.sha256 != plain.sha256


def test_the_fixer_sees_the_line_of_each_finding():
    lines = [
        Diagnostic(rule="one", message="m", line=3, hint="HINT"),
        Diagnostic(rule="two", message="m", line=99),
        Diagnostic(rule="three", message="m"),
    ]
    request = FIX.model_copy(
        update={"kernel": "\nimport nki\n    nl.store(x)\n", "diagnostics": tuple(lines)}
    )
    text = render(request).user
    assert "- error one (line 3): m\n  3 |     nl.store(x)\n  hint: HINT\n- error two" in text
    assert "- error two (line 99): m\n- error three: m\n" in text


def test_line_numbers_hold_for_the_kernel_as_it_is_shown():
    request = PLAN.model_copy(update={"kernel": "\nimport nki\n"})
    assert "```python\n\nimport nki\n```" in render(request).user


@pytest.mark.parametrize("dialect", [dialect.value for dialect in Dialect])
def test_a_backend_knows_its_device_and_the_packaged_rules_of_a_dialect(dialect):
    facts = DummyBackend().prompt_facts(dialect)
    assert "SBUF: at most 196608 bytes (192 KiB) per partition" in facts.hardware_limits
    assert "128 partitions" in facts.api_notes
    assert "512 float32" in facts.api_notes
    assert "# Coding rules" in facts.api_notes
    assert ("affine_range" in facts.api_notes) is (dialect == "neuronxcc.nki")
    assert ("shared_hbm" in facts.api_notes) is (dialect == "nki")
    assert f"`{dialect}`" in facts.language


def test_hardware_figures_come_from_the_device():
    device = DummyBackend.device.model_copy(
        update={"num_partitions": 64, "sbuf_bytes_per_partition": 1000}
    )
    facts = default_prompt_facts(device, "nki")
    assert "SBUF: at most 1000 bytes (0.9766 KiB) per partition" in facts.hardware_limits
    assert "A tile covers at most 64 partitions." in facts.api_notes


def test_every_counter_of_a_profile_is_explained():
    from accelopt.evaluation import Profile

    explained = [name for names in packaged_glossary() for name in names.split(", ")]
    # What a real profiler prints besides is kept, and not shown to agents.
    assert sorted(explained) == sorted(set(Profile.model_fields) - {"other"})


def test_a_backend_may_add_to_the_facts():
    class Chip(DummyBackend):
        def prompt_facts(self, dialect: str) -> PromptFacts:
            facts = super().prompt_facts(dialect)
            return facts.model_copy(update={"api_notes": facts.api_notes + "\n\n- One more."})

    assert Chip().prompt_facts("nki").api_notes.endswith("- One more.")


def test_an_unknown_dialect_is_a_config_error():
    with pytest.raises(ConfigError, match="triton"):
        DummyBackend().prompt_facts("triton")


def test_the_planner_is_told_the_rules_of_planning():
    text = whole(PLAN)
    for fact in ("precision", "already occur", "one step"):
        assert fact in text


def test_without_facts_a_prompt_says_so():
    bare = ProblemFacts(
        task="t",
        device="d",
        dialect="other",
        reference_source="",
        arguments=(),
        output_shape=(1,),
        relative_l2_tolerance=1e-5,
    )
    text = whole(PLAN.model_copy(update={"problem": bare}))
    assert "written in the dialect `other`" in text
    assert "Nothing is known about the counters." in text
    assert "`kernel`" in text


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


def test_a_shared_text_is_filled_in_full():
    assert "because" in fill_text("complaint.md", {"complaint": "because"})
    with pytest.raises(ConfigError, match="no value for complaint"):
        fill_text("complaint.md", {})
    with pytest.raises(ConfigError, match="no placeholder for nonsense"):
        fill_text("complaint.md", {"complaint": "", "nonsense": ""})
