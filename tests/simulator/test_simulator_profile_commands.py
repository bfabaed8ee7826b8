"""`accelopt profile`, `accelopt timeline` and `accelopt calibrate`, from the command line."""

from __future__ import annotations

import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest
from simulator_kernels import traced, whole_kernel

from accelopt.cli import main as command_line
from accelopt.plugins import installed
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.latency import calibration
from accelopt_simulator.latency import predict as model
from accelopt_simulator.latency.parameters import with_values
from accelopt_simulator.latency.predict import predict_on
from accelopt_simulator.process.worker import WorkerPool

TASK = ("--task", "silu@small")


@pytest.fixture
def asked(monkeypatch):
    """Devices that a prediction was asked for."""
    devices: list[str] = []
    predict = model.predict

    def recorded(trace, device_name, timing=None):
        devices.append(device_name)
        return predict(trace, device_name, timing)

    monkeypatch.setattr(model, "predict", recorded)
    return devices


@pytest.fixture
def run(monkeypatch, capsys, tmp_path, asked):
    """Call a command; gives exit code, output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            command_line.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "silu.py"
    path.write_text(installed().task("silu@small").baseline.text)
    return path


def test_profile_for_people_and_machines(run, kernel, asked):
    code, out, _ = run("profile", kernel, *TASK)
    assert code == 0
    version = calibration.timing_for("trn1").version
    assert f"note: latency model {version}, typical error" in out
    assert "bound by  " in out
    assert "Lines that hold the critical path" in out
    assert "dma " in out
    code, out, _ = run("profile", kernel, *TASK, "--json", "--backend", "sim-trn2")
    assert code == 0
    data = json.loads(out)
    assert data["status"] == "ok"
    assert data["backend"] == "sim-trn2"
    assert data["low_us"] < data["latency_us"] < data["high_us"]
    assert data["peak_latency_us"] < data["latency_us"]
    task = installed().task("silu@small")
    assert data["profile"]["hbm_read_bytes"] + data["profile"]["hbm_write_bytes"] == (
        task.work.hbm_bytes
    )
    labels = [row["change"] for row in data["what_if"]]
    assert "no waiting for results" in labels
    assert any(label.startswith("load of line") for label in labels)
    sources = task.baseline.text.splitlines()
    for row in data["lines"]:
        assert row["source"] == sources[row["line"] - 1].strip()
    assert asked == ["trn1", "trn2"]


def test_profile_and_evaluate_predict_the_same(run, kernel):
    _, out, _ = run("profile", kernel, *TASK, "--json")
    profiled = json.loads(out)
    code, out, _ = run("evaluate", kernel, *TASK, "--json")
    assert code == 0
    evaluated = json.loads(out)
    assert evaluated["latency_us"] == profiled["latency_us"]
    assert evaluated["profile"]["hbm_read_bytes"] == profiled["profile"]["hbm_read_bytes"]


def test_timeline_writes_what_it_is_asked_for(run, kernel, tmp_path):
    code, out, _ = run("timeline", kernel, *TASK)
    assert code == 0
    data = json.loads((tmp_path / "silu.timeline.json").read_text())
    assert data["otherData"]["title"].endswith("on trn1")
    spans = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert len(spans) > 10
    assert all(event["dur"] >= 0 for event in spans)
    assert "silu.timeline.json" in out
    (tmp_path / "silu.timeline.json").unlink()
    code, _, _ = run("timeline", kernel, *TASK, "--svg", "a.svg")
    assert code == 0
    ElementTree.fromstring((tmp_path / "a.svg").read_text())
    assert not (tmp_path / "silu.timeline.json").exists()


def test_a_bad_kernel_is_exit_code_1_and_its_diagnostics(run, kernel, tmp_path, asked):
    text = kernel.read_text()
    kernel.write_text(text.replace("nl.load(", "nl.lode(", 1))
    code, out, _ = run("profile", kernel, *TASK)
    assert code == 1
    assert out.startswith("status   load_error")
    assert "error: AttributeError: " in out
    code, out, _ = run("profile", kernel, *TASK, "--json")
    assert code == 1
    assert json.loads(out)["diagnostics"][0]["rule"]
    code, _, _ = run("timeline", kernel, *TASK, "-o", "out.json")
    assert code == 1
    assert not (tmp_path / "out.json").exists()
    assert asked == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("profile", "--backend", "nothing"), "'nothing' predicts no timeline"),
        (("timeline", "-o", "no/such/out.json"), "can't write no/such/out.json: no folder no/such"),
        (("timeline", "--svg", "no/out.svg"), "can't write no/out.svg: no folder no"),
        (("timeline", "--grid", "x"), "--grid"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, kernel, monkeypatch, arguments, message):
    # All of it shows before the work.
    monkeypatch.delattr(WorkerPool, "trace")
    command, *options = arguments
    code, out, err = run(command, kernel, *TASK, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_exit_code_2(run, kernel, tmp_path):
    (tmp_path / "taken").mkdir()
    code, _, err = run("timeline", kernel, *TASK, "-o", "taken")
    assert code == 2
    assert err.startswith("accelopt: error: can't write taken: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["silu.py", "taken"]


# --- calibrate ---

KERNELS = {
    "copies": """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[i], nl.load(x[i]))
    return out
