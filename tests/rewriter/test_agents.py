from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from rewriter_kernels import elementwise

from accelopt import ChatError, ConfigError, Diagnostic, ModelSettings
from accelopt.plugins import installed
from accelopt.replies import extract_kernel, extract_title, is_no_optimization
from accelopt.requests import (
    REQUEST_KEY,
    ExecuteRequest,
    FixRequest,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
)
from accelopt_rewriter.analysis import read_kernel
from accelopt_rewriter.plan import PlanStep, parse_plan
from accelopt_rewriter.plugin import RewriterProvider

PROBLEM = ProblemFacts(
    task="t",
    device="Trainium 1",
    dialect="neuronxcc.nki",
    reference_source="",
    arguments=("(128, 2048) float32", "(128, 2048) float32", "(128, 1) float32"),
    output_shape=(128, 2048),
    relative_l2_tolerance=2e-5,
)
KERNEL = elementwise(
    "e = nisa.activation(op=nl.exp, data=a, scale=-1.0)",
    "p = nisa.tensor_scalar(data=e, op0=nl.add, operand0=1.0)",
    "s = nisa.reciprocal(data=p)",
    "t = nl.multiply(a, s)",
    "u = nl.multiply(t, 0.5)",
    "r = nl.add(u, b)",
)
VECTOR_BOUND = ("vector_engine_active_time_percent: 0.9", "dma_active_time_percent: 0.3")
DMA_BOUND = ("vector_engine_active_time_percent: 0.2", "dma_active_time_percent: 0.9")


def ask(request):
    model = RewriterProvider().create("", ModelSettings())
    carried = {REQUEST_KEY: request.model_dump(mode="json")}
    return model.invoke([HumanMessage(content="prose", additional_kwargs=carried)])


def plan(index=0, kernel=KERNEL, profile=VECTOR_BOUND, tried=(), problem=PROBLEM, bottleneck=""):
    request = PlanRequest(
        problem=problem,
        kernel=kernel,
        latency_us=100.0,
        profile=profile,
        bottleneck=bottleneck,
        tried=tried,
        index=index,
    )
    return ask(request).content


def execute(text, kernel=KERNEL):
    return ask(ExecuteRequest(problem=PROBLEM, kernel=kernel, plan=text)).content


def all_plans(**options):
    plans = []
    while "rewrite: none" not in (text := plan(len(plans), **options)):
        plans.append(text)
    return plans


def test_the_plugin_registers_the_rewriter_which_needs_nothing():
    provider = installed().chat_models["rewriter"]
    assert provider.needs == "nothing (offline)"
    assert installed().chat_model("rewriter", ModelSettings())._llm_type == "rewriter"


def test_a_model_name_after_the_prefix_is_refused():
    with pytest.raises(ConfigError, match="no model 'large'"):
        RewriterProvider().create("large", ModelSettings())


def test_answers_cost_no_tokens():
    request = ExecuteRequest(problem=PROBLEM, kernel=KERNEL, plan="rewrite: none")
    assert ask(request).usage_metadata == {
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
    }


@pytest.mark.parametrize(
    "messages",
    [
        [HumanMessage(content="make it fast")],
        [SystemMessage(content="you are"), AIMessage(content="hello")],
    ],
)
def test_prose_without_a_typed_request_is_refused_in_one_clear_line(messages):
    model = RewriterProvider().create("", ModelSettings())
    with pytest.raises(ChatError, match="without a typed request") as caught:
        model.invoke(messages)
    assert "\n" not in str(caught.value)


def test_a_malformed_request_names_the_field():
    model = RewriterProvider().create("", ModelSettings())
    carried = {REQUEST_KEY: {"role": "planner", "kernel": 3}}
    with pytest.raises(ChatError, match="malformed request"):
        model.invoke([HumanMessage(content="", additional_kwargs=carried)])


def test_the_last_human_message_counts():
    model = RewriterProvider().create("", ModelSettings())
    carried = [
        {REQUEST_KEY: ExecuteRequest(problem=PROBLEM, kernel=k, plan="rewrite: none").model_dump()}
        for k in ("def kernel(x): return 1", "def kernel(x): return 2")
    ]
    messages = [HumanMessage(content="", additional_kwargs=extra) for extra in carried]
    assert "return 2" in model.invoke(messages).content


