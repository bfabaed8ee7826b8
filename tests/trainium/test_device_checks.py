"""The checks of a device pass on one that tells the truth, and fail on one that does not."""

from __future__ import annotations

import json

import pytest
from devices_under_test import DEVICES

from accelopt_simulator import measurements
from accelopt_trainium import device_checks as module
from accelopt_trainium.device_checks import device_checks
from accelopt_trainium.measure import Protocol

pytestmark = pytest.mark.slow
SMALL = ("nkibench/silu@small", "nkibench/rmsnorm_matmul@small", "nkibench/adamw@small")


@pytest.fixture(autouse=True)
def two_evaluations(monkeypatch):
    monkeypatch.setattr(module, "NOISE_EVALUATIONS", 2)


def run(judge, compared=()):
    said = []
    found = {check.name: check for check in device_checks(judge, said.append, compared)}
    assert said
    return found


def test_an_honest_device_passes_and_its_measurements_can_be_fitted(
    machine, backend, accelopt_home
):
    machine(sdk="2.26")
    found = run(backend(), SMALL)
    assert [check.state for check in found.values()] == ["ok"] * 4, found
    assert "right on 2 inputs" in found["known answer (neuronxcc.nki)"].detail
    ratio = float(found["the clock can rank"].detail.rpartition(" ")[2].removesuffix("x"))
    # The simulator's ratio, with the stand-in's noise on both.
    assert ratio == pytest.approx(8.68, rel=0.015)
    compared = found["simulator against device"]
    # The stand-in's device is our simulator, so the error is its noise.
    assert "mean error 0%" in compared.detail
    assert compared.fix.startswith("accelopt calibrate --measurements ")
    (path,) = (accelopt_home / "measurements").iterdir()
    read = measurements.read(path)
    assert (read.device, len(read.kernels)) == ("trn1", 3)
    kernels = measurements.load_kernels(read, path.parent)
    assert all(kernel.latency_us > 0 and kernel.hbm_bytes for kernel in kernels)
    assert json.loads(path.read_text())["source"].startswith("accelopt doctor, 20")


@pytest.fixture
def accelopt_home(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELOPT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_runner_that_returns_zeros_is_caught_first(machine, backend):
    machine(sdk="2.26").misbehave(zeros=True)
    (only,) = run(backend()).values()
    assert (only.state, "returns zeros" in only.detail, bool(only.fix)) == ("fail", True, True)


def test_a_clock_that_stands_still_can_not_rank(machine, backend):
    machine(sdk="2.26").misbehave(clock="constant")
    found = run(backend())["the clock can rank"]
    assert (found.state, "1.00x" in found.detail, bool(found.fix)) == ("fail", True, True)


def test_a_noisy_device_is_warned_of(machine, backend, monkeypatch):
    machine(sdk="2.26").misbehave(noise=0.4)
    # Five single launches within 1 % of each other do not happen by chance.
    monkeypatch.setattr(module, "NOISE_EVALUATIONS", 5)
    found = run(backend(protocol=Protocol(launches=1, repeats=0)))["noise floor"]
    assert (found.state, "are not real" in found.detail) == ("warn", True)


def test_a_profiler_without_a_time_ends_the_list(machine, backend):
    machine(sdk="2.26").misbehave(summary="missing:total_time")
    last = list(run(backend()).values())[-1]
    assert (last.name, last.state, bool(last.fix)) == ("device", "fail", True)


def test_the_dialect_nki_is_tried_and_has_nothing_to_compare_with(machine, backend):
    machine(generation="trn2", sdk="2.32")
    found = run(backend(DEVICES["trn2"]))
    assert {check.state for check in found.values()} == {"ok"}
    assert "known answer (nki)" in found
    assert "does not cover" in found["simulator against device"].detail