""",
    "vector": """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.load(x[i])
        for k in nl.static_range(10):
            a[:, 0:8] = nl.add(a[:, 0:8], a[:, 8:16])
        nl.store(out[i], a)
    return out
""",
    "rows": """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        for j in nl.affine_range(16):
            nl.store(out[i, :, nl.ds(32 * j, 32)], nl.load(x[i, :, nl.ds(32 * j, 32)]))
    return out
""",
}


@pytest.fixture
def measured(tmp_path):
    """A measurement file of three kernels, measured on a device with dear DMA descriptors."""
    x = np.zeros((4, 128, 512), np.float32)
    timing = with_values(TRN1_TIMING, {"dma_row_ns": 40.0, "dve_overhead_ns": 60.0})
    rows = []
    for name, text in KERNELS.items():
        (tmp_path / f"{name}.py").write_text(whole_kernel(text))
        found = predict_on(traced(text, x), TRN1, timing)
        rows.append({"name": name, "file": f"{name}.py", "latency_us": found.latency_us,
                     "arguments": [{"shape": list(x.shape)}]})  # fmt: skip
    path = tmp_path / "measured.json"
    path.write_text(json.dumps({"device": "trn1", "source": "a test", "kernels": rows}))
    return path


def test_calibrate_writes_what_the_backends_then_use(run, measured, kernel):
    before = json.loads(run("profile", kernel, *TASK, "--json")[1])
    code, out, _ = run("calibrate", "--measurements", measured)
    assert code == 0
    timing = calibration.timing_for("trn1")
    assert timing.version in out
    assert timing.dma_row_ns > TRN1_TIMING.dma_row_ns
    (file,) = calibration.calibrations_dir().iterdir()
    assert file.name == f"{timing.version}.json"
    for name in KERNELS:
        assert name in out
    assert "dma_row_ns" in out
    after = json.loads(run("profile", kernel, *TASK, "--json")[1])
    assert after["latency_us"] != before["latency_us"]
    assert timing.version in after["notes"][0]


def test_calibrate_writes_where_it_is_asked_to_and_changes_nothing_else(run, measured, tmp_path):
    code, out, _ = run("calibrate", "--measurements", measured, "-o", "fit.json", "--json")
    assert code == 0
    data = json.loads(out)
    written = json.loads((tmp_path / "fit.json").read_text())
    assert data["file"] == "fit.json"
    assert data["version"].startswith("trn1-")
    assert {key: data[key] for key in written} == written
    assert set(written["residuals"]) == set(written["folds"]) == set(KERNELS)
    assert not calibration.calibrations_dir().exists()


def test_bad_measurements_are_one_line_and_exit_code_2(run, measured, monkeypatch, tmp_path):
    data = json.loads(measured.read_text())

    def refused(changes, message, *options):
        (tmp_path / "bad.json").write_text(json.dumps(data | changes))
        code, out, err = run("calibrate", "--measurements", "bad.json", *options)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1

    refused(
        {"kernels": [data["kernels"][0] | {"file": "none.py"}] * 3}, "can't read the kernel none.py"
    )
    monkeypatch.delattr(WorkerPool, "trace")  # the rest shows before the work
    refused({"device": "trn9"}, "unknown device 'trn9' in the measurements")
    refused({"kernels": data["kernels"][:2]}, "at least three measured kernels")
    refused({"kernels": 1}, "bad.json: kernels: ")
    refused({}, "can't write no/fit.json: no folder no", "-o", "no/fit.json")
    assert not os.path.exists("fit.json")


def test_a_device_without_measurements_is_exit_code_2(run):
    code, _, err = run("calibrate", "--device", "trn2")
    assert code == 2
    assert "no measurements of trn2 come with accelopt" in err


def test_a_broken_calibration_is_exit_code_2(run, kernel):
    folder = calibration.calibrations_dir()
    folder.mkdir(parents=True)
    (folder / "trn1-2030-01-01-abc.json").write_text("{")
    code, out, err = run("profile", kernel, *TASK)
    assert (code, out) == (2, "")
    assert "trn1-2030-01-01-abc.json is not readable" in err
