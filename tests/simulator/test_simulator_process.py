"""The real processes: hostile kernels end as evaluations within limits; the run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from simulator_kernels import whole_kernel

from accelopt import KernelSource
from accelopt.evaluation import EvaluationStatus as Status
from accelopt.evaluation import Stage
from accelopt.plugins import installed
from accelopt.process import frames
from accelopt_simulator.backend import SimulatorBackend
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.process.screening import screen_source
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
from accelopt_simulator.requests import request_for
from accelopt_simulator.trace.codec import decode


@pytest.fixture(scope="module")
def task():
    return installed().task("nkibench/silu@small")


@pytest.fixture(scope="module")
def backend():
    limits = WorkerLimits(wall_s=3.0, memory_bytes=1 << 30)
    backend = SimulatorBackend("sim-test", TRN1, TRN1_TIMING, limits=limits, judges=1)
    yield backend
    backend.close()


def evaluate(backend, task, text):
    return backend.evaluate(task, KernelSource(text=whole_kernel(text), entry="kernel"))


RIGHT = """
SETUP
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[1]):
        tile = nl.load(x[:, r])
        STATEMENT
        nl.store(out[:, r], nl.silu(tile))
    return out
"""


def right(statement="pass", setup=""):
    return RIGHT.replace("STATEMENT", statement).replace("SETUP", setup)


def test_a_right_kernel_is_ok(backend, task):
    found = evaluate(backend, task, right())
    assert found.status is Status.OK, found.diagnostics
    assert len(found.seeds) == 5


@pytest.mark.parametrize(
    ("text", "status", "rule"),
    [
        ("def kernel(x):\n    while True:\n        pass", Status.TIMEOUT, "wall_limit"),
        (
            "def kernel(x):\n    kept = []\n    while True: kept.append(np.zeros(1 << 24))",
            Status.OUT_OF_MEMORY,
            "memory_limit",
        ),
        (
            "def kernel(x):\n    for k in nl.static_range(10**9):\n        nl.load(x[:, 0])",
            Status.TIMEOUT,
            "wall_limit",
        ),
        (
            "def kernel(x):\n    print('correct')\n    return x",
            Status.CONSTRAINT_VIOLATION,
            "bad_result",
        ),
        ("def kernel(x):\n    raise SystemExit", Status.LOAD_ERROR, "SystemExit"),
        ("import os\ndef kernel(x):\n    os._exit(0)", Status.REJECTED, "source_screen"),
        ("def kernel(x):\n    eval('1')", Status.REJECTED, "source_screen"),
        ("def kernel(x):\n    nl.load.__class__", Status.REJECTED, "source_screen"),
        ("def kernel(x):\n    return nl.nothing", Status.LOAD_ERROR, "AttributeError"),
        ("def kernel(x", Status.LOAD_ERROR, "syntax_error"),
    ],
)
def test_a_bad_kernel_is_a_result(backend, task, text, status, rule):
    found = evaluate(backend, task, text)
    assert (found.status, found.diagnostics[0].rule) == (status, rule)


@pytest.mark.parametrize("text", ["'\\ud800' * 3", "'x' * 10**6"])
def test_an_odd_message_of_a_kernel_can_be_stored(backend, task, text):
    for statement in (
        f"raise ValueError({text})",
        f"nl.ndarray((1, 2), nl.float32, buffer={text})",
    ):
        found = evaluate(backend, task, right(statement))
        assert found.status in (Status.LOAD_ERROR, Status.CONSTRAINT_VIOLATION)
        assert len(found.model_dump_json().encode()) < 10_000


def test_a_giant_print_has_no_effect(backend, task):
    found = evaluate(backend, task, right("print('correct' * 10**6)"))
    assert found.status is Status.OK


def traces_made(monkeypatch):
    """How often a kernel was run, counted from now on."""
    made = []
    trace = WorkerPool.trace

    def counted(pool, request):
        made.append(request)
        return trace(pool, request)

    monkeypatch.setattr(WorkerPool, "trace", counted)
    return made


def test_the_tiers_of_an_evaluation_run_the_kernel_twice_in_all(backend, task, monkeypatch):
    kernel = KernelSource(text=whole_kernel(right("marker = 20")), entry="kernel")
    made = traces_made(monkeypatch)
    numbers = frozenset({Stage.CORRECTNESS})
    first = backend.estimate(task, kernel)
    seeds = task.seeds
    second = backend.evaluate(task, kernel, stages=numbers, seeds=seeds[:1])
    third = backend.evaluate(task, kernel, stages=numbers, seeds=seeds[1:])
    assert {found.trace_hash for found in (first, second, third)} == {first.trace_hash}
    assert second.ok
    assert third.ok
    assert len(made) == 2
    # A winner is run again to see whether it still gives this trace.
    backend.screen(task, kernel)
    assert len(made) == 3


def test_a_kernel_that_is_not_the_same_twice_is_rejected(backend, task):
    # Too little to change a float32 product, but another immediate in the trace each time.
    noise = "noise = np.random.default_rng().random() * 1e-12"
    found = evaluate(backend, task, right("tile = nl.multiply(tile, 1.0 + noise)", noise))
    assert found.status is Status.REJECTED
    assert found.diagnostics[0].rule == "trace_not_reproducible"


def exit_quietly(monkeypatch):
    """Let a source through that the screen would stop: the second line of defence is under test."""
    monkeypatch.setattr("accelopt_simulator.backend.screen_source", lambda text, entry: [])
    monkeypatch.setattr(
        "accelopt_simulator.backend.request_for",
        lambda task, source: replace(request_for(task, source), guarded=False),
    )


def test_a_worker_that_leaves_or_is_killed_is_a_load_error(backend, task, monkeypatch):
    exit_quietly(monkeypatch)
    for call in ("os._exit(0)", "os._exit(7)", "ctypes.string_at(0)", "os.closerange(3, 99)"):
        found = evaluate(backend, task, f"import ctypes, os\ndef kernel(x):\n    {call}")
        assert (found.status, found.diagnostics[0].rule) == (Status.LOAD_ERROR, "worker_exited")


def test_a_killed_server_fails_its_killer_and_the_next_evaluation_works(backend, task, monkeypatch):
    with monkeypatch.context() as patch:
        exit_quietly(patch)
        text = (
            "import os\ndef kernel(x):\n    os.kill(os.getppid(), 9)\n    while True:\n        pass"
        )
        assert evaluate(backend, task, text).status in (Status.LOAD_ERROR, Status.TIMEOUT)
    assert evaluate(backend, task, right()).status is Status.OK


def test_a_worker_can_neither_write_files_nor_leave_processes(backend, task, monkeypatch, tmp_path):
    exit_quietly(monkeypatch)
    target = tmp_path / "written"
    text = f"""
    import os
    def kernel(x):
        if os.fork() == 0:
            open({str(tmp_path / "pid")!r}, "w").close()
            while True:
                pass
        with open({str(target)!r}, "w") as f:
            f.write("x" * 10)
        return x
    """
    assert evaluate(backend, task, text).status is Status.LOAD_ERROR
    assert not target.exists() or target.read_text() == ""


def test_a_judge_that_dies_is_replaced(backend, task):
    assert evaluate(backend, task, right()).status is Status.OK
    for child in list(backend._pool._children):
        os.kill(child.process.pid, signal.SIGKILL)
        child.process.wait()
    assert evaluate(backend, task, right()).status is Status.OK


def folders():
    return set(Path(tempfile.gettempdir()).glob("accelopt-*"))


def children():
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(entry.parent.name))
    return found


def test_a_judgement_over_its_time_is_a_timeout_and_close_leaves_nothing(
    task, tmp_path, monkeypatch
):
    # A folder of this test's own: other test processes make and remove theirs meanwhile.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before_folders, before_children = folders(), children()
    backend = SimulatorBackend("sim-short", TRN1, TRN1_TIMING, judges=1, judge_wall_s=0.02)
    found = evaluate(backend, task, right())
    assert (found.status, found.diagnostics[0].rule) == (Status.TIMEOUT, "wall_limit")
    assert folders() > before_folders
    assert children() > before_children
    backend.close()
    assert folders() == before_folders
    assert children() == before_children


def test_a_closed_backend_starts_again(task):
    backend = SimulatorBackend("sim-again", TRN1, TRN1_TIMING, judges=1)
    backend.close()
    found = backend.screen(task, KernelSource(text=whole_kernel(right()), entry="kernel"))
    backend.close()
    assert found.status is Status.OK


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "import numpy.ctypeslib",
        "from numpy import ctypeslib",
        "import importlib as math",
        "from . import x",
        "exec('1')",
        "x = __builtins__",
        "getattr(x, '__class__')",
        "().__class__",
        "f.__globals__",
        "f.__code__",
        "np.load('x')",
        "x.tofile('y')",
        "f.f_back",
        "__nki_named__(x)",
        "open('x')",
        "setattr(x, 'y', 1)",
    ],
)
def test_the_screen_stops(text):
    assert [d.rule for d in screen_source(text)] == ["source_screen"]


@pytest.mark.parametrize(
    "text",
    [
        "import math\nimport numpy as np\nfrom functools import partial\nx = math.sqrt(2) * np.pi",
        "import neuronxcc.nki as nki\nfrom neuronxcc.nki.isa.constants import oob_mode",
        "class A:\n    def __init__(self):\n        self.x = 1",
        "nl.load(x)\nnl.store(x, y)\nnp.dtype(np.float32).type(1.0)",
        "if __name__ == '__main__':\n    pass",
        "def f(x):\n    'The input.'\n    return x.shape[0]",
    ],
)
def test_the_screen_lets_honest_sources_through(text):
    assert screen_source(text) == []


def test_every_baseline_passes_the_screen():
    registry = installed()
    for name in registry.task_names():
        assert screen_source(registry.task(name).baseline.text) == []


def test_frames_refuse_what_is_too_long_or_not_json():
    for data, message in (
        (b"\xff" * 16, "at most"),
        (b"\x03" + bytes(7) + bytes(8) + b"{{{", "not JSON"),
        (b"\x02" + bytes(7) + bytes(8) + b"[]", "not an object"),
    ):
        read_end, write_end = os.pipe()
        os.write(write_end, data)
        os.close(write_end)
        with pytest.raises(frames.FrameError, match=message):
            frames.receive(read_end, max_bytes=1000)
        os.close(read_end)


BFLOAT16 = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out, nl.exp(nl.load(x)))
    return out
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3", "float16"])
def test_arguments_of_types_that_numpy_does_not_know_are_traced_in_a_fresh_worker(dtype):
    pool = WorkerPool(WorkerLimits())
    text = whole_kernel(BFLOAT16)
    try:
        result = pool.trace(
            TraceRequest(text=text, entry="kernel", arguments=(((128, 64), dtype),))
        )
    finally:
        pool.close()
    assert result.status == "ok", result.diagnostics
    trace = decode(result.trace_bytes)
    assert DTYPES[trace.tensor_dtype[0]].name == dtype


@pytest.mark.parametrize(
    "answer", ["np.exp(x.astype(np.float32))", pytest.param("np.exp(x)", marks=pytest.mark.slow)]
)
def test_a_kernel_of_bfloat16_arguments_is_evaluated(tmp_path, answer):
    (tmp_path / "reference.py").write_text(
        "import ml_dtypes\nimport numpy as np\n\n"
        "def get_inputs(seed):\n"
        "    x = np.random.default_rng(seed).normal(size=(128, 64))\n"
        "    return [x.astype(ml_dtypes.bfloat16)]\n\n"
        f"def forward(x):\n    return {answer}\n\nTOLERANCE = 1e-2\n"
    )
    kernel = tmp_path / "kernel.py"
    kernel.write_text(whole_kernel(BFLOAT16))
    result = subprocess.run(
        [sys.executable, "-m", "accelopt", "evaluate", str(kernel), "--reference",
         str(tmp_path / "reference.py"), "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    data = json.loads(result.stdout)
    assert data["status"] == "ok", data
    assert data["latency_us"] > 0
    assert data["profile"]["hbm_read_bytes"] == 128 * 64 * 2