def test_the_first_plan_is_the_best_single_rewrite_everywhere():
    text = plan(0)
    assert text.rstrip().splitlines()[-1] == "rewrite: sigmoid-chain @ all"
    assert text.splitlines()[0].startswith("sigmoid-chain @ all: ")
    assert "line 16" in text


def test_every_plan_differs_and_changes_the_kernel():
    plans = all_plans()
    assert len(plans) > 5
    assert len({text.splitlines()[0] for text in plans}) == len(plans)
    for text in plans:
        kernel = extract_kernel(execute(text))
        ast.parse(kernel)
        assert kernel != KERNEL


def test_some_plan_combines_all_rewrites_that_fit():
    kernel = extract_kernel(execute(plan(1)))
    assert "op=nl.silu" in kernel
    assert "scalar_tensor_tensor" in kernel
    assert "reciprocal" not in kernel


def test_a_tried_plan_is_not_offered_again():
    first, second = plan(0).splitlines()[0], plan(1).splitlines()[0]
    assert plan(0, tried=(first,)).splitlines()[0] == second
    everything = tuple(text.splitlines()[0] for text in all_plans())
    assert "rewrite: none" in plan(0, tried=everything)


def test_the_profile_decides_the_order():
    kernel = elementwise("r = nisa.reciprocal(data=a)")
    assert "reciprocal-to-scalar" in plan(0, kernel, ("vector_engine_active_time_percent: 0.9",))
    assert "widen-free-tile" in plan(0, kernel, DMA_BOUND)


def test_the_named_bottleneck_decides_between_equally_busy_engines():
    kernel = elementwise("r = nisa.reciprocal(data=a)")
    equal = ("vector_engine_active_time_percent: 0.5", "dma_active_time_percent: 0.5")
    assert "widen-free-tile" in plan(0, kernel, equal, bottleneck="The latency is bound by: dma.")
    vector = plan(0, kernel, equal, bottleneck="The latency is bound by: vector. Busy: dma 50 %.")
    assert "reciprocal-to-scalar" in vector


def test_the_same_request_gives_the_same_plan():
    assert [plan(i) for i in range(6)] == [plan(i) for i in range(6)]


def test_the_order_of_the_profile_lines_does_not_matter():
    assert [plan(i) for i in range(4)] == [
        plan(i, profile=tuple(reversed(VECTOR_BOUND))) for i in range(4)
    ]


@pytest.mark.parametrize("kernel", ["def kernel(:\n", "x = 1\n"])
def test_a_kernel_that_cannot_be_read_gives_no_rewrite(kernel):
    assert plan(0, kernel).rstrip().endswith("rewrite: none")
    assert "unchanged" in execute("rewrite: sigmoid-chain @ all", kernel)


def test_the_executor_does_exactly_what_the_plan_says():
    kernel = extract_kernel(execute("do it\n\nrewrite: sigmoid-chain @ all\n"))
    assert "nl.sigmoid" in kernel
    assert "nl.silu" not in kernel
    assert "scalar_tensor_tensor" not in kernel


