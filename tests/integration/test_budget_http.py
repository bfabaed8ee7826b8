"""A run over HTTP ends where its budget does, keeps what it has paid for and goes on with more."""

from __future__ import annotations

from functools import partial

import pytest
from scripted_answers import VOICES, Script, outcome, role_of

from accelopt.budget import Budget
from accelopt.config import RunConfig
from accelopt.errors import ConfigError
from accelopt.run_changes import changed
from accelopt.run_store import RunStore
from accelopt.session import check_services, run_store
from accelopt.testing import DummyBackend, dummy_task
from accelopt.testing.chat_server import ScriptedChatServer
from accelopt.tokens import estimated_tokens

CALL_USD = 0.004
USAGE = (2000, 100)
PRICES = "[models]\n" + "".join(
    f'"openai:{voice}" = {{ input = 0, output = {1e6 * CALL_USD / USAGE[1]:g} }}\n'
    for voice in VOICES
)


class Bench:
    """One run folder with a server of its own, and a backend that counts."""

    def __init__(self, folder, server, **settings):
        self.server, self.task, self.backend = server, dummy_task(), DummyBackend()
        prices = folder / "prices.toml"
        prices.write_text(PRICES)
        values = {
            "preset": "quick",
            "task": self.task.name,
            "backend": "dummy",
            "model": "openai:scripted",
            "planner_model": ",".join(f"openai:{voice}" for voice in VOICES),
            "base_url": server.base_url,
            "prices": str(prices),
            "memory": "none",
            "evaluation_cache": "none",
            "patience": 0,
            "iterations": 3,
        }
        config = RunConfig.load(None, **(values | settings))
        self.store = RunStore.create(folder / "runs", config, self.task.name)

    def run(self):
        return run_store(self.store, self.task, backend=self.backend)

    def go_on(self, **changes):
        self.store.close()
        self.store = RunStore.open(self.store.path)
        self.store.reconfigure(changed(self.store.config, changes, fork=False))
        return self.run()

    def requests(self, *roles):
        return [r for r in self.server.requests if not roles or role_of(r.text) in roles]

    def close(self):
        self.store.close()


@pytest.fixture
def bench(tmp_path):
    made = []
    with ScriptedChatServer(Script(calm=True, usage=USAGE)) as server:

        def make(**settings):
            made.append(Bench(tmp_path, server, **settings))
            return made[-1]

        yield make
        for one in made:
            one.close()


@pytest.fixture(scope="module")
def unbounded(tmp_path_factory):
    with ScriptedChatServer(Script(calm=True, usage=USAGE)) as server:
        bench = Bench(tmp_path_factory.mktemp("unbounded"), server)
        result = bench.run()
        decided = outcome(bench.store)
        bench.close()
        return result, decided, len(server.requests), bench.backend.calls.estimate


def check_kept(bench, result):
    """What was answered is journalled."""
    counts = bench.store.journal.counts()
    assert counts.model_calls == result.model_calls == len(bench.requests())
    assert counts.cost_usd == result.cost_usd == pytest.approx(CALL_USD * counts.model_calls)
    assert bench.store.journal.answer_count() == counts.model_calls
    assert result.best.latency_us == min(
        c.latency_us for c in bench.store.candidates() if c.latency_us is not None
    )
    assert bench.store.best_path.exists()


def check_judged(bench):
    """Each kernel that was answered is judged."""
    assert len(bench.store.attempts()) == len(bench.requests("executor", "fixer"))


def check_ends_like(bench, unbounded):
    """The resumed run asked nothing again and ended like one without a bound."""
    expected, decided, calls, evaluations = unbounded
    assert outcome(bench.store) == decided
    assert len(bench.requests()) == calls
    assert bench.backend.calls.estimate == evaluations
    counts = bench.store.journal.counts()
    assert (counts.model_calls, counts.evaluations) == (expected.model_calls, expected.evaluations)
    assert counts.cost_usd == pytest.approx(CALL_USD * calls)


