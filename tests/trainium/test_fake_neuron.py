"""The stand-in of the Neuron SDK behaves as the SDK is documented to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from accelopt.testing.samples import nki_sample

FIXTURE = Path(__file__).parents[1] / "fixtures" / "fake_neuron"
sys.path.insert(0, str(FIXTURE))

from fake_neuron import VERSIONS, FakeNeuron, FakeNeuronUnavailable  # noqa: E402

CLIENT = [sys.executable, "-IS", FIXTURE / "client.py"]

pytestmark = pytest.mark.slow

COMPILE_LEGACY = """
import importlib.util, json, sys, traceback
import numpy as np
import neuronxcc.nki as nki

for path in sys.argv[1:]:
    neff = path.removesuffix(".py") + ".neff"
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        nki.baremetal(module.kernel, save_neff_name=neff)(np.zeros((256, 512), np.float32))
        print(json.dumps({"kind": "", "message": "", "lines": []}))
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        print(json.dumps({"kind": type(error).__name__, "message": str(error), "lines": lines}))
"""

COMPILE_CURRENT = {
    "2.29": """
import sys
import numpy as np
from kernel import kernel
from nki.framework.compiled import CompileKernel
compiled = CompileKernel(func=kernel.func, artifacts_dir="artifacts", _enable_simulation=True)
result = compiled(np.ones((256, 512), np.float32))
assert (result == 3).all(), result
""",
    "2.32": """
import numpy as np
from kernel import kernel
from nki.compiler.ncc_driver import CompileOptions, compile_bir_to_neff
from nki.framework.compiled import compile_kernel_to_nir
options = CompileOptions(
    target="trn2", lnc=1, artifacts_dir="artifacts", output_path="artifacts/kernel.neff"
).disable_backend_optimizations()
inputs = {"x": np.ones((256, 512), np.float32)}
nir = compile_kernel_to_nir(kernel[1], inputs=inputs, compile_opts=options, enable_cache=False)
compile_bir_to_neff(
    options, nir, input_arrays=[],
    argument_names=[spec.name for spec in nir.descriptor.input_specs],
    output_arg_names=[spec.name for spec in nir.descriptor.output_specs],
)
""",
}

CURRENT_KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for block in nl.affine_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[block * 128 : (block + 1) * 128, :])
        nisa.tensor_scalar(
            dst=tile, data=tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0
        )
        nisa.dma_copy(dst=out[block * 128 : (block + 1) * 128], src=tile)
    return out
"""


def build(root, **options):
    try:
        return FakeNeuron.build(root, **options)
    except FakeNeuronUnavailable as error:
        pytest.skip(str(error))


def run(command, *, cwd=None, **environment):
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def compile_legacy(fake, text, name):
    """Where the program should lie, and what the compiler said."""
    ((neff, said),) = compile_all(fake, {name: text})
    return neff, said


def compile_all(fake, texts):
    folder = fake.root / "work"
    folder.mkdir(exist_ok=True)
    paths = []
    for name, text in texts.items():
        paths.append(folder / f"{name}.py")
        paths[-1].write_text(text)
    done = run([fake.python, "-c", COMPILE_LEGACY, *paths])
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return [(path.with_suffix(".neff"), one) for path, one in zip(paths, said, strict=True)]


def execute(fake, neff, profile="", *, core=0, runs=1):
    """What the client says, and the output."""
    folder = fake.root / "work"
    x = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    (folder / "in").write_bytes(x.tobytes())
    command = [*CLIENT, fake.library, neff, folder / "in"]
    command += [folder / "out", *([profile] if profile else []), "--runs", runs]
    done = run(command, NEURON_RT_VISIBLE_CORES=str(core))
    said = json.loads(done.stdout)
    if said["status"]:
        return said | {"stderr": done.stderr}, x, None
    output = np.fromfile(folder / "out", np.float32).reshape(256, 512)
    return said, x, output


def view(fake, neff, ntff):
    options = ["-s", ntff, "--output-format", "summary-json", "-n", neff]
    return run([fake.tools / "neuron-profile", "view", *options])


def times(fake, neff, pattern, count):
    found = []
    for number in range(count):
        shown = view(fake, neff, str(pattern).replace("#", str(number)))
        assert shown.returncode == 0, shown.stderr
        (summary,) = json.loads(shown.stdout).values()
        found.append(summary["total_time"])
    return found


