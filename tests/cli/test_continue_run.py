"""`accelopt resume`, `fork`, `replay` and `runs show`, on the dummy backend."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from accelopt.beam_history import beam_history
from accelopt.config import RunConfig
from accelopt.plugins import installed
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, ScriptedChatModel, dummy_kernel, dummy_task

COMMAND = (
    "optimize doubling --backend dummy --model scripted --beam-width 2 --num-plans 2"
    " --iterations 3 --fixer-rounds 0 --memory none --set evaluation_cache=none"
)
PRICES = '[models]\n"scripted" = { input = 1, output = 2 }\n'


class Scripted:
    """Provider of the model `scripted`; every n-th plan makes a kernel n times as slow.

    Attributes:
        made: every model that was made.
        before: called with the request before every answer.
    """

    prefix = "scripted"
    description = "answers from a script"
    needs = ""

    def __init__(self):
        self.made = []
        self.before = lambda request: None

    def create(self, name, settings):
        chat = ScriptedChatModel(answer=self.answer)
        self.made.append(chat)
        return chat

    @property
    def calls(self):
        return sum(chat.calls for chat in self.made)

    def answer(self, request):
        self.before(request)
        match request.role:
            case "planner":
                return f"Halve it {request.index}"
            case "executor":
                line = request.kernel.splitlines()[0]
                factor = (0.5, 2)[int(request.plan.split()[-1])]
                us = float(line.removeprefix("# latency_us: ")) * factor
                return f"```python\n{dummy_kernel(us, note=request.plan)}```"
            case _:
                return f"**Lesson**\nTimes {request.speedup:.1f}."


@pytest.fixture
def scripted(monkeypatch):
    provider, registry = Scripted(), installed()
    monkeypatch.setitem(registry.backends, "dummy", DummyBackend)
    monkeypatch.setitem(registry.chat_models, "scripted", provider)
    monkeypatch.setitem(registry.suites, "dummy", {"doubling": dummy_task})
    return provider


@pytest.fixture
def start(accelopt, scripted):
    """Start a run and give its result; further arguments as on the command line."""

    def call(*arguments, code=0):
        result = accelopt(*COMMAND.split(), *arguments, "--json")
        assert result.code == code, result.err
        return result.data

    return call


def opened(data):
    return RunStore.open(Path(data["run_folder"]))


def check(result, *words):
    """One line on standard error and exit code 2."""
    assert result.code == 2
    assert result.err.startswith("accelopt: error: ")
    assert result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err, result.err


# optimize.


def test_settings_without_an_option_are_given_with_set_and_options_win(start):
    data = start("--set", "topk_experiences=2", "--set", "memory-capacity=5", "--set", "seed=1",
                 "--seed", "3")  # fmt: skip
    with opened(data) as store:
        config = store.config
    assert (config.topk_experiences, config.memory_capacity, config.seed) == (2, 5, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "beam_wdith=3"], ["unknown setting 'beam_wdith'", "did you mean 'beam_width'"]),
        (["--set", "qqq=3"], ["unknown setting 'qqq'", "docs/cli.md"]),
        (["--set", "beam_width"], ["'beam_width'", "not key=value"]),
        (["--set", "=3"], ["not key=value"]),
        (["--set", "topk_experiences=many"], ["topk_experiences"]),
        (["--set", "edit_mode=some"], ["edit_mode"]),
        (["--budget-usd", "0"], ["budget_usd"]),
        (["--budget-usd", "x"], ["budget-usd"]),
        (["--budget-usd", "1"], ["price of scripted", "--prices FILE"]),
        (["--max-evaluations", "0"], ["max_evaluations"]),
        (["--max-tokens", "-1"], ["max_tokens"]),
        (["--max-minutes", "0"], ["max_minutes"]),
        (["--preset", "fast"], ["unknown preset 'fast'", "paper, quick"]),
        (["--graph", "best-of-m"], ["unknown graph", "best-of-n"]),
    ],
)
def test_bad_settings_are_one_line_and_leave_no_run(accelopt, scripted, tmp_path, arguments, words):
    check(accelopt(*COMMAND.split(), *arguments), *words)
    assert not (tmp_path / "runs").exists()
    assert scripted.calls == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--max-evaluations", "3"], "the budget of 3 evaluations is used up"),
        (["--max-tokens", "2000"], "the budget of 2000 tokens is used up"),
        (["--budget-usd", "0.001"], "the budget of 0.001 USD is used up"),
    ],
)
def test_a_budget_ends_a_run_with_exit_code_0_and_a_way_to_go_on(
    accelopt, scripted, tmp_path, arguments, says
):
    (tmp_path / "prices.toml").write_text(PRICES)
    result = accelopt(*COMMAND.split(), "--prices", "prices.toml", *arguments, "--json")
    assert result.code == 0
    assert (result.data["status"], result.data["message"]) == ("stopped", says)
    assert f"stopped: {says}; go on with: accelopt resume {result.data['run']}" in result.err
    # The way that it says works.
    option = {"--max-evaluations": "99", "--max-tokens": "10000000"}.get(arguments[0], "9")
    again = accelopt("resume", result.data["run"], arguments[0], option, "--json")
    assert again.code == 0, again.err
    assert again.data["status"] == "finished"
    assert again.data["best_latency_us"] == 12.5
    assert again.data["message"] == ""


def test_a_cost_is_shown_and_an_unknown_price_is_said(accelopt, scripted, tmp_path):
    result = accelopt(*COMMAND.split())
    calls = scripted.calls
    assert f"price of {calls} of {calls} calls unknown" in result.out
    (tmp_path / "prices.toml").write_text(PRICES)
    priced = accelopt(*COMMAND.split(), "--prices", "prices.toml")
    assert "unknown" not in priced.out
    assert re.search(r"^cost +[\d,]+ tokens, .*\d", priced.out, re.MULTILINE)


# resume.


def stopped_run(start):
    return start("--max-evaluations", "3")


@pytest.mark.parametrize("by", ["id", "prefix", "folder", "optimize --resume"])
def test_a_stopped_run_goes_on_and_pays_for_nothing_twice(accelopt, scripted, start, by):
    whole = start()
    calls = scripted.calls
    data = stopped_run(start)
    name = {"prefix": data["run"][:-1], "folder": data["run_folder"]}.get(by, data["run"])
    with opened(data) as store:
        paid = store.journal.counts().model_calls
    assert scripted.calls == calls + paid
    if by == "optimize --resume":
        # This form takes no settings; the budget has to go first.
        with opened(data) as store:
            store.reconfigure(store.config.model_copy(update={"max_evaluations": None}))
        result = accelopt("optimize", "--resume", name, "--json")
    else:
        result = accelopt("resume", name, "--set", "max_evaluations=none", "--json")
    assert result.code == 0, result.err
    assert result.data["run"] == data["run"]
    assert scripted.calls == 2 * calls
    own = {"run", "run_folder", "best_kernel"}
    assert {k: v for k, v in result.data.items() if k not in own} == {
        k: v for k, v in whole.items() if k not in own
    }


def test_a_finished_run_asks_for_nothing_and_goes_on_when_it_gets_more_iterations(
    accelopt, scripted, start
):
    data = start()
    calls = scripted.calls
    assert accelopt("resume", data["run"], "--json").data == data
    assert scripted.calls == calls
    longer = accelopt("resume", data["run"], "--set", "iterations=4", "--json").data
    assert longer["best_latency_us"] == 6.25
    assert longer["model_calls"] == scripted.calls > calls
    with opened(data) as store:
        assert store.config.iterations == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "beam_width=4"], ["beam_width", "fork RUN --at ITERATION --set beam_width=4"]),
        (["--set", "seed=4"], ["seed", "fork RUN"]),
        (["--set", "task=silu"], ["task can't be changed", "start a new run"]),
        (["--set", "backend=sim-trn1"], ["backend can't be changed"]),
        (["--set", "iterations"], ["not key=value"]),
        (["--set", "iterations=0"], ["iterations"]),
        (["--set", "iteration=9"], ["did you mean 'iterations'"]),
        (["--set", "model=nothing"], ["unknown model 'nothing'"]),
        (["--budget-usd", "1"], ["price of scripted"]),
        (["--max-evaluations", "0"], ["max_evaluations"]),
    ],
)
def test_what_a_run_can_not_go_on_with_is_one_line_and_changes_nothing(
    accelopt, scripted, start, arguments, words
):
    data = stopped_run(start)
    with opened(data) as store:
        before, calls = store.config, scripted.calls
    check(accelopt("resume", data["run"], *arguments), *words)
    with opened(data) as store:
        assert store.config == before
        assert store.status == "stopped"
    assert scripted.calls == calls


@pytest.mark.parametrize("command", [["resume"], ["fork", "--at", "1"], ["replay"]])
def test_what_is_no_run_is_one_line(accelopt, scripted, start, tmp_path, command):
    start()
    start()
    (tmp_path / "empty").mkdir()
    name, *options = command
    check(accelopt(name, "nothing", *options), "'nothing' does not exist", "runs list")
    check(accelopt(name, "20", *options), "'20' is not unique")
    check(accelopt(name, "empty", *options), "does not exist")


def test_a_run_that_another_process_goes_on_with_is_refused(accelopt, start):
    data = stopped_run(start)
    with opened(data) as store, store.exclusive():
        result = accelopt("resume", data["run"])
    assert result.code == 2
    assert "being run by another process" in result.err.splitlines()[-1]


# fork.


def test_a_fork_takes_over_the_first_iterations_and_goes_its_own_way(accelopt, scripted, start):
    data = start()
    calls = scripted.calls
    result = accelopt(
        "fork", data["run"], "--at", "1", "--set", "num-plans=1", "--set", "iterations=4", "--json"
    )
    assert result.code == 0, result.err
    forked = result.data
    assert forked["run"] != data["run"]
    assert f"run {forked['run']}: run {data['run']} up to iteration 1" in result.err
    assert forked["best_latency_us"] == 6.25
    # What is taken over was paid for by the parent.
    assert forked["model_calls"] == scripted.calls - calls
    with opened(data) as parent, opened(forked) as fork:
        assert beam_history(fork.journal)[:2] == beam_history(parent.journal)[:2]
        assert (fork.config.num_plans, parent.config.num_plans) == (1, 2)
        assert (parent.status, fork.forked_from) == ("finished", data["run"])


def test_a_fork_stands_beside_its_parent_or_where_it_is_told(accelopt, start, tmp_path):
    data = start("--runs-dir", "elsewhere")
    beside = accelopt("fork", data["run_folder"], "--at", "1", "--json").data
    assert beside["run_folder"] == str(tmp_path / "elsewhere" / beside["run"])
    again = accelopt("fork", data["run"], "--at", "1", "--runs-dir", "elsewhere", "--json").data
    assert again["run_folder"] == str(tmp_path / "elsewhere" / again["run"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "4"], ["can't be forked at iteration 4", "finished 3", "--at takes 0 to 3"]),
        (["--at", "-1"], ["can't be forked at iteration -1"]),
        (["--at", "3"], ["needs more than 3 iterations", "--set iterations=7"]),
        (["--at", "one"], ["--at"]),
        ([], ["--at"]),
        (["--at", "1", "--set", "task=silu"], ["task can't be changed"]),
        (["--at", "1", "--set", "beam_width=0"], ["beam_width"]),
        (["--at", "1", "--set", "beam_width"], ["not key=value"]),
        (["--at", "1", "--set", "model=nothing"], ["unknown model 'nothing'"]),
    ],
)
def test_a_fork_that_makes_no_sense_is_one_line_and_no_run(
    accelopt, start, tmp_path, arguments, words
):
    data = start()
    check(accelopt("fork", data["run"], *arguments), *words)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [data["run"]]


def test_a_fork_at_an_iteration_that_was_not_finished_says_how_far_the_run_got(accelopt, start):
    data = stopped_run(start)
    with opened(data) as store:
        done = store.summary().iterations
    words = [f"has finished {done}", f"--at takes 0 to {done}"]
    check(accelopt("fork", data["run"], "--at", done + 1), *words)
    assert accelopt("fork", data["run"], "--at", done, "--set", "max_evaluations=none").code == 0


# replay.


@pytest.mark.parametrize("graph", ["optimize", "best-of-n"])
def test_a_replay_asks_no_model_and_finds_the_same(accelopt, scripted, start, graph):
    data = start("--graph", graph)
    calls, made = scripted.calls, len(scripted.made)
    result = accelopt("replay", data["run"])
    assert result.code == 0
    assert "the same beams and the same best kernel" in result.out
    assert f"3 iterations, {calls} recorded answers, 0 model calls" in result.out
    assert (scripted.calls, len(scripted.made)) == (calls, made)
    found = accelopt("replay", data["run"], "--json").data
    assert found == {
        "run": data["run"],
        "same": True,
        "difference": "",
        "iterations": 3,
        "answers": calls,
        "model_calls": 0,
        "evaluations": 0,
        "changed_prompts": 0,
        "best_candidate": data["best_candidate"],
        "best_latency_us": data["best_latency_us"],
        "recorded_best_candidate": data["best_candidate"],
        "recorded_best_latency_us": data["best_latency_us"],
    }


@pytest.mark.parametrize("as_json", [False, True])
def test_a_replay_that_differs_says_where_and_ends_with_1(accelopt, start, monkeypatch, as_json):
    class Slower(DummyBackend):
        """A newer judge, for which the fastest kernel is slow."""

        version = "2"

        def _judge(self, task, source, stages, seeds):
            found = super()._judge(task, source, stages, seeds)
            fast = found.latency_us is not None and found.latency_us < 20
            return found.model_copy(update={"latency_us": 500.0}) if fast else found

    data = start()
    assert data["best_latency_us"] == 12.5
    monkeypatch.setitem(installed().backends, "dummy", Slower)
    result = accelopt("replay", data["run"], *["--json"] * as_json)
    assert result.code == 1
    if as_json:
        assert result.data["same"] is False
        assert result.data["evaluations"] > 0
        assert result.data["difference"].startswith("iteration 3: the beam was i3-")
        assert result.data["best_latency_us"] == 25
    else:
        assert "iteration 3: the beam was i3-" in result.out
        assert "the judge is another one now" in result.out
        assert "the same beams" not in result.out


def test_a_run_that_has_recorded_nothing_can_not_be_replayed(accelopt, start, tmp_path):
    config = RunConfig.load(task="doubling", backend="dummy", model="scripted")
    with RunStore.create(tmp_path / "runs", config, "dummy/doubling") as store:
        name = store.run_id
    result = accelopt("replay", name)
    assert result.code == 2
    assert "nothing to replay" in result.err


# runs show.


def test_a_run_shows_its_cost_its_failures_and_where_it_was_forked(
    accelopt, scripted, start, tmp_path
):
    (tmp_path / "prices.toml").write_text(PRICES)
    refused = iter(["I'm sorry, but I can't help with that."])
    answer = scripted.answer

    def sometimes(request):
        usual = answer(request)
        return next(refused, usual) if request.role == "executor" else usual

    scripted.answer = sometimes
    data = start("--prices", "prices.toml")
    assert data["failures"] == {"reply_format:refusal": 1}
    assert data["cost_usd"] > 0
    shown = accelopt("runs", "show", data["run"], "--json").data
    assert shown["failures"] == data["failures"]
    assert shown["cost_usd"] == data["cost_usd"]
    assert (shown["unpriced_calls"], shown["forked_from"]) == (0, "")
    text = accelopt("runs", "show", data["run"]).out
    assert "1 reply_format:refusal" in text
    tokens = data["input_tokens"] + data["output_tokens"]
    assert f"{tokens:,} tokens, " in text
    assert "forked from" not in text
    forked = accelopt("fork", data["run"], "--at", "2", "--json").data
    text = accelopt("runs", "show", forked["run"]).out
    assert f"{data['run']} at iteration 2" in text
    # The failures are the parent's.
    assert "refusal" not in text
    assert accelopt("runs", "show", forked["run"], "--json").data["failures"] == {}


def test_a_stopped_run_shows_why(accelopt, start):
    data = stopped_run(start)
    text = accelopt("runs", "show", data["run"]).out
    assert "stopped: the budget of 3 evaluations is used up" in text


# Ctrl-C.


def test_ctrl_c_ends_the_run_at_its_next_step_and_it_resumes(accelopt, scripted):
    def interrupt(request):
        if request.role == "executor" and not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    pressed = []
    before = signal.getsignal(signal.SIGINT)
    scripted.before = interrupt
    result = accelopt(*COMMAND.split(), "--json")
    assert signal.getsignal(signal.SIGINT) == before
    assert result.code == 0
    data = json.loads(result.out)
    assert (data["status"], data["message"]) == ("stopped", "")
    assert "stopping after the steps that are under way" in result.err
    assert f"stopped; go on with: accelopt resume {data['run']}" in result.err
    assert data["model_calls"] == scripted.calls
    again = accelopt("resume", data["run"], "--json").data
    assert (again["status"], again["best_latency_us"]) == ("finished", 12.5)
    assert again["model_calls"] == scripted.calls
