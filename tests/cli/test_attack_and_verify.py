"""`accelopt attack` and `accelopt verify`, as a person runs them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

import accelopt.attacks.suite as suite
from accelopt.attack_record import last_attack
from accelopt.attacks import Exploit, all_attacks
from accelopt.attacks.kernels import HONEST
from accelopt.plugins import installed


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


@pytest.fixture
def run(accelopt):
    result = accelopt("optimize", "silu@small", "--iterations", "1", "--memory", "none", "--json")
    assert result.data["comparison"]["outcome"] == "faster"
    assert result.data["comparison"]["low"] > 1
    return Path(result.data["run_folder"])


def states(result):
    return {finding["claim"]: finding["state"] for finding in result.data["findings"]}


def test_a_run_is_verified_and_a_changed_one_is_not(accelopt, run, tmp_path):
    result = accelopt("verify", run, "--json")
    assert result.code == 0
    assert result.data["verified"] is True
    assert set(states(result).values()) <= {"ok", "note"}
    evidence = json.loads((run / "evidence" / "evidence.json").read_text())
    checks = {check["name"]: check["seed"] for check in evidence["evaluation"]["checks"]}
    assert set(checks) == {"stress:tails", "fresh"}
    assert "verified" in accelopt("verify", run).out

    def changed(edit):
        bundle = tmp_path / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        shutil.copytree(run / "evidence", bundle)
        edit(bundle)
        result = accelopt("verify", bundle, "--json")
        assert result.code == 1
        return {claim for claim, state in states(result).items() if state == "fail"}

    def edit_evidence(**changes):
        def edit(bundle):
            data = json.loads((bundle / "evidence.json").read_text())
            data["evaluation"] |= changes
            (bundle / "evidence.json").write_text(json.dumps(data))

        return edit

    faster = evidence["evaluation"]["latency_us"] / 2
    assert changed(edit_evidence(latency_us=faster)) == {"the latency is as predicted"}
    assert changed(edit_evidence(trace_hash="0" * 64)) == {"the trace is the same"}
    assert "the errors are as recorded" in changed(
        edit_evidence(seeds=evidence["evaluation"]["seeds"][:2])
    )

    def comment(bundle):
        kernel = bundle / "kernel.py"
        kernel.write_text(kernel.read_text() + "# a word more\n")

    assert changed(comment) == {"the files are those that were judged"}

    def break_kernel(bundle):
        (bundle / "kernel.py").write_text("def kernel(x):\n    return x\n")

    assert "the kernel is correct" in changed(break_kernel)


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
