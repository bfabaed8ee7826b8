"""What is installed is found without importing it, and said in words a person can act on."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import accelopt_trainium
from accelopt.errors import AcceloptError, ConfigError
from accelopt.evaluation import EvaluationStatus
from accelopt.kernel import Dialect
from accelopt_trainium.compiler_messages import read_report
from accelopt_trainium.cores import allowed_cores
from accelopt_trainium.devices import find_machine
from accelopt_trainium.launch import Finished
from accelopt_trainium.locations import Locations
from accelopt_trainium.nrt import element_type
from accelopt_trainium.sdk import find_sdk
from accelopt_trainium.sdk_checks import installed_parts, sdk_checks
from accelopt_trainium.source_screen import screen_source
from accelopt_trainium.summary import parse_summary
from accelopt_trainium.versions import Part, mismatches


def parts(**versions):
    return [Part(name.replace("_", "-"), version) for name, version in versions.items()]


@pytest.mark.parametrize(
    ("sdk", "dialects"),
    [
        ("2.26", {Dialect.NEURONXCC_NKI}),
        ("2.27", {Dialect.NEURONXCC_NKI}),
        ("2.29", {Dialect.NKI}),
        ("2.32", {Dialect.NKI}),
    ],
)
def test_the_dialect_is_the_sdks(machine, backend, sdk, dialects):
    machine(sdk=sdk)
    judge = backend()
    assert judge.sdk.dialects == dialects
    assert judge.unavailable() == ""
    assert {f"dialect:{dialect.value}" for dialect in dialects} <= judge.capabilities
    assert judge.sdk.mismatches == []


def test_nothing_of_the_vendors_is_imported():
    modules = [module.name for module in pkgutil.iter_modules(accelopt_trainium.__path__)]
    assert len(modules) > 15
    code = "".join(f"import accelopt_trainium.{name}\n" for name in modules)
    code += "import sys\nprint([m for m in sys.modules if m.split('.')[0] in ('nki','neuronxcc')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_parts_of_one_release_belong_together_and_of_two_do_not():
    of_226 = parts(
        neuronx_cc="2.21.33363.0", runtime="2.28.23.0", driver="2.24.7.0", tools="2.26.14"
    )
    assert mismatches(of_226) == []
    of_229 = parts(nki="0.3.0", neuronx_cc="2.24.5133.0", runtime="2.31.24.0", tools="2.29.18.0")
    assert mismatches(of_229) == []
    (words,) = mismatches([*of_226[:3], Part("tools", "2.29.18.0")])
    assert "tools 2.29.18.0 (SDK 2.29)" in words
    # A driver may be a little older, not much.
    assert mismatches([*of_229, Part("driver", "2.24.7.0")]) == []
    assert "far from" in mismatches([*of_229, Part("driver", "2.10.0.0")])[0]


def test_a_version_mismatch_makes_the_backend_unavailable_and_doctor_says_so(machine, backend):
    machine(sdk="2.26", versions={"tools": "2.31.0.0"})
    judge = backend()
    assert "parts of different SDK releases" in judge.unavailable()
    pairing = {check.name: check for check in sdk_checks(judge)}["version pairing"]
    assert (pairing.state, bool(pairing.fix)) == ("fail", True)
    assert all(check.state != "fail" for check in installed_parts())


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"no_devices": True}, "finds no device"),
        ({"neuron_ls": "garbage"}, "is not what it should be"),
    ],
)
def test_neuron_ls_that_misbehaves_is_one_line(machine, backend, what, words):
    fake = machine(sdk="2.26")
    fake.misbehave(**what)
    judge = backend()
    assert words in judge.unavailable()
    devices = {check.name: check for check in sdk_checks(judge)}["devices"]
    assert (devices.state, bool(devices.fix)) == ("fail", True)


def test_neuron_ls_that_hangs_is_given_up(machine):
    fake = machine(sdk="2.26")
    fake.misbehave(hang="neuron-ls")
    with pytest.raises(AcceloptError, match="did not answer within 1 s"):
        find_machine(Locations.from_environment(), timeout_s=1.0)


def test_cores_and_devices_are_counted(machine):
    machine(generation="trn2", sdk="2.27", cores=16)
    found = find_machine(Locations.from_environment())
    assert (found.generation, len(found.devices), found.cores) == ("trn2", 2, tuple(range(16)))
    assert found.instance_type == "trn2.48xlarge"


def test_every_part_that_is_missing_names_its_fix(machine, backend):
    fake = machine(sdk="2.26", versions={"dkms": None})
    for tool in fake.tools.iterdir():
        tool.chmod(0o644)
    fake.library.unlink()
    failed = [check for check in sdk_checks(backend()) if check.state == "fail"]
    assert {check.name for check in failed} >= {"runtime", "driver", "tools", "devices"}
    assert all(check.fix for check in failed)


def test_the_cores_that_may_be_used_are_named_by_the_environment(monkeypatch):
    assert allowed_cores([0, 1, 2, 3]) == (0, 1, 2, 3)
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "1")
    assert allowed_cores([0, 1, 2, 3]) == (1,)
    monkeypatch.setenv("ACCELOPT_NEURON_CORES", "0-1,3")
    assert allowed_cores([0, 1, 2, 3]) == (0, 1, 3)
    for wrong in ("7", "one"):
        monkeypatch.setenv("ACCELOPT_NEURON_CORES", wrong)
        with pytest.raises(ConfigError, match="ACCELOPT_NEURON_CORES"):
            allowed_cores([0, 1, 2, 3])


def test_a_summary_is_read_through_the_tools_log_lines():
    text = 'time="x" level=info msg="{}"\n{"n_1": {"total_time": 0.0012, "hbm_read_bytes": 8}}\n'
    # The log line above holds braces of its own; only what is JSON counts.
    found = parse_summary(text.replace('msg="{}"', 'msg="done"'), "neuron-profile")
    assert (found.total_time_s, found.counters["hbm_read_bytes"]) == (0.0012, 8.0)
    assert "dma_active_time_percent" in found.missing
    for broken in ("", "panic", "{}", '{"n": {"total_time": null}}', '{"n": {"total_time": 0}}'):
        with pytest.raises(AcceloptError):
            parse_summary(broken, "neuron-profile")


def test_both_numberings_of_types_are_told_by_the_inputs():
    assert element_type(1, [(1, "float32")]).name == "float32"
    assert element_type(0xA, [(0xA, "float32")]).name == "float32"
    # 6 is int16 in one and bfloat16 in the other.
    assert element_type(6, [(1, "float32")]).name == "int16"
    assert element_type(6, [(0xA, "float32")]).name == "bfloat16"


FORBIDDEN = {
    "import os": "imports os",
    "from subprocess import run": "imports subprocess",
    "import neuronxcc.driver": "imports neuronxcc.driver",
    "import numpy.ctypeslib": "imports numpy.ctypeslib",
    "open('x')": "uses open",
    "x = ().__class__": "reads the attribute __class__",
    "getattr(x, 'a' + 'b')": "looks an attribute up",
    "getattr(x, '__class__')": "looks an attribute up",
    "np.load.__globals__": "reads the attribute __globals__",
    "nki.baremetal(f)": "reads the attribute baremetal",
    "'{0.__class__}'.format(x)": "a format string",
}


@pytest.mark.parametrize("text", sorted(FORBIDDEN))
def test_a_source_that_reaches_out_is_refused(text):
    (finding, *_) = screen_source(text)
    assert FORBIDDEN[text] in finding.message


def test_sources_of_both_dialects_pass_the_screen():
    from accelopt.plugins import installed
    from accelopt_trainium.known_kernels import fast_kernel

    texts = [fast_kernel(dialect).text for dialect in Dialect]
    texts += [
        installed().task(name).baseline.text
        for name in installed().task_names()
        if name.startswith("nkibench/")
    ]
    assert len(texts) > 14
    assert [screen_source(text) for text in texts] == [[]] * len(texts)


@pytest.mark.parametrize(
    ("error", "status", "rule"),
    [
        (("SyntaxError", "err_num_partition_mismatch: 128 and 1"), "constraint_violation",
         "err_num_partition_mismatch"),
        (("RuntimeError", "Compilation failed for k with error ...\n[NCC_ABC12] too large\n"),
         "constraint_violation", "NCC_ABC12"),
        (("NotImplementedError", "no such op"), "unsupported_op", "NotImplementedError"),
        (("MemoryError", ""), "out_of_memory", "MemoryError"),
        (("RuntimeError", "std::bad_alloc"), "out_of_memory", "RuntimeError"),
        (("ModuleNotFoundError", "No module named 'x'"), "load_error", "ModuleNotFoundError"),
    ],
)  # fmt: skip
def test_compiler_messages_become_findings(error, status, rule):
    import json

    kind, message = error
    where = 'File "/w/candidate/kernel.py", line 7, in kernel'
    report = read_report(
        json.dumps({"error": {"kind": kind, "message": message, "traceback": where}}).encode()
    )
    found = report.error(Finished(1, "", "", 0.1), "kernel.py")
    assert found.status is EvaluationStatus(status)
    assert (found.diagnostics[0].rule, found.diagnostics[0].line) == (rule, 7)


def test_a_report_that_lies_about_its_form_is_as_good_as_none():
    for content in (b"", b"[]", b"{", b'{"error": 3}', b'{"error": {"line": "x"}}', b"\xff"):
        found = read_report(content).error(Finished(3, "", "", 0.1), "kernel.py")
        assert found.status is not EvaluationStatus.OK


def test_the_sdks_interpreter_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELOPT_NEURON_PYTHON", str(tmp_path / "python"))
    sdk = find_sdk(Locations.from_environment())
    assert not sdk.dialects
    assert sdk.problem
