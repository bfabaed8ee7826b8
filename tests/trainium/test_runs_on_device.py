"""Whole commands on the stand-in: a run, the conformance kit, the attack suite, cores and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from devices_under_test import DEVICES

from accelopt.attacks.suite import run_suite
from accelopt.testing.conformance import check_backend
from accelopt.testing.samples import nki_sample
from accelopt_trainium.cores import CorePool

SAMPLE = nki_sample()
RUN = [sys.executable, "-m", "accelopt"]
SMALL = ["--iterations", "1", "--beam-width", "1", "--num-plans", "2", "--num-samples", "1"]


def environment(fake, home):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | fake.environment | {"ACCELOPT_HOME": str(home)}


def optimize(fake, home, backend, *more):
    place = ["--model", "rewriter", "--runs-dir", str(home), "--json"]
    return [*RUN, "optimize", "silu@small", "--backend", backend, *place, *SMALL, *more]


@pytest.mark.slow
@pytest.mark.parametrize(("generation", "sdk"), [("trn1", "2.26"), ("trn2", "2.27")])
def test_a_run_goes_from_end_to_end(machine, tmp_path, generation, sdk):
    fake = machine(generation=generation, sdk=sdk)
    done = subprocess.run(
        optimize(fake, tmp_path, generation),
        env=environment(fake, tmp_path), capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert (result["status"], result["backend"]) == ("finished", generation)
    assert result["baseline_latency_us"] > 0
    assert result["judged"]["pre-screen"].startswith(f"by sim-{generation}: kept ")
    assert result["notes"][0].startswith("mean of 10 profiled launches")
    if result["speedup"] > 1:
        assert result["comparison"]["measured"] is True


@pytest.mark.parametrize(
    ("generation", "sdk"),
    [
        pytest.param("trn1", "2.26", marks=pytest.mark.slow),
        pytest.param("trn2", "2.27", marks=pytest.mark.soak),
    ],
)
def test_the_conformance_kit_passes(machine, backend, generation, sdk):
    machine(generation=generation, sdk=sdk, cores=4)
    report = check_backend(lambda: backend(DEVICES[generation]))
    report.raise_if_failed()
    assert sum(not result.skipped for result in report.results) >= 12


@pytest.mark.parametrize(
    "prescreen",
    [pytest.param("", marks=pytest.mark.slow), pytest.param("off", marks=pytest.mark.soak)],
)
def test_the_attack_suite_is_blocked_and_its_twins_pass(machine, backend, monkeypatch, prescreen):
    machine(sdk="2.26")
    if prescreen:
        monkeypatch.setenv("ACCELOPT_PRESCREEN", prescreen)
    report = run_suite(backend())
    wrong = [result for result in report.results if not result.held]
    assert not wrong
    assert report.record.attacks == report.record.blocked >= 15
    assert report.record.twins == report.record.twins_passed


@pytest.mark.slow
def test_four_cores_evaluate_four_kernels_at_once(machine, backend):
    fake = machine(sdk="2.26", cores=4)
    judge = backend()
    assert judge.evaluate(SAMPLE.task, SAMPLE.good).ok  # everything is loaded and cached
    fake.clear_log()
    sources = [
        SAMPLE.good.model_copy(update={"text": SAMPLE.good.text + f"\nSIZE = {index}\n"})
        for index in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda source: judge.evaluate(SAMPLE.task, source), sources))
    assert all(result.correct for result in results)
    cores = {result.notes[0].rpartition("core ")[2] for result in results}
    assert cores == {"0", "1", "2", "3"}
    # From a core's first execution to its last is the time that it was held.
    held = {}
    for entry in fake.log():
        if entry["event"] == "execute":
            start, end = held.get(entry["core"], (entry["start"], entry["end"]))
            held[entry["core"]] = (min(start, entry["start"]), max(end, entry["end"]))
    assert len(held) == 4


def test_a_core_serves_one_evaluation_at_a_time(tmp_path):
    pool = CorePool([0, 1], tmp_path)
    with pool.lease(wait_s=0) as first, pool.lease(wait_s=0) as second:
        assert {first, second} == {0, 1}
        other = CorePool([0, 1], tmp_path)
        with pytest.raises(Exception, match="no NeuronCore became free"), other.lease(wait_s=0.1):
            pass
    with other.lease(wait_s=0) as again:
        assert again == 0


@pytest.mark.slow
@pytest.mark.parametrize("hang", ["execute", "compile"])
def test_killing_a_run_frees_the_cores_and_leaves_no_process(machine, tmp_path, hang):
    fake = machine(sdk="2.26")
    fake.misbehave(hang=hang)
    run = subprocess.Popen(
        optimize(fake, tmp_path, "trn1"),
        env=environment(fake, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: processes_of(fake), 60)
        if hang == "execute":
            wait_until(lambda: holders(fake), 60)
        time.sleep(1)
        run.send_signal(signal.SIGKILL)
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: not processes_of(fake), 15)
    assert not holders(fake)


def holders(fake):
    """Processes that hold a core, by the stand-in's `neuron-ls`."""
    tool = fake.tools / "neuron-ls"
    done = subprocess.run([tool, "--json-output"], capture_output=True, text=True, check=True)
    return [p for device in json.loads(done.stdout) for p in device["neuron_processes"]]


def processes_of(fake):
    """Process ids whose command line or environment names this machine, but for the runs."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{entry}/maps", "rb") as file:
                mapped = file.read()
        except OSError:
            continue
        root = str(fake.root).encode()
        if root in words or root in mapped:
            found.append(int(entry))
    return found


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
