"""What a run may cost: call counts of the paper, dollars by hand, prices nobody knows."""

from __future__ import annotations

import pytest

from accelopt.config import RunConfig
from accelopt.cost_estimate import (
    LESSON_TOKENS,
    PLAN_TOKENS,
    REASONING_TOKENS,
    CostEstimate,
    PricedModel,
    PromptSize,
    SearchSize,
    Spread,
    answer_tokens,
    call_counts,
    estimate_cost,
    estimate_role,
    is_reasoning,
)
from accelopt.models import Role
from accelopt.prices import Price

ONE = Spread(1, 1, 1)
CHEAP = Price(input=1.0, output=2.0)


def size(**changes):
    paper = {"beam_width": 6, "num_plans": 12, "num_samples": 2, "iterations": 16}
    return SearchSize(**(paper | {"fixer_rounds": 0, "topk_experiences": 8} | changes))


def most(**changes):
    return {role.value: round(count.high) for role, count in call_counts(size(**changes)).items()}


def test_the_papers_counts_and_lessons_of_the_last_iteration_too():
    # The paper's code ends before the summarizer of its last iteration: 120 where these are 128.
    assert most() == {"planner": 1092, "executor": 2184, "fixer": 0, "summarizer": 128}
    assert SearchSize.of(RunConfig.load(preset="paper")) == size()


def test_the_papers_counts_on_gpus_with_its_fixer():
    assert most(beam_width=2, num_plans=4, fixer_rounds=4) == {
        "planner": 124,
        "executor": 248,
        "fixer": 992,
        "summarizer": 4 + 15 * 8,
    }


def test_there_is_no_more_to_learn_than_plans():
    assert most(beam_width=1, num_plans=2)["summarizer"] == 16 * 2
    assert most(topk_experiences=0)["summarizer"] == 0


def test_one_iteration_has_one_parent():
    assert most(iterations=1, fixer_rounds=1) == {
        "planner": 12,
        "executor": 24,
        "fixer": 24,
        "summarizer": 8,
    }


def test_the_low_search_fills_half_its_beam_and_repairs_and_learns_nothing():
    low = {role: count.low for role, count in call_counts(size(fixer_rounds=2)).items()}
    assert low[Role.PLANNER] == 12 + 15 * 3 * 12
    assert low[Role.EXECUTOR] == 2 * low[Role.PLANNER]
    assert low[Role.FIXER] == low[Role.SUMMARIZER] == 0


def test_patience_may_end_it_early_but_not_earlier_than_that():
    counts = call_counts(size(patience=2))[Role.PLANNER]
    assert (counts.low, counts.high) == (12 + 3 * 12, 1092)
    assert call_counts(size(patience=99))[Role.PLANNER].low == 12 + 15 * 3 * 12


def test_likely_repairs_halve_with_every_round():
    repairs = call_counts(size(fixer_rounds=2))[Role.FIXER].likely
    assert repairs == pytest.approx(2184 / 3 * (1 + 1 / 2))


@pytest.mark.parametrize("rounds", [0, 1, 4])
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_low_is_never_more_than_likely_nor_likely_than_high(rounds, patience):
    for count in call_counts(size(fixer_rounds=rounds, patience=patience)).values():
        assert 0 <= count.low <= count.likely <= count.high


def test_dollars_by_hand():
    model = PricedModel(label="a", weight=1, price=CHEAP)
    found = estimate_role(
        Role.PLANNER, [model], Spread(10, 20, 30), Spread(100, 200, 300), Spread(1, 2, 3)
    )
    assert found.input_tokens == Spread(1000, 4000, 9000)
    assert found.output_tokens == Spread(10, 40, 90)
    # (1000 x 1 + 10 x 2) / 1e6 and so on.
    assert found.cost_usd is not None
    assert found.cost_usd.low == pytest.approx(0.00102)
    assert found.cost_usd.likely == pytest.approx(0.00408)
    assert found.cost_usd.high == pytest.approx(0.00918)


