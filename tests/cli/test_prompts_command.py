from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from accelopt.errors import AcceloptError
from accelopt.kernel import KernelSource
from accelopt.plugins import installed
from accelopt.prompts import render
from accelopt.requests import parse_request
from accelopt.testing import DummyBackend, dummy_kernel, dummy_task
from accelopt_graphs.prompt_preview import without_last_return
from accelopt_graphs.prompts_command import prompts

ROLES = ("planner", "executor", "fixer", "summarizer")


@pytest.fixture(autouse=True)
def dummy(monkeypatch):
    registry = installed()
    monkeypatch.setitem(registry.backends, "dummy", DummyBackend)
    monkeypatch.setitem(registry.suites, "dummy", {"doubling": dummy_task})
    monkeypatch.setitem(registry.commands, "prompts", prompts)


@pytest.fixture
def files(tmp_path):
    texts = {
        "plan": "MY PLAN",
        "broken": dummy_kernel(90, status="constraint_violation"),
        "slow": dummy_kernel(80),
        "fast": dummy_kernel(40),
        "unparsable": "def kernel(x:\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def call(*arguments):
    return CliRunner().invoke(prompts, [str(argument) for argument in arguments])


def show(role, *arguments):
    result = call("show", role, "--task", "doubling", "--backend", "dummy", *arguments)
    assert result.exception is None, result.exception
    return result


def data(role, *arguments):
    return json.loads(show(role, *arguments, "--json").stdout)


def test_the_two_parts_are_what_rendering_the_request_gives(files):
    made = data("planner")
    prompt = render(parse_request(made["request"]))
    assert (made["system"], made["user"], made["sha256"]) == (
        prompt.system,
        prompt.user,
        prompt.sha256,
    )
    shown = show("planner")
    assert shown.stdout == (
        f"===== system =====\n{prompt.system}\n===== user =====\n{prompt.user}\n"
    )
    assert shown.stderr == ""


@pytest.mark.parametrize("part", ["system", "user"])
def test_one_part_comes_alone(part):
    assert show("planner", "--part", part).stdout == data("planner")[part] + "\n"
    assert set(data("planner", "--part", part)) & {"system", "user"} == {part}


def test_the_first_planner_prompt_of_a_run(lab_prompt):
    assert show("planner", "--part", "user").stdout == lab_prompt.user + "\n"
    assert show("planner", "--part", "system").stdout == lab_prompt.system + "\n"


@pytest.fixture
def lab_prompt():
    from accelopt.candidate import Candidate
    from accelopt_graphs.request_builders import plan_request, problem_facts

    task, backend = dummy_task(), DummyBackend()
    baseline = Candidate(
        id="baseline",
        iteration=0,
        source=task.baseline,
        evaluation=backend.evaluate(task, task.baseline),
    )
    problem = problem_facts(task, backend)
    return render(plan_request(problem, baseline, experiences=(), tried=(), index=0, seed=0))


def test_a_kernel_of_ones_own(files):
    assert "latency_us: 80.0" in show("planner", "--kernel", files["slow"]).stdout
    assert data("executor", "--kernel", files["slow"])["request"]["kernel"] == dummy_kernel(80)


def test_without_a_plan_the_offline_model_makes_one():
    result = show("executor")
    assert result.stderr == "note: the plan is the first one of the offline model rewriter\n"
    assert "rewrite: none" in result.stdout


def test_a_plan_file(files):
    result = show("executor", "--plan", files["plan"])
    assert "# Plan\n\nMY PLAN\n" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("role", ["executor", "fixer"])
def test_edits_instead_of_a_file(role, files):
    more = ("--kernel", files["broken"]) if role == "fixer" else ()
    assert "<<<<<<< SEARCH" in show(role, *more, "--edit-mode", "edits").stdout
    assert "<<<<<<< SEARCH" not in show(role, *more).stdout


@pytest.mark.parametrize(
    ("name", "status"), [("broken", "constraint_violation"), ("unparsable", "load_error")]
)
def test_a_fixer_sees_a_kernel_that_fails(name, status, files):
    made = data("fixer", "--kernel", files[name], "--plan", files["plan"])
    assert made["request"]["status"] == status
    assert made["request"]["parent"] == dummy_task().baseline.text
    assert made["notes"] == []


def test_a_summarizer_sees_a_pair(files):
    made = data("summarizer", "--slow", files["slow"], "--fast", files["fast"])
    assert made["request"]["speedup"] == 2.0
    assert "hbm_read_bytes: 80000.0 -> 40000.0" in made["user"]
    assert made["notes"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["poet"], "unknown role 'poet'"),
        (["planner", "--part", "x"], "unknown part 'x'"),
        (["executor", "--edit-mode", "x"], "unknown edit mode 'x'"),
        (["planner", "--task", "nothing"], "unknown task 'nothing'"),
        (["planner", "--backend", "nothing"], "unknown backend 'nothing'"),
        (["planner", "--kernel", "nowhere.py"], "can't read kernel file nowhere.py"),
        (["executor", "--plan", "nowhere.txt"], "can't read plan file nowhere.txt"),
        (["summarizer", "--slow", "{slow}"], "a pair has two kernels"),
        (["planner", "--kernel", "{broken}"], "broken fails on dummy (constraint_violation)"),
        (["fixer", "--kernel", "{slow}"], "there is nothing to fix"),
    ],
)
def test_bad_input_is_one_line(arguments, message, files, accelopt):
    given = [argument.format(**files) for argument in arguments]
    defaults = ["--task", "doubling", "--backend", "dummy"]
    result = accelopt("prompts", "show", given[0], *defaults, *given[1:])
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert isinstance(call("show", given[0], *defaults, *given[1:]).exception, AcceloptError)


def test_the_list_names_every_template():
    rows = json.loads(call("list", "--json").stdout)
    assert [row["role"] for row in rows[:4]] == list(ROLES)
    planner = rows[0]
    assert "profile_glossary" in planner["placeholders"]
    assert planner["characters"] > 1000
    assert {"answer_edits.md", "nki_facts.md"} <= {row["template"] for row in rows[4:]}
    table = call("list").stdout
    assert all(row["template"] in table for row in rows)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("def kernel(x):\n    y = x\n    return y\n", "def kernel(x):\n    y = x\n"),
        ("def kernel(x):\n    return (\n        x\n    )\n", "def kernel(x):\n    pass\n"),
        (
            "def helper():\n    return 1\n\ndef kernel(x):\n    if x:\n        return 1\n"
            "    return 2\n\ndef more():\n    return 3\n",
            "def helper():\n    return 1\n\ndef kernel(x):\n    if x:\n        return 1\n"
            "\ndef more():\n    return 3\n",
        ),
    ],
)
def test_the_last_return_is_taken_out(text, rest):
    assert without_last_return(KernelSource(text=text)) == rest


@pytest.mark.slow
def test_all_roles_on_the_simulator():
    made, task = {}, "silu@small"
    for role in ROLES:
        result = call("show", role, "--task", task, "--json")
        assert result.exception is None, result.exception
        made[role] = json.loads(result.stdout)
        parse_request(made[role]["request"])
    assert "Trainium 1" in made["planner"]["system"]
    assert "SBUF: at most 180224 bytes (176 KiB) per partition" in made["planner"]["system"]
    assert made["planner"]["notes"] == []
    assert "rewrite: " in made["executor"]["user"]
    assert made["fixer"]["notes"][0] == (
        "the failing kernel is the baseline without its last return"
    )
    assert made["fixer"]["request"]["diagnostics"]
    assert made["summarizer"]["request"]["speedup"] > 1
    assert made["summarizer"]["request"]["moved"]
