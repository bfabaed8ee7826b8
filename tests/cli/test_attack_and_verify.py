"""`accelopt attack` and `accelopt verify`, as a person runs them."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest

import accelopt.attacks.suite as suite
from accelopt import optimize
from accelopt.attack_record import last_attack
from accelopt.attacks import Exploit, all_attacks
from accelopt.attacks.kernels import HONEST
from accelopt.evidence import Evidence, read_bundle
from accelopt.faster import Outcome
from accelopt.plugins import installed
from accelopt.verification import task_of, verify


def test_attack_prints_counts_and_keeps_them(accelopt, monkeypatch):
    few = [attack for attack in all_attacks() if attack.row in (13, 18)]
    monkeypatch.setattr(suite, "all_attacks", lambda: few)
    result = accelopt("attack", "--backend", "sim-trn1", "--json")
    assert result.code == 0
    counts = {key: result.data[key] for key in ("attacks", "blocked", "twins", "twins_passed")}
    assert counts == {"attacks": 2, "blocked": 2, "twins": 2, "twins_passed": 2}
    backend = installed().backend("sim-trn1")
    record = last_attack(backend)
    assert record is not None
    assert record.clean
    # Another judge has not been attacked yet.
    backend.version += "-another"
    assert last_attack(backend) is None


def test_a_hole_ends_with_exit_code_1(accelopt, monkeypatch):
    (attack,) = [attack for attack in all_attacks() if attack.title == "forge the trace"]
    # What a successful forgery looks like from outside: right, and faster than its twin.
    hole = dataclasses.replace(attack, exploits=(Exploit("works", lambda ground: HONEST),))
    monkeypatch.setattr(suite, "all_attacks", lambda: [hole])
    result = accelopt("attack", "--backend", "sim-trn1")
    assert result.code == 1
    assert "NOT BLOCKED" in result.out
    assert "blocked       0/1" in result.out


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that found something faster; made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELOPT_HOME", str(tmp_path_factory.mktemp("home")))
        folder = tmp_path_factory.mktemp("runs")
        found = optimize("silu@small", iterations=1, memory="none", runs_dir=folder, progress=False)
    assert found.comparison.outcome is Outcome.FASTER
    assert found.comparison.low > 1
    return found.run_folder


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / finished.name)


class Recorded:
    """A judge that finds again what was recorded, so that a check sees the bundle's change only."""

    def __init__(self, evidence):
        self.version = evidence.backend["version"]
        self.evidence = evidence

    def evaluate(self, task, source, **options):
        return self.evidence.evaluation

    def compare(self, task, parent, child):
        return self.evidence.comparison


def states(result):
    return {finding["claim"]: finding["state"] for finding in result.data["findings"]}


def test_a_run_is_verified(accelopt, run):
    result = accelopt("verify", run, "--json")
    assert result.code == 0
    assert result.data["verified"] is True
    assert set(states(result).values()) <= {"ok", "note"}
    evidence = json.loads((run / "evidence" / "evidence.json").read_text())
    checks = {check["name"]: check["seed"] for check in evidence["evaluation"]["checks"]}
    assert set(checks) == {"stress:tails", "fresh"}


def test_a_changed_kernel_is_not_verified(accelopt, run):
    (run / "evidence" / "kernel.py").write_text("def kernel(x):\n    return x\n")
    result = accelopt("verify", run)
    assert result.code == 1
    assert "NOT verified" in result.out


def _comment(data, texts):
    texts["kernel.py"] += "# a word more\n"


CHANGES = {
    "the latency is as predicted": lambda data, texts: data["evaluation"].update(latency_us=50.0),
    "the trace is the same": lambda data, texts: data["evaluation"].update(trace_hash="0" * 64),
    "the errors are as recorded": lambda data, texts: data["evaluation"].update(
        seeds=data["evaluation"]["seeds"][:2]
    ),
    "the files are those that were judged": _comment,
    "the task is what the bundle says": lambda data, texts: data["task"].update(seeds=[1]),
    "the judge withstood the attack suite": lambda data, texts: data.update(
        attack_suite={
            "created": "2026-01-01", "backend_version": "1", "attacks": 2, "blocked": 1,
            "twins": 2, "twins_passed": 2,
        }
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", CHANGES)
def test_each_changed_claim_fails_alone(claim, run):
    evidence, texts = read_bundle(run / "evidence")
    data = evidence.model_dump()
    CHANGES[claim](data, texts)
    changed = Evidence.model_validate(data)
    task = task_of(changed, run / "evidence", trust_reference=False)
    findings = verify(changed, texts, task, Recorded(evidence))
    assert {finding.claim for finding in findings if finding.state == "fail"} == {claim}


def test_a_strangers_reference_is_not_run_unasked(accelopt, run, tmp_path):
    bundle = tmp_path / "elsewhere"
    shutil.copytree(run / "evidence", bundle)
    text = (bundle / "evidence.json").read_text()
    (bundle / "evidence.json").write_text(text.replace("nkibench/silu@small", "their/own"))
    refused = accelopt("verify", bundle)
    assert refused.code == 2
    assert "--trust-reference" in refused.err
    trusted = accelopt("verify", bundle, "--trust-reference", "--json")
    assert trusted.code == 0
    assert trusted.data["task"] == "their/own"


def test_a_folder_without_evidence_is_one_line(accelopt, tmp_path):
    result = accelopt("verify", tmp_path)
    assert result.code == 2
    assert "Traceback" not in result.err


def test_tasks_are_checked(accelopt, tmp_path):
    result = accelopt("tasks", "check", "silu@small", "adamw@narrow", "--json")
    assert result.code == 0
    assert [entry["sound"] for entry in result.data] == [True, True]
    kernel, reference = tmp_path / "kernel.py", tmp_path / "reference.py"
    kernel.write_text("import neuronxcc.nki.language as nl\ndef kernel(x):\n    return x\n")
    reference.write_text(
        "import numpy as np\n"
        "def get_inputs(seed):\n"
        "    return [np.random.RandomState(seed).rand(8, 8).astype(np.float32)]\n"
        "def forward(x):\n    return np.ones_like(x) + x * np.float32(1e-9)\n"
    )
    unsound = accelopt("tasks", "check", "--kernel", kernel, "--reference", reference)
    assert unsound.code == 1
    assert "UNSOUND: it accepts a constant" in unsound.out
