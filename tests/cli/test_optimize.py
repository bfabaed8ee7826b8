"""`accelopt optimize`: the main job, its JSON contract, resuming, a person's own kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KEYS = {
    "task",
    "backend",
    "run",
    "run_folder",
    "status",
    "message",
    "baseline_latency_us",
    "best_latency_us",
    "speedup",
    "comparison",
    "percent_of_peak_baseline",
    "percent_of_peak_best",
    "best_kernel",
    "best_candidate",
    "evaluations",
    "reused_evaluations",
    "model_calls",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "unpriced_calls",
    "failures",
    "calibration",
    "judged",
    "notes",
}

SCALE_KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(512)[None, :]
    for i in nl.affine_range(x.shape[1] // 512):
        tile = nl.load(x[rows, i * 512 + columns])
        a = nisa.activation(op=nl.exp, data=tile, scale=-1.0)
        b = nisa.tensor_scalar(a, op0=nl.add, operand0=1.0)
        c = nisa.reciprocal(b)
        d = nisa.activation(op=nl.exp, data=c, scale=-1.0)
        e = nisa.tensor_scalar(d, op0=nl.add, operand0=1.0)
        f = nisa.reciprocal(e)
        g = nisa.activation(op=nl.exp, data=f, scale=-1.0)
        h = nisa.tensor_scalar(g, op0=nl.add, operand0=1.0)
        r = nisa.reciprocal(h)
        nl.store(out[rows, i * 512 + columns], value=r)
    return out
"""

SCALE_REFERENCE = """
import numpy as np


def get_inputs(seed):
    return [np.random.default_rng(seed).standard_normal((128, 4096)).astype(np.float32)]


def forward(x):
    for _ in range(3):
        x = 1 / (1 + np.exp(-x))
    return x
"""


def test_the_main_job_and_its_json_contract(accelopt):
    result = accelopt("optimize", "silu@small", "--iterations", "2", "--memory", "none", "--json")
    assert result.code == 0
    data = result.data
    assert data.keys() == KEYS
    assert data["task"] == "nkibench/silu@small"
    assert data["backend"] == "sim-trn1"
    assert data["status"] == "finished"
    assert data["best_latency_us"] < data["baseline_latency_us"]
    assert data["speedup"] == data["baseline_latency_us"] / data["best_latency_us"]
    assert data["percent_of_peak_best"] > data["percent_of_peak_baseline"]
    # The saved file stands on its own: judged again, it is correct on all five seeds.
    again = accelopt("evaluate", data["best_kernel"], "--task", "silu@small", "--json").data
    assert again["status"] == "ok"
    assert len(again["seeds"]) == 5
    assert again["latency_us"] == data["best_latency_us"]
    # And the run can be looked at.
    listed = accelopt("runs", "list", "--json").data
    assert [entry["run"] for entry in listed] == [data["run"]]
    shown = accelopt("runs", "show", data["run"], "--json").data
    assert shown["candidates"][0]["candidate"] == "baseline"
    assert data["best_candidate"] in [c["candidate"] for c in shown["candidates"]]
    # A finished run that is resumed asks for nothing again.
    resumed = accelopt("optimize", "--resume", data["run"], "--json").data
    assert resumed == data


@pytest.mark.slow
def test_the_same_seed_gives_the_same_search(accelopt):
    # Without the evaluations that runs share, which would be free the second time.
    command = "optimize silu@small --iterations 1 --memory none --json"
    first, second = (
        accelopt(*command.split(), "--set", "evaluation_cache=none").data for _ in range(2)
    )
    for key in ("best_candidate", "best_latency_us", "evaluations", "model_calls"):
        assert first[key] == second[key]


def test_the_summary_for_people(accelopt):
    result = accelopt("optimize", "silu@small", "--iterations", "1", "--memory", "none")
    assert result.code == 0
    for words in ("baseline", "best", "speedup", "of peak", "best.py", "run folder"):
        assert words in result.out
    assert "iteration 1/1" in result.err


def test_a_persons_own_kernel(accelopt, tmp_path):
    (tmp_path / "mine.py").write_text(SCALE_KERNEL)
    (tmp_path / "ref.py").write_text(SCALE_REFERENCE)
    data = accelopt(
        "optimize", "mine.py", "--reference", "ref.py", "--iterations", "1", "--memory", "none",
        "--json",
    ).data  # fmt: skip
    assert data["speedup"] > 1.0
    best = accelopt(
        "evaluate", data["best_kernel"], "--reference", "ref.py", "--json", "--seeds", "5"
    ).data
    assert best["status"] == "ok"


def test_settings_come_from_toml_environment_and_flags_in_that_order(
    accelopt, tmp_path, monkeypatch
):
    path = tmp_path / "run.toml"
    path.write_text('task = "silu@small"\niterations = 1\nnum_plans = 4\nmemory = "none"\n')
    monkeypatch.setenv("ACCELOPT_NUM_PLANS", "3")
    data = accelopt("optimize", "--config", path, "--num-plans", "1", "--json").data
    saved = (Path(data["run_folder"]) / "run.toml").read_text()
    assert "num_plans = 1" in saved
    assert "iterations = 1" in saved


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_says_how_to_resume(tmp_path):
    command = [
        sys.executable, "-m", "accelopt", "optimize", "silu@small", "--memory", "none", "--json",
        "--iterations", "3", "--set", "evaluation_cache=none",
    ]  # fmt: skip
    environment = os.environ | {"ACCELOPT_HOME": str(tmp_path / "home")}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    runs = tmp_path / "runs"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        events = list(runs.glob("*/events.jsonl"))
        if events and "evaluation_finished" in events[0].read_text():
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    stopped = json.loads(out)
    assert stopped["status"] == "stopped"
    assert f"accelopt resume {stopped['run']}" in err
    assert "Traceback" not in err
    resumed = subprocess.run(
        [sys.executable, "-m", "accelopt", "optimize", "--resume", stopped["run"], "--json"],
        cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    finished = json.loads(resumed.stdout)
    assert finished["status"] == "finished"
    whole = subprocess.run(
        command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=120
    )
    uninterrupted = json.loads(whole.stdout)
    for key in ("best_candidate", "best_latency_us", "evaluations", "model_calls"):
        assert finished[key] == uninterrupted[key]
