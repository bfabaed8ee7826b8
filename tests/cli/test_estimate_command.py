"""`accelopt estimate`: what it says before the first paid call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelopt.kernel import KernelSource
from accelopt.plugins import installed
from accelopt.testing import DummyBackend, dummy_kernel, dummy_task
from accelopt_graphs.estimate_command import estimate

KEYS = {"calls", "input_tokens", "output_tokens"} | {
    f"cost_usd_{which}" for which in ("low", "likely", "high")
}


@pytest.fixture(autouse=True)
def dummy(monkeypatch):
    registry = installed()
    monkeypatch.setitem(registry.backends, "dummy", DummyBackend)
    monkeypatch.setitem(registry.suites, "dummy", {"doubling": dummy_task})
    monkeypatch.setitem(registry.commands, "estimate", estimate)


@pytest.fixture
def run(accelopt):
    def call(*arguments):
        return accelopt("estimate", "doubling", "--backend", "dummy", *arguments)

    return call


def last(result):
    assert result.code == 0, result.err
    return result.out.splitlines()[-1]


def test_the_papers_preset(run):
    result = run("--preset", "paper", "--model", "openai:gpt-4o")
    line = last(result)
    assert line.startswith("at most 3,404 model calls, about ")
    assert " million tokens, " in line
    assert " USD (likely " in line
    assert "prices as of 20" in result.out
    assert "give or take 25%" in result.out
    assert "a kernel answer: " in result.out
    assert "(none here)" in result.out


def test_json_has_stable_keys_and_adds_up(run):
    data = run("--model", "openai:gpt-5-mini", "--json").data
    assert data.keys() >= KEYS
    assert [role["role"] for role in data["roles"]] == [
        "planner",
        "executor",
        "fixer",
        "summarizer",
    ]
    for role in data["roles"]:
        assert role.keys() >= KEYS
        assert role["models"] == ["openai:gpt-5-mini"]
        assert role["cost_usd_low"] <= role["cost_usd_likely"] <= role["cost_usd_high"]
    for key in KEYS:
        total = sum(role[key] for role in data["roles"])
        assert data[key] == pytest.approx(total, abs=4 if "token" in key else 1e-9)
    assert data["unpriced_models"] == []
    assert any("(openai:gpt-5-mini)" in line for line in data["assumptions"])


def test_an_unknown_price_reads_unknown(run):
    result = run("--model", "openai:somebody", "--fixer-rounds", "0")
    assert last(result).endswith(", USD unknown")
    assert "the price of openai:somebody is not known" in result.out
    assert "--prices FILE" in result.out
    data = run("--model", "openai:somebody", "--json").data
    assert data["cost_usd_low"] is None
    assert data["cost_usd_at_least"] is None
    assert data["unpriced_models"] == ["openai:somebody"]


def test_a_partly_unknown_price_reads_at_least(run):
    models = ("--model", "openai:gpt-4o", "--executor-model", "openai:gpt-4o*3,openai:somebody")
    assert ", at least " in last(run(*models))
    data = run(*models, "--json").data
    assert data["cost_usd_likely"] is None
    assert data["cost_usd_at_least"] > 0
    by_role = {role["role"]: role["cost_usd_low"] for role in data["roles"]}
    assert by_role["executor"] is None
    assert by_role["planner"] > 0


def test_a_price_file_and_another_server(run, tmp_path):
    (tmp_path / "own.toml").write_text(
        '[models]\n"openai:x@http://localhost:8000/v1" = { input = 1, output = 2 }\n'
    )
    server = ("--base-url", "http://localhost:8000/v1", "--prices", "own.toml")
    assert run("--model", "openai:x", *server, "--json").data["cost_usd_low"] > 0
    # What the provider asks is not what somebody else's server asks.
    other = run("--model", "openai:gpt-4o", "--base-url", "http://localhost:8000/v1", "--json")
    assert other.data["unpriced_models"] == ["openai:gpt-4o"]


def test_the_offline_model_costs_nothing(run):
    result = run()
    assert last(result).endswith(" million tokens, 0 USD")
    assert run("--json").data["cost_usd_high"] == 0


def test_settings_come_from_a_file_too(run, tmp_path):
    (tmp_path / "run.toml").write_text('preset = "quick"\nmodel = "openai:gpt-4o"\n')
    data = run("--config", "run.toml", "--json").data
    assert data["roles"][0]["calls"] == 3 + 3 * 2 * 3
    more = run("--config", "run.toml", "--iterations", "1", "--set", "max_output_tokens=100")
    assert "no answer is longer than 100 tokens" in more.out


def test_best_of_n_keeps_no_beam_and_learns_nothing(run):
    data = run("--graph", "best-of-n", "--iterations", "3", "--num-plans", "4", "--json").data
    calls = {role["role"]: role["calls"] for role in data["roles"]}
    assert calls == {"planner": 12, "executor": 12, "fixer": 24, "summarizer": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody:x"], "unknown model 'nobody:x'"),
        (["--model", "openai:x*0"], "no positive number"),
        (["--graph", "else"], "graph 'else'"),
        (["--backend", "nothing"], "unknown backend 'nothing'"),
        (["--prices", "nowhere.toml"], "can't read the price file nowhere.toml"),
        (["--beam-width", "0"], "beam_width"),
        (["--set", "nonsense=1"], "nonsense"),
    ],
)
def test_bad_input_is_one_line(run, arguments, message):
    result = run(*arguments)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_task_is_needed_and_must_work(accelopt, monkeypatch):
    assert "no task given" in accelopt("estimate").err
    baseline = KernelSource(text=dummy_kernel(1, status="constraint_violation"))
    broken = replace(dummy_task(), baseline=baseline)
    monkeypatch.setitem(installed().suites, "dummy", {"broken": lambda: broken})
    result = accelopt("estimate", "broken", "--backend", "dummy")
    assert result.code == 2
    assert "fails on dummy (constraint_violation)" in result.err


def test_a_task_on_the_simulator(accelopt):
    data = accelopt("estimate", "silu@small", "--model", "openai:gpt-4o", "--json").data
    assert data["backend"] == "sim-trn1"
    roles = {role["role"]: role for role in data["roles"]}
    # The prompts hold the kernel, the reference and the rules of the language.
    assert 1500 < roles["executor"]["input_tokens"] / roles["executor"]["calls"] < 10_000
    assert 0 < data["cost_usd_low"] < data["cost_usd_high"] < 20