def test_the_executor_can_rewrite_one_place_only():
    kernel = elementwise(
        "t = nl.multiply(a, 0.5)",
        "u = nl.add(t, b)",
        "v = nl.multiply(u, 0.25)",
        "r = nl.add(v, b)",
    )
    one = extract_kernel(execute("rewrite: scale-add @ L15", kernel))
    assert one.count("scalar_tensor_tensor") == 1
    assert "u = nisa.scalar_tensor_tensor" in one
    both = extract_kernel(execute("rewrite: scale-add @ all", kernel))
    assert both.count("scalar_tensor_tensor") == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("use bigger tiles", "names no rewrite I know"),
        ("rewrite: magic @ all", "names no rewrite I know"),
        ("rewrite: none", "unchanged"),
        ("rewrite: hoist-load @ all", "applies nowhere"),
        ("rewrite: sigmoid-chain @ L2", "applies nowhere"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_returns_the_kernel_unchanged(text, sentence):
    answer = execute(text)
    assert sentence in answer
    assert extract_kernel(answer).strip() == KERNEL.strip()


def test_no_answer_claims_a_gain():
    for text in all_plans()[:6]:
        words = (text + execute(text)).lower()
        assert "faster" not in words
        assert "speedup" not in words


def test_plan_lines_are_read_back():
    assert parse_plan("a\nrewrite: silu-chain @ all; scale-add @ L12\n") == [
        PlanStep("silu-chain"),
        PlanStep("scale-add", "L12"),
    ]
    assert parse_plan("rewrite: none") == []
    assert parse_plan("rewrite: silu-chain @ line 3") is None


def fix(kernel, diagnostics, index=0, parent=KERNEL):
    return extract_kernel(
        ask(
            FixRequest(
                problem=PROBLEM,
                kernel=kernel,
                parent=parent,
                plan="",
                status="constraint_violation",
                diagnostics=tuple(diagnostics),
                index=index,
            )
        ).content
    )


def at(line, rule="err_x", message="bad"):
    return Diagnostic(rule=rule, message=message, line=line)


def test_the_fixer_takes_back_the_change_a_diagnostic_points_at():
    broken = KERNEL.replace("scale=-1.0", "scale=-3.0").replace("t, 0.5", "t, 0.75")
    line = next(n for n, text in enumerate(broken.splitlines(), 1) if "0.75" in text)
    assert fix(broken, [at(line)]) == KERNEL.replace("scale=-1.0", "scale=-3.0")


def test_the_fixer_adds_the_mask_the_neighbours_use():
    masked = elementwise("t = nl.exp(a, mask=i < 3)", "r = nl.add(t, b, mask=i < 3)")
    broken = masked.replace("nl.add(t, b, mask=i < 3)", "nl.multiply(t, b)")
    fixed = fix(broken, [at(15, "err_tensor_access_out_of_bound")], parent=masked)
    assert "r = nl.multiply(t, b, mask=i < 3)" in fixed


def test_the_fixer_ends_with_the_parent():
    broken = KERNEL.replace("scale=-1.0", "scale=-3.0")
    assert fix(broken, [at(15)], index=2) == KERNEL
    assert fix(broken, [], index=0) == KERNEL


def test_the_fixer_repairs_a_kernel_that_does_not_parse():
    broken = KERNEL.replace("scale=-1.0)", "scale=-1.0").replace("t, 0.5", "t, 0.75")
    line = next(n for n, text in enumerate(broken.splitlines(), 1) if "nl.exp" in text)
    assert fix(broken, [at(line)]) == KERNEL.replace("t, 0.5", "t, 0.75")


def summarize(slow, fast):
    return ask(
        SummarizeRequest(
            problem=PROBLEM, slow=slow, fast=fast, speedup=1.5, moved=("hbm_read_bytes: 2 -> 1",)
        )
    ).content


def test_a_lesson_has_a_title_and_a_snippet_from_both_kernels():
    fast = extract_kernel(execute("rewrite: sigmoid-chain @ all"))
    lesson = summarize(KERNEL, fast)
    title = extract_title(lesson)
    assert "nisa.activation(nl.exp)" in title
    assert "nisa.activation(nl.sigmoid)" in title
    assert "hbm_read_bytes: 2 -> 1" in lesson
    assert "s = nisa.reciprocal(data=p)" in lesson
    assert "s = nisa.activation(op=nl.sigmoid, data=a)" in lesson
    assert not is_no_optimization(lesson)


@pytest.mark.parametrize(
    "fast", [KERNEL, KERNEL.replace("    out =", "    # the output\n    out  =")]
)
def test_the_same_program_twice_is_no_lesson(fast):
    assert is_no_optimization(summarize(KERNEL, fast))


def test_answers_do_not_depend_on_what_was_asked_before():
    other = elementwise("t = nl.add(a, 2.0)", "u = nl.rsqrt(t)", "v = u + 1.0", "r = nl.exp(v)")
    alone = execute("rewrite: scale-into-activation @ all", other)
    all_plans(kernel=other)
    read_kernel.cache_clear()
    all_plans()
    assert execute("rewrite: scale-into-activation @ all", other) == alone


def test_many_threads_get_the_same_plans():
    kernel = elementwise("t = nl.multiply(a, 0.25)", "r = nl.subtract(a, t)")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: plan(i % 3, kernel), range(24)))
    assert answers == [plan(i % 3, kernel) for i in range(24)]


def test_a_kernel_of_the_other_dialect_is_left_alone():
    kernel = (
        "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n\n\n@nki.jit\n"
        "def kernel(x):\n"
        "    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=t, src=x)\n"
        "    nisa.activation(dst=t, op=nl.exp, data=t, scale=-1.0)\n"
        "    nisa.dma_copy(dst=out, src=t)\n"
        "    return out\n"
    )
    assert plan(0, kernel).rstrip().endswith("rewrite: none")