# The calls come to: some planners; some executors; into the second iteration; far into it.
@pytest.mark.parametrize("budget_usd", [0.01, 0.021, 0.05, 0.1])
def test_a_budget_in_dollars_ends_a_run_within_one_call(bench, unbounded, budget_usd):
    run = bench(budget_usd=budget_usd)
    result = run.run()
    assert result.status == run.store.status == "stopped"
    assert "USD is used up" in result.message
    assert budget_usd - CALL_USD <= result.cost_usd <= budget_usd + CALL_USD
    check_kept(run, result)
    check_judged(run)
    assert run.go_on(budget_usd=100).status == "finished"
    check_ends_like(run, unbounded)


def test_a_budget_in_tokens_ends_a_run_within_one_call(bench, unbounded):
    most = 40_000
    run = bench(max_tokens=most)
    result = run.run()
    spent = result.input_tokens + result.output_tokens
    sizes = [
        estimated_tokens("".join(message["content"] for message in request.body["messages"]))
        for request in run.requests()
    ]
    assert result.status == "stopped"
    assert f"{most} tokens is used up" in result.message
    assert spent == sum(USAGE) * len(run.requests())
    assert most - max(sum(USAGE), *sizes) - USAGE[1] <= spent <= most + sum(USAGE)
    check_kept(run, result)
    check_judged(run)
    assert run.go_on(max_tokens=10_000_000).status == "finished"
    check_ends_like(run, unbounded)


@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_budget_of_evaluations_is_kept_exactly(bench, unbounded, most):
    run = bench(max_evaluations=most)
    result = run.run()
    assert result.status == "stopped"
    assert f"{most} evaluations is used up" in result.message
    assert result.evaluations == run.backend.calls.estimate == most
    assert result.model_calls == len(run.requests())
    assert result.best.latency_us is not None
    assert run.store.best_path.exists()
    assert run.go_on(max_evaluations=1000).status == "finished"
    check_ends_like(run, unbounded)


def test_a_run_resumed_with_its_used_up_budget_asks_for_nothing(bench):
    run = bench(budget_usd=0.05)
    first = run.run()
    asked, judged = len(run.requests()), run.backend.calls.estimate
    again = run.go_on(workers=2)
    assert (again.status, again.best.id, again.message) == (
        "stopped",
        first.best.id,
        first.message,
    )
    assert (len(run.requests()), run.backend.calls.estimate) == (asked, judged)


def test_time_counts_over_all_sessions(bench, unbounded, monkeypatch):
    """Every request takes half a minute, by a clock of our own."""
    run = bench(max_minutes=2.9, model_concurrency=1)
    ticks = [1000.0]
    monkeypatch.setattr(
        "accelopt_graphs.services.Budget",
        partial(Budget, clock=lambda: ticks[0] + 30.0 * len(run.requests())),
    )
    result = run.run()
    assert result.status == "stopped"
    assert "2.9 minutes is used up" in result.message
    assert len(run.requests()) == 6
    check_kept(run, result)
    assert run.store.elapsed_s == 180.0
    ticks[0] += 1e6
    assert run.go_on(workers=1).status == "stopped"
    assert len(run.requests()) == 6
    assert run.go_on(max_minutes=5.9).status == "stopped"
    assert len(run.requests()) == 12
    assert run.go_on(max_minutes=1000).status == "finished"
    check_ends_like(run, unbounded)


def test_a_budget_in_dollars_without_a_price_is_refused_before_the_first_call(bench, tmp_path):
    run = bench(budget_usd=1.0, executor_model="openai:of-unknown-price")
    for refuse in (run.run, lambda: check_services(run.store.config)):
        with pytest.raises(ConfigError, match="price of openai:of-unknown-price") as caught:
            refuse()
        assert "\n" not in str(caught.value)
        assert "--prices" in caught.value.hint
    assert run.requests() == []
    assert run.store.status == "created"


def test_a_run_without_a_budget_needs_no_price(bench):
    run = bench(prices="", iterations=1)
    (run.store.path.parent.parent / "prices.toml").unlink()
    result = run.run()
    assert (result.status, result.cost_usd) == ("finished", 0.0)
    assert result.unpriced_calls == result.model_calls == len(run.requests())
