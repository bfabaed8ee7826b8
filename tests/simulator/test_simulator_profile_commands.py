"""`accelopt profile` and `accelopt timeline`, with a prediction that is given."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from xml.etree import ElementTree

import pytest
from test_simulator_profile_text import RUN, FakePrediction

from accelopt.cli import main as command_line
from accelopt.plugins import installed
from accelopt_simulator.process.worker import WorkerPool
from accelopt_simulator.profile_commands import profile, timeline

TASK = ("--task", "silu@small")


@pytest.fixture
def asked(monkeypatch):
    """Devices that a prediction was asked for."""
    devices: list[str] = []

    def predict(trace, device_name):
        assert trace.num_instructions > 0
        devices.append(device_name)
        return FakePrediction(RUN)

    module = ModuleType("accelopt_simulator.latency.predict")
    module.predict = predict
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return devices


@pytest.fixture
def run(monkeypatch, capsys, tmp_path, asked):
    """Call a command; gives exit code, output and error."""
    monkeypatch.chdir(tmp_path)

    def add(app):
        app.command("profile")(profile)
        app.command("timeline")(timeline)

    monkeypatch.setattr(command_line, "_add_plugin_commands", add)

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
    assert "latency   893 us (830-950)" in out
    assert "bound by  vector" in out
    code, out, _ = run("profile", kernel, *TASK, "--json", "--backend", "sim-trn2")
    assert code == 0
    data = json.loads(out)
    assert data["status"] == "ok"
    assert data["backend"] == "sim-trn2"
    assert data["latency_us"] == 893
    assert asked == ["trn1", "trn2"]


def test_timeline_writes_what_it_is_asked_for(run, kernel, tmp_path):
    code, out, _ = run("timeline", kernel, *TASK)
    assert code == 0
    data = json.loads((tmp_path / "silu.timeline.json").read_text())
    assert data["otherData"]["title"].endswith("on trn1")
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