def devices(fake, *options):
    done = run([fake.tools / "neuron-ls", *options])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    return build(tmp_path_factory.mktemp("trn1") / "machine")


@pytest.fixture(scope="module")
def neff(fake):
    path, said = compile_legacy(fake, nki_sample().good.text, "good")
    assert said["kind"] == "RuntimeError"
    assert "nrt_init failed" in said["message"]
    return path


@pytest.fixture(autouse=True)
def behave(request):
    yield
    if "fake" in request.fixturenames:
        request.getfixturevalue("fake").misbehave()


def test_it_has_the_files_of_an_installation(fake):
    assert set(fake.environment) == {"ACCELOPT_NEURON_ROOT", "ACCELOPT_NEURON_PYTHON"}
    assert fake.library.resolve().name == "libnrt.so.2.28.23.0"
    assert (fake.root / "sys/module/neuron/version").read_text().strip() == "2.24.7.0"
    product = fake.root / "sys/devices/virtual/dmi/id/product_name"
    assert product.read_text().strip() == "trn1.32xlarge"
    status = (fake.root / "var/lib/dpkg/status").read_text()
    assert "Package: aws-neuronx-tools\n" in status
    assert "Version: 2.26.14.0\n" in status
    assert "2.26.14.0" in run([fake.tools / "neuron-profile", "--version"]).stdout


@pytest.mark.parametrize("sdk", sorted(VERSIONS))
def test_python_packages_have_the_versions_of_their_sdk(sdk, tmp_path):
    fake = build(tmp_path, sdk=sdk, versions={"tools": None})
    ask = """
import importlib.metadata as m
for name in ("neuronx-cc", "nki"):
    try:
        print(m.version(name))
    except m.PackageNotFoundError:
        print("none")
try:
    import neuronxcc.nki
    print("legacy")
except ModuleNotFoundError:
    print("no legacy")
"""
    said = run([fake.python, "-c", ask]).stdout.split("\n")
    versions = VERSIONS[sdk]
    assert said[:2] == [versions["neuronx-cc"], versions.get("nki", "none")]
    assert said[2] == ("no legacy" if sdk == "2.32" else "legacy")
    assert "neuronx-tools" not in (fake.root / "var/lib/dpkg/status").read_text()


@pytest.mark.slow
def test_the_sdk_environment_can_be_without_our_packages(tmp_path):
    fake = build(tmp_path, own_packages=False)
    assert run([fake.python, "-I", "-c", "import accelopt"]).returncode == 1
    _, said = compile_legacy(fake, nki_sample().good.text, "good")
    assert "nrt_init failed" in said["message"]


def test_devices_are_listed(fake, tmp_path):
    (device,) = devices(fake, "--json-output")
    assert device["neuroncore_ids"] == [0, 1]
    assert device["memory_size"] == 34359738368
    assert device["neuron_processes"] == []
    assert "logical_neuroncore_config" not in device
    larger = build(tmp_path, generation="trn2", cores=16, sdk="2.29")
    first, second = devices(larger, "-j", "--show-all-procs")
    assert second["neuroncore_ids"] == list(range(8, 16))
    assert first["instance_type"] == "trn2.48xlarge"
    assert first["logical_neuroncore_config"] == 1


def test_a_legacy_kernel_computes_the_right_numbers(fake, neff):
    said, x, output = execute(fake, neff, runs=3)
    np.testing.assert_allclose(output, 2 * x + 1, rtol=1e-6)
    assert max(said["times"][1:]) < 0.1
    assert [(t["name"], t["usage"], t["dtype"]) for t in said["tensors"]] == [
        ("x", 0, 1),
        ("output0", 1, 1),
    ]
    events = [event for event in fake.log() if event["event"] == "execute"]
    assert events[-1]["core"] == 0
    assert events[-1]["start"] <= events[-1]["end"]
    assert events[-1]["profiled"] is False


def test_the_profiler_shows_the_counters(fake, neff, tmp_path):
    pattern = tmp_path / "profile#.ntff"
    execute(fake, neff, str(pattern), runs=5, core=1)
    shown = view(fake, neff, tmp_path / "profile1.ntff")
    ((name, summary),) = json.loads(shown.stdout).items()
    assert name.startswith("n_")
    assert len(name) == 42
    assert summary["hbm_read_bytes"] == summary["hbm_write_bytes"] == 524288
    assert 5e-6 < summary["total_time"] < 1e-3
    assert all(0 <= summary[k] <= 1 for k in summary if k.endswith("active_time_percent"))
    assert all(isinstance(value, float) for value in summary.values())
    first, *others = times(fake, neff, pattern, 5)
    assert first > 1.03 * max(others)
    assert 0 < max(others) / min(others) - 1 < 0.01
    assert fake.log()[-1]["event"] == "view"