def test_an_ensemble_costs_by_its_weights():
    models = [
        PricedModel(label="a", weight=3, price=Price(input=4.0, output=0.0)),
        PricedModel(label="b", weight=1, price=Price(input=8.0, output=0.0)),
    ]
    calls, tokens = ONE * 100, ONE * 1e4
    found = estimate_role(Role.EXECUTOR, models, calls, tokens, ONE)
    # A million tokens: three quarters at 4 USD, one quarter at 8.
    assert found.cost_usd == ONE * 5.0
    assert found.input_tokens == ONE * 1e6


def test_a_reasoning_model_answers_at_greater_length_up_to_the_limit():
    model = PricedModel(label="a", weight=1, price=CHEAP, reasoning=True)
    found = estimate_role(Role.PLANNER, [model], ONE, ONE, PLAN_TOKENS)
    assert found.output_tokens == PLAN_TOKENS + REASONING_TOKENS
    bounded = estimate_role(Role.PLANNER, [model], ONE, ONE, PLAN_TOKENS, max_output_tokens=3000)
    assert bounded.output_tokens == Spread(1200, 3000, 3000)


def test_an_unknown_price_is_not_zero():
    models = [
        PricedModel(label="known", weight=1, price=CHEAP),
        PricedModel(label="unknown", weight=1, price=None),
    ]
    found = estimate_role(Role.PLANNER, models, ONE * 2, ONE * 1e6, ONE * 0)
    assert found.cost_usd is None
    assert found.unpriced == ("unknown",)
    # The other half is known.
    assert found.known_usd == ONE * 1.0
    other = estimate_role(Role.EXECUTOR, models[:1], ONE, ONE * 1e6, ONE * 0)
    total = CostEstimate((found, other))
    assert total.cost_usd is None
    assert total.known_usd == ONE * 2.0
    assert total.unpriced == ("unknown",)


def test_a_role_that_is_never_asked_needs_no_price():
    model = PricedModel(label="unknown", weight=1, price=None)
    found = estimate_role(Role.FIXER, [model], ONE * 0, ONE * 100, ONE)
    assert found.cost_usd == ONE * 0


def test_a_whole_run():
    config = RunConfig.load(preset="paper")
    models = {role: [PricedModel(label="a", weight=1, price=CHEAP)] for role in Role}
    prompts = dict.fromkeys(Role, PromptSize(first=800, grown=1000))
    found = estimate_cost(config, SearchSize.of(config), models, prompts, 1000)
    assert [role.role for role in found.roles] == list(Role)
    assert found.calls.high == 1092 + 2184 + 128
    assert found.input_tokens.likely == (1092 + 2184 + 64) * 900
    assert found.input_tokens.high == (1092 + 2184 + 128) * 1250
    answers = 1092 * PLAN_TOKENS.high + 2184 * (1500 + 300) + 128 * LESSON_TOKENS.high
    assert found.output_tokens.high == answers
    assert found.cost_usd is not None
    assert found.cost_usd.high == pytest.approx(
        (found.input_tokens.high + 2 * found.output_tokens.high) / 1e6
    )


def test_a_kernel_answer_is_as_long_as_the_baseline_and_edits_are_shorter():
    full = answer_tokens(Role.EXECUTOR, 1000)
    edits = answer_tokens(Role.FIXER, 1000, "edits")
    assert full.low == 900
    assert (full.likely, full.high) == (pytest.approx(1200), 1800)
    assert edits.low < edits.likely < edits.high < full.high


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("gpt-oss-120b", True),
        ("openai/gpt-oss-120b", True),
        ("gpt-5-mini", True),
        ("o3", True),
        ("o4-mini", True),
        ("gemini-2.5-pro", True),
        ("deepseek-reasoner", True),
        ("Qwen3-30B-A3B-Thinking-2507", True),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("claude-sonnet-4-5", False),
        ("qwen3-coder-480b", False),
        ("", False),
    ],
)
def test_which_models_reason(name, reasons):
    assert is_reasoning(name) is reasons
    assert is_reasoning(name, "high")
    assert not is_reasoning(name, "none")
