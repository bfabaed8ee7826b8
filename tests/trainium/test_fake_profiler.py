"""Row 29 of the hack list: a candidate that brings its own profiler, or forges its own program.

Each attack is shown to work where the defence is missing, and its honest twin to pass.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from accelopt.errors import AcceloptError
from accelopt.evaluation import EvaluationStatus
from accelopt.testing.samples import nki_sample
from accelopt_trainium import backend as backend_module
from accelopt_trainium import confinement
from accelopt_trainium.compiler import Compiler
from accelopt_trainium.locations import Locations
from accelopt_trainium.tools import PROFILERS, Tool, find_tool

SAMPLE = nki_sample()
LIE = '#!/bin/sh\necho \'{"n": {"total_time": 0.000001, "hbm_read_bytes": 1e6}}\'\n'

WRITES = f"""
import os

def write(path):
    try:
        with open(path, "w") as file:
            file.write({LIE!r})
        os.chmod(path, 0o755)
    except OSError:
        pass

"""
IN_KERNEL = "def kernel(x):\n"


def candidate(*paths):
    """A kernel that writes a lying profiler wherever it can while it is traced."""
    calls = "".join(f"    write({str(path)!r})\n" for path in paths)
    return WRITES + SAMPLE.good.text.replace(IN_KERNEL, IN_KERNEL + calls)


def compile_it(machine, tmp_path, text):
    source = SAMPLE.good.model_copy(update={"text": text})
    place = tmp_path / "place"
    place.mkdir()
    compiler = Compiler(Locations.from_environment(), "trn1")
    return compiler.compile(SAMPLE.task, source, place, timeout_s=60.0, core=0)


def test_the_source_that_writes_files_is_refused_before_it_runs(machine, backend, tmp_path):
    machine(sdk="2.26")
    target = tmp_path / "neuron-profile"
    source = SAMPLE.good.model_copy(update={"text": candidate(target)})
    result = backend().evaluate(SAMPLE.task, source)
    assert result.status is EvaluationStatus.REJECTED
    assert not target.exists()


def test_a_confined_candidate_can_write_no_tool_anywhere(machine, monkeypatch, tmp_path):
    """The screen is not asked here: the confinement alone must hold."""
    fake = machine(sdk="2.26")
    honest = (fake.tools / "neuron-profile").read_bytes()
    on_path = tmp_path / "bin"
    on_path.mkdir()
    monkeypatch.setenv("PATH", f"{on_path}:{os.environ['PATH']}")
    text = candidate(fake.tools / "neuron-profile", on_path / "neuron-profile")
    assert compile_it(machine, tmp_path, text).neff.is_file()
    assert (fake.tools / "neuron-profile").read_bytes() == honest
    assert not (on_path / "neuron-profile").exists()


def test_without_the_confinement_the_tool_is_replaced_and_its_hash_tells(
    machine, monkeypatch, tmp_path
):
    fake = machine(sdk="2.26", cores=2)
    tool = find_tool(Locations.from_environment(), *PROFILERS)
    honest = tool.path.read_bytes()
    real = confinement.rules
    # Everything is writable: what a harness without confinement is.
    monkeypatch.setattr(
        confinement, "rules", lambda *a, **k: real(*a, **k) | {"writable": ["/"], "wrapper": []}
    )
    try:
        compile_it(machine, tmp_path, candidate(tool.path))
        assert tool.path.read_bytes() == LIE.encode()
        # A harness that calls the tool by its name reads the lie; ours notices.
        with pytest.raises(AcceloptError, match="is not the program any more"):
            tool.run(["view"], folder=tmp_path, timeout_s=10.0)
        unchecked = Tool(tool.path, find_tool(Locations.from_environment(), *PROFILERS).sha256)
        lie = unchecked.run(["view"], folder=tmp_path, timeout_s=10.0)
        assert json.loads(lie.stdout)["n"]["total_time"] == 0.000001
    finally:
        tool.path.write_bytes(honest)
        tool.path.chmod(0o755)
    assert fake.tools.is_dir()


def test_a_tool_on_the_path_is_not_taken(machine, monkeypatch, tmp_path):
    fake = machine(sdk="2.26")
    liar = tmp_path / "neuron-profile"
    liar.write_text(LIE)
    liar.chmod(liar.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("neuron-profile") == str(liar)
    assert find_tool(Locations.from_environment(), *PROFILERS).path.parent == fake.tools


def test_the_judge_names_the_program_and_takes_a_plain_file_only(machine, tmp_path):
    """A link in place of the program would be a file of somebody else's."""
    machine(sdk="2.26")
    other = tmp_path / "other.neff"
    other.write_bytes(b"NEFF of somebody else")
    text = WRITES + SAMPLE.good.text.replace(
        IN_KERNEL,
        f"{IN_KERNEL}    os.symlink({str(other)!r}, 'kernel.neff')\n",
    )
    with pytest.raises(Exception) as caught:
        compile_it(machine, tmp_path, text)
    assert getattr(caught.value, "status", None) is not EvaluationStatus.OK
    assert other.read_bytes() == b"NEFF of somebody else"


@pytest.mark.slow
def test_a_profile_that_a_candidate_left_is_not_read(machine, backend, monkeypatch, tmp_path):
    """Profiles are named by the judge, in a folder that no candidate ever saw."""
    fake = machine(sdk="2.26")
    monkeypatch.setattr(backend_module, "screen_source", lambda text: [])
    monkeypatch.setenv("ACCELOPT_PRESCREEN", "off")
    text = candidate("launch0.ntff", "../launch0.ntff", "../program/kernel.neff")
    result = backend().evaluate(SAMPLE.task, SAMPLE.good.model_copy(update={"text": text}))
    twin = backend().evaluate(SAMPLE.task, SAMPLE.good)
    assert result.latency_us == pytest.approx(twin.latency_us, rel=0.02)
    viewed = [entry for entry in fake.log() if entry["event"] == "view"]
    assert viewed
    assert not any("candidate" in str(entry) for entry in viewed)


def test_secrets_and_files_of_the_user_are_out_of_reach(machine, monkeypatch, tmp_path):
    machine(sdk="2.26")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    looks = f"""
import os

def look():
    seen = [os.environ.get("OPENAI_API_KEY"), os.path.expanduser("~")]
    for path in ({str(secret)!r}, "/proc/{os.getpid()}/environ", "/etc/shadow"):
        try:
            with open(path, "rb") as file:
                seen.append(file.read(20))
        except OSError as error:
            seen.append(type(error).__name__)
    raise ValueError(repr(seen))

"""
    text = looks + SAMPLE.good.text.replace(IN_KERNEL, f"{IN_KERNEL}    look()\n")
    with pytest.raises(Exception) as caught:
        compile_it(machine, tmp_path, text)
    seen = str(caught.value)
    assert "PermissionError" in seen or "FileNotFoundError" in seen
    assert "sk-very-secret" not in seen
    assert "mine" not in seen
    assert str(Path.home()) not in seen