def test_the_profiler_refuses_what_it_can_not_read(fake, neff, tmp_path):
    assert view(fake, neff, tmp_path / "none.ntff").returncode == 1
    (tmp_path / "bad.ntff").write_bytes(b"no profile")
    shown = view(fake, neff, tmp_path / "bad.ntff")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "level=fatal" in shown.stderr


@pytest.mark.slow
def test_a_later_execution_is_captured_under_its_documented_name(fake, neff, tmp_path):
    options = ["--neff-path", neff, "-s", "profile.ntff", "--num-exec=3", "--profile-nth-exec=3"]
    done = run([fake.tools / "neuron-profile", "capture", *options], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert view(fake, neff, tmp_path / "profile_exec_3.ntff").returncode == 0
    assert not (tmp_path / "profile.ntff").exists()


BAD_KERNELS = [
    ("    rows =", "    raise ValueError('no')\n    rows =", "ValueError", "no", 10),
    (
        "columns = nl.arange(x.shape[1])",
        "columns = 1 + nl.arange(x.shape[1])",
        "SyntaxError",
        "err_tensor_access_out_of_bound",
        13,
    ),
    (
        "        nl.store(out[block * 128 + rows, columns], value=result)\n",
        "",
        "RuntimeError",
        "err_tensor_output_not_written_to",
        None,
    ),
    ("rows = nl.arange(128)", "rows = nl.arange(256)", "SyntaxError", "err_num_part", 13),
    ("nisa.tensor_scalar(", "nisa.no_such_thing(", "AttributeError", "", 14),
]


def test_bad_kernels_raise_at_their_line(fake):
    good = nki_sample().good.text
    texts = {f"bad{n}": good.replace(bad[0], bad[1]) for n, bad in enumerate(BAD_KERNELS)}
    results = compile_all(fake, texts)
    for (neff, said), (*_, kind, message, line) in zip(results, BAD_KERNELS, strict=True):
        assert not neff.exists()
        assert said["kind"] == kind
        assert said["message"].startswith(message)
        assert said["lines"]
        assert line in (None, said["lines"][-1])


def test_a_core_is_held_as_long_as_its_process_lives(fake, neff, tmp_path):
    (tmp_path / "in").write_bytes(bytes(4 * 256 * 512))
    client = [*CLIENT, fake.library, neff, tmp_path / "in"]
    client += [tmp_path / "out", "--hold"]
    environment = {**os.environ, "NEURON_RT_VISIBLE_CORES": "0"}
    holder = subprocess.Popen(
        list(map(str, client)), env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        (process,) = devices(fake, "-j")[0]["neuron_processes"]
        assert process["pid"] == holder.pid
        assert "client.py" in process["command"]
        said, _, _ = execute(fake, neff)
        assert (said["call"], said["status"]) == ("nrt_init", 4)
        assert "cores busy" in said["stderr"]
        assert execute(fake, neff, core=1)[0]["status"] == 0
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert devices(fake, "-j")[0]["neuron_processes"] == []
        assert execute(fake, neff)[0]["status"] == 0
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_program_of_another_release_is_refused(neff, tmp_path):
    other = build(tmp_path / "other", sdk="2.27")
    (other.root / "work").mkdir()
    said, _, _ = execute(other, neff)
    assert (said["call"], said["status"]) == ("nrt_load", 10)


def test_calls_before_the_start_are_refused(fake):
    ask = f"""
import ctypes
nrt = ctypes.CDLL({str(fake.library)!r})
version = (ctypes.c_uint64 * 64)()
print(nrt.nrt_load(b"x", ctypes.c_size_t(1), -1, -1, ctypes.byref(ctypes.c_void_p())))
print(nrt.nrt_get_version(version, ctypes.c_size_t(ctypes.sizeof(version))), *version[:3])
print(nrt.nrt_init(1, b"", b""))
print(nrt.nrt_load(b"x", ctypes.c_size_t(1), -1, -1, ctypes.byref(ctypes.c_void_p())))
nrt.nrt_close()
print(nrt.nrt_allocate_tensor_set(ctypes.byref(ctypes.c_void_p())))
"""
    done = run([sys.executable, "-c", ask])
    assert done.stdout.split("\n")[:5] == ["13", "0 2 28 23", "0", "2", "14"]


@pytest.mark.parametrize(
    ("what", "call", "status"),
    [
        ({"execute_status": 1004}, "nrt_execute", 1004),
        ({"execute_status": 6}, "nrt_execute", 6),
        ({"load_status": 10}, "nrt_load", 10),
        ({"busy": [0]}, "nrt_init", 4),
        ({"no_devices": True}, "nrt_init", 1),
    ],
)
def test_it_can_fail(fake, neff, what, call, status):
    fake.misbehave(**what)
    said, _, _ = execute(fake, neff)
    assert (said["call"], said["status"]) == (call, status)


def test_it_can_be_busy_for_a_while(fake, neff):
    fake.misbehave(busy=[0], busy_times=2)
    assert devices(fake, "-j")[0]["neuron_processes"][0]["pid"] == 4242
    assert [execute(fake, neff)[0]["status"] for _ in range(3)] == [4, 4, 0]


def test_it_can_return_anything(fake, neff):
    fake.misbehave(zeros=True)
    assert not execute(fake, neff)[2].any()
    fake.misbehave(outputs="nan")
    assert np.isnan(execute(fake, neff)[2]).all()


def test_its_clock_can_be_noisy_or_stand(fake, neff, tmp_path):
    pattern = tmp_path / "#.ntff"
    fake.misbehave(noise=0.5, noise_times=5)
    execute(fake, neff, str(pattern), runs=8)
    found = times(fake, neff, pattern, 8)
    assert max(found[1:5]) / min(found[1:5]) > 1.02
    assert max(found[5:]) / min(found[5:]) < 1.01
    fake.misbehave(clock="constant")
    execute(fake, neff, str(pattern), runs=2)
    assert times(fake, neff, pattern, 2) == pytest.approx([1e-4, 1e-4])
    (tmp_path / "0.ntff").unlink()
    fake.misbehave(profile="no_file")
    assert execute(fake, neff, str(pattern))[0]["status"] == 0
    assert not (tmp_path / "0.ntff").exists()


def test_its_profiler_can_print_anything(fake, neff, tmp_path):
    ntff = tmp_path / "profile.ntff"
    execute(fake, neff, str(ntff))
    fake.misbehave(summary="garbage")
    assert view(fake, neff, ntff).stdout.startswith("panic")
    fake.misbehave(summary="empty")
    assert view(fake, neff, ntff).stdout == ""
    fake.misbehave(summary="exit")
    assert view(fake, neff, ntff).returncode == 3
    fake.misbehave(summary="missing:total_time,hbm_read_bytes")
    (summary,) = json.loads(view(fake, neff, ntff).stdout).values()
    assert "total_time" not in summary
    assert "hbm_write_bytes" in summary
    fake.misbehave(summary="null:total_time")
    (summary,) = json.loads(view(fake, neff, ntff).stdout).values()
    assert summary["total_time"] is None


def test_its_lister_can_print_anything(fake):
    fake.misbehave(neuron_ls="garbage")
    done = run([fake.tools / "neuron-ls", "-j"])
    assert done.returncode == 0
    assert not done.stdout.startswith("[")
    fake.misbehave(no_devices=True)
    assert run([fake.tools / "neuron-ls", "-j"]).returncode == 1


def test_its_compiler_can_crash(fake):
    text = nki_sample().good.text
    fake.misbehave(compile="crash")
    neff, said = compile_legacy(fake, text, "crash")
    assert said["kind"] == "RuntimeError"
    assert "[F134]" in said["message"]
    fake.misbehave(compile="no_neff")
    neff, said = compile_legacy(fake, text, "no_neff")
    assert not neff.exists()


@pytest.mark.parametrize("where", ["compile", "view", "neuron-ls"])
def test_it_can_hang(fake, neff, where):
    commands = {
        "view": [fake.tools / "neuron-profile", "view", "-n", neff, "-s", neff],
        "neuron-ls": [fake.tools / "neuron-ls", "-j"],
        "compile": [fake.python, "-c", COMPILE_LEGACY, neff.with_suffix(".py")],
    }
    fake.misbehave(hang=where)
    process = subprocess.Popen(list(map(str, commands[where])), stdout=subprocess.PIPE)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5 if where in ("view", "neuron-ls") else 1.2)
    finally:
        process.kill()
        process.communicate()


def test_unknown_misbehaviour_is_refused(fake):
    with pytest.raises(ValueError, match="unknown"):
        fake.misbehave(zeroes=True)


@pytest.mark.slow
def test_four_cores_work_at_the_same_time(neff, tmp_path):
    larger = build(tmp_path / "machine", cores=4)
    (tmp_path / "in").write_bytes(bytes(4 * 256 * 512))
    running = []
    for core in range(4):
        client = [*CLIENT, larger.library, neff]
        client += [tmp_path / "in", tmp_path / f"{core}", "--hold"]
        environment = {**os.environ, "NEURON_RT_VISIBLE_CORES": str(core)}
        process = subprocess.Popen(
            list(map(str, client)), env=environment, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
    try:
        assert [process.stdout.readline() for process in running] == ["held\n"] * 4
        listed = devices(larger, "-j")
        pids = [entry["pid"] for device in listed for entry in device["neuron_processes"]]
        assert sorted(pids) == sorted(process.pid for process in running)
        events = [event for event in larger.log() if event["event"] == "execute"]
        assert sorted(event["core"] for event in events) == [0, 1, 2, 3]
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(("sdk", "generation"), [("2.29", "trn1"), ("2.32", "trn2")])
def test_kernels_of_the_new_package_compile_and_run(sdk, generation, tmp_path):
    fake = build(tmp_path / "machine", sdk=sdk, generation=generation)
    work = fake.root / "work"
    work.mkdir()
    (work / "kernel.py").write_text(CURRENT_KERNEL)
    (work / "compile.py").write_text(COMPILE_CURRENT[sdk])
    done = run([fake.python, "compile.py"], cwd=work)
    assert done.returncode == 0, done.stderr
    neff = work / "artifacts" / "kernel.neff"
    said, x, output = execute(fake, neff, str(tmp_path / "#.ntff"), runs=2)
    np.testing.assert_allclose(output, 2 * x + 1, rtol=1e-6)
    assert [tensor["dtype"] for tensor in said["tensors"]] == [10, 10]
    assert times(fake, neff, tmp_path / "#.ntff", 2)[1] > 2e-5
    again = run([fake.python, "compile.py"], cwd=work)
    assert "is not empty" in again.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(128, x.shape[1])", "(256, x.shape[1])", "err_num_partition_exceed_arch_limit"),
        ("x[block * 128 : (block + 1) * 128", "x[0:100", "err_store_dst_shape"),
        ("x[block * 128 : (block + 1) * 128", "x[200:328", "err_tensor_access_out_of_bound"),
        ("buffer=nl.shared_hbm", "buffer=nl.hbm", "shared_hbm"),
        ("nisa.tensor_scalar(", "nisa.nc_matmul(", "NotImplementedError"),
        ("    return out", "    return nl.exp(out)", "NotImplementedError"),
    ],
)
def test_bad_kernels_of_the_new_package_are_refused(new_package, old, new, message):
    text = CURRENT_KERNEL.replace(old, new)
    assert text != CURRENT_KERNEL
    (new_package / "kernel.py").write_text(text)
    done = subprocess.run(
        [str(new_package.parent / "venv/bin/python"), "-c", COMPILE_CURRENT["2.29"]],
        cwd=new_package,
        env={**os.environ, "PYTHONPATH": str(new_package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "kernel.py" in done.stderr or "shared_hbm" in message


@pytest.fixture(scope="module")
def new_package(tmp_path_factory):
    fake = build(tmp_path_factory.mktemp("nki") / "machine", sdk="2.29")
    folder = fake.root / "work"
    folder.mkdir()
    return folder


def test_a_helper_ends_with_its_runtime(fake, neff, tmp_path):
    fake.misbehave(hang="execute")
    (tmp_path / "in").write_bytes(bytes(4 * 256 * 512))
    client = [*CLIENT, fake.library, neff]
    client += [tmp_path / "in", tmp_path / "out"]
    environment = {**os.environ, "NEURON_RT_VISIBLE_CORES": "0"}
    process = subprocess.Popen(list(map(str, client)), env=environment, stdout=subprocess.PIPE)
    helpers = []
    deadline = time.monotonic() + 10
    while not helpers and time.monotonic() < deadline:
        time.sleep(0.1)
        helpers = _children(process.pid)
    assert helpers
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 5
    while any(map(_lives, helpers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_lives, helpers))


def _children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _lives(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
