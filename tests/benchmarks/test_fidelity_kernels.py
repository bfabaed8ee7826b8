"""Kernels that published latencies are compared with: results, traffic, and their index.

The counts are of the source as written at the published shape: nothing merged, hoisted or spilled.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from accelopt.kernel import relative_l2_error
from accelopt.plugins import installed
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.hardware import TRN1, TRN2
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind, Space

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks/fidelity_kernels"
KERNELS = json.loads((FOLDER / "index.json").read_text())["kernels"]
PUBLISHED = {
    entry["id"]: entry
    for entry in json.loads((ROOT / "nkibench/data/published_measurements.json").read_text())[
        "entries"
    ]
}
DEVICES = {"trn1": TRN1, "trn2": TRN2}
OF_TASKS = sorted({(entry["file"], entry["task"]) for entry in KERNELS if entry["task"]})
WITHOUT_TASK = sorted({entry["file"] for entry in KERNELS if not entry["task"]})
# Second variants of the tasks that the kernels can be run on.
VARIANTS = {
    "nkibench/adamw": "narrow",
    "nkibench/add_rmsnorm_matmul": "tall",
    "nkibench/bmm": "tall",
    "nkibench/gqa_full": "heads",
    "nkibench/rmsnorm_matmul": "deep",
    "nkibench/silu": "wide",
    "nkibench/transpose_matmul": "ragged",
}


def traced(file, arguments, device=TRN1, bits=16):
    """The trace of a kernel that must trace and pass the constraints."""
    text = (FOLDER / file).read_text()
    result = trace_kernel(TraceRequest(text=text, entry="kernel", arguments=tuple(arguments)))
    assert result.status == "ok", result.diagnostics
    assert check_constraints(result.trace, device, min_float_bits=bits) == []
    return result.trace


def run(file, *arrays):
    """The kernel's output."""
    trace = traced(file, [(array.shape, array.dtype.name) for array in arrays])
    with threadpool_limits(limits=1):
        execution = Executor(trace).run(list(arrays))
    assert not execution.hazards
    (output,) = execution.outputs
    return np.asarray(output)


def check_on_task(file, name, seed=42):
    task = installed().task(name)
    trace = traced(file, task_arguments(task), bits=32)
    inputs = task.reference.inputs(seed)
    expected = task.reference.forward(inputs)
    with threadpool_limits(limits=1):
        outputs = Executor(trace).run(task.reference.kernel_inputs(inputs)).outputs
    output = np.asarray(task.reference.natural_output(outputs, expected))
    # A tenth of the tolerance, as for the baselines.
    assert relative_l2_error(output, expected) < 0.1 * task.relative_l2_tolerance


def task_arguments(task):
    return [(a.shape, a.dtype) if a.value is None else a.value for a in task.arguments]


@cache
def task_at(name):
    return installed().task(name)


def arguments_of(entry):
    if entry["task"]:
        return task_arguments(task_at(entry["task"]))
    return [(tuple(a["shape"]), a["dtype"]) for a in entry["arguments"]]


def name_of(entry):
    return f"{entry['file'].removesuffix('.py')}-{entry['measurement']}"


def random(*shape, scale=1.0, seed=0):
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


# --- Results ---


def scan(delta, u, A, B, C):
    state = np.zeros((*delta.shape[:2], A.shape[1]))
    out = np.empty(delta.shape)
    for t in range(delta.shape[2]):
        state *= np.exp(delta[:, :, t, None].astype(np.float64) * A)
        state += delta[:, :, t, None] * u[:, :, t, None] * B[:, None, :, t]
        out[:, :, t] = (state * C[:, None, :, t]).sum(axis=-1)
    return out


@pytest.mark.parametrize("version", ["mamba_v1.py", "mamba_v2.py", "mamba_v3.py"])
def test_a_mamba_kernel_scans_every_batch_channel_and_piece(version):
    batches, channels, states, steps = 2, 256, 3, 1024
    inputs = [
        np.abs(random(batches, channels, steps, scale=0.3, seed=1)),
        random(batches, channels, steps, seed=2),
        -np.abs(random(channels, states, scale=0.5, seed=3)),
        random(batches, states, steps, seed=4),
        random(batches, states, steps, seed=5),
    ]
    assert relative_l2_error(run(version, *inputs), scan(*inputs)) < 1e-5


@pytest.mark.parametrize("version", ["layernorm_v1.py", "layernorm_v2.py"])
@pytest.mark.parametrize("width", [1024, 256])
def test_a_layernorm_kernel_normalises_scales_and_shifts_rows(version, width):
    x, gamma, beta = 3 * random(256, width, seed=1) + 1, random(width, seed=2), random(width)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * gamma + beta
    assert relative_l2_error(run(version, x, gamma, beta), expected) < 1e-5


MATMULS = [file for file in WITHOUT_TASK if file.startswith("matmul_")]


@pytest.mark.parametrize("version", MATMULS)
@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-5), (ml_dtypes.bfloat16, 1e-2)])
def test_a_matmul_kernel_multiplies(version, dtype, limit):
    # Two blocks along the contraction and the columns for the kernel that blocks both.
    lhsT, rhs = random(2048, 256, seed=1).astype(dtype), random(2048, 2048, seed=2).astype(dtype)
    expected = lhsT.astype(np.float32).T @ rhs.astype(np.float32)
    output = run(version, lhsT, rhs)
    assert output.dtype == dtype
    assert relative_l2_error(output.astype(np.float32), expected) < limit


@pytest.mark.slow
def test_the_fully_blocked_matmul_multiplies_several_row_blocks():
    lhsT, rhs = random(2048, 4096, seed=1), random(2048, 2048, seed=2)
    assert relative_l2_error(run("matmul_fully_optimized.py", lhsT, rhs), lhsT.T @ rhs) < 1e-5


@pytest.mark.parametrize(("file", "task"), OF_TASKS)
def test_a_kernel_of_a_task_computes_its_reference(file, task):
    check_on_task(file, f"{task}@small")


@pytest.mark.slow
@pytest.mark.parametrize(("file", "task"), [pair for pair in OF_TASKS if pair[1] in VARIANTS])
def test_a_kernel_of_a_task_computes_its_reference_at_a_second_shape(file, task):
    check_on_task(file, f"{task}@{VARIANTS[task]}")


@pytest.mark.slow
@pytest.mark.parametrize(("file", "task"), OF_TASKS)
def test_a_kernel_of_a_task_computes_its_reference_at_the_published_shape(file, task):
    check_on_task(file, task)


# --- Traffic ---


def traffic(trace):
    """Bytes and FLOPs as the profiler counts them: an fp32 matmul twice, transposes apart."""
    analysis = Analysis(trace)
    total = Counter(
        {"hbm_read_bytes": 0, "hbm_write_bytes": 0, "hardware_flops": 0, "transpose_flops": 0}
    )
    for ins in range(trace.num_instructions):
        access = {
            role: ref for role, kind, ref in trace.operands(ins) if kind is OperandKind.ACCESS
        }
        grid = trace.access_shape(access["dst"])
        loops = analysis.iterations(analysis.loops_of(ins))
        runs = len(next(iter(loops.values()))) if loops else 1
        predicate = int(trace.ins_pred[ins])
        lows, highs, alive, exact = analysis.axis_window(predicate, grid, loops)
        assert exact
        elements = np.broadcast_to(alive, runs).astype(np.int64)
        for low, high in zip(lows, highs, strict=True):
            elements = elements * np.maximum(0, np.asarray(high) - low)
        times = int((elements > 0).sum())
        op = trace.ops[trace.ins_op[ins]]
        if op == "dma_copy":
            stores = trace.tensor_space[trace.access_tensor[access["dst"]]] == Space.HBM
            key = "hbm_write_bytes" if stores else "hbm_read_bytes"
            total[key] += itemsize(trace, access["src"]) * int(elements.sum())
        elif op == "partition_broadcast":
            total["hardware_flops"] += 2 * 128 * times * int(np.prod(grid[1:]))
        elif op == "nc_matmul":
            stationary, moving = (trace.access_shape(access[r]) for r in ("stationary", "moving"))
            passes = 2 if itemsize(trace, access["stationary"]) == 4 else 1
            flops = 2 * passes * times * int(np.prod(stationary)) * int(np.prod(moving[1:]))
            total["hardware_flops"] += flops
            if trace.attr(ins).get("is_transpose"):
                total["transpose_flops"] += flops
        else:
            assert op != "nc_transpose"  # the kernels spell their transposes out
    return total


def itemsize(trace, access):
    return DTYPES[int(trace.tensor_dtype[trace.access_tensor[access]])].itemsize


def slow_between(entry):
    """Of a scaling table only the two ends are quick to trace and count."""
    between = "-table-" in (entry["measurement"] or "") and not entry["measurement"].endswith(
        ("x512", "x8192")
    )
    marks = [pytest.mark.slow] if between else []
    return pytest.param(entry, marks=marks, id=name_of(entry))


@pytest.mark.parametrize("entry", [slow_between(entry) for entry in KERNELS])
def test_a_kernel_moves_at_the_published_shape_what_the_index_says(entry):
    arguments = arguments_of(entry)
    bits = 16 if any(a[1] == "bfloat16" for a in arguments if isinstance(a, tuple)) else 32
    trace = traced(entry["file"], arguments, DEVICES[entry["device"]], bits)
    assert traffic(trace) == entry["counted"]


# Counted over published traffic, spills apart, where the two are not equal.
OFF = {
    ("matmul_tiled.py", "aws-kernel-optimization-v2-tiled"): 1.0,
    ("matmul_hoist_load.py", "aws-kernel-optimization-v3-hoisted-loads"): 1.0,
    ("matmul_block_free.py", "aws-kernel-optimization-v4-blocked-free"): 0.527,
    ("matmul_fully_optimized.py", "aws-kernel-optimization-v5-blocked-contraction"): 0.813,
    ("gqa_full_best.py", "accelopt-gqa_full-best"): 0.203,
    ("rope_optimized.py", "accelopt-rope_single_freq_apply-best"): 1.667,
    ("mamba_optimized.py", "accelopt-mamba-best"): 0.180,
}


@pytest.mark.parametrize(
    "entry", [entry for entry in KERNELS if entry["published_bytes_match"]], ids=name_of
)
def test_counts_are_as_near_to_the_published_ones_as_stated(entry):
    counted, published = entry["counted"], entry["published_bytes_match"]["published"]
    spilled = published.get("spill_reload_bytes", 0) + published.get("spill_save_bytes", 0)
    read, written = published.get("hbm_read_bytes", 0), published.get("hbm_write_bytes", 0)
    chip = published.get("hbm_bytes", read + written - spilled)
    ratio = (counted["hbm_read_bytes"] + counted["hbm_write_bytes"]) / chip
    expected = OFF.get((entry["file"], entry["measurement"]))
    assert ratio == (1.0 if expected is None else pytest.approx(expected, abs=5e-4))
    if expected is not None and abs(expected - 1) > 0.05:
        assert entry["note"]
    for key in ("hardware_flops", "transpose_flops"):
        if key in published:
            assert counted[key] == published[key]


# --- The index ---


def test_every_kernel_is_in_the_index_and_every_file_exists():
    assert {entry["file"] for entry in KERNELS} == {path.name for path in FOLDER.glob("*.py")}


def test_every_published_row_has_an_entry():
    listed = {entry["measurement"] for entry in KERNELS}
    families = ("aws-mamba-v", "aws-mamba-table-", "aws-matmul-tutorial-", "aws-layernorm-")
    families += ("aws-kernel-optimization-",)
    rows = {name for name in PUBLISHED if name.startswith(families)}
    for name, row in PUBLISHED.items():
        if name.endswith("-best") and name.startswith("accelopt-"):
            base = PUBLISHED[f"{name.removesuffix('-best')}-baseline"]
            # Within a percent: the same kernel, measured again.
            if row["latency_us"] < 0.99 * base["latency_us"]:
                rows.add(name)
    assert rows <= listed


def test_a_row_is_scored_at_most_once_and_a_reason_stands_by_the_others():
    scored = Counter(entry["measurement"] for entry in KERNELS if entry["scored"])
    assert None not in scored
    assert max(scored.values()) == 1
    assert all(entry["note"] for entry in KERNELS if not entry["scored"])


@pytest.mark.parametrize("entry", KERNELS, ids=name_of)
def test_an_entry_agrees_with_its_published_row(entry):
    assert entry["basis"] in ("described", "reconstructed", "guess")
    assert (entry["task"] is None) != (entry["arguments"] is None)
    if entry["basis"] == "guess":
        assert not entry["scored"]
    row = PUBLISHED.get(entry["measurement"])
    if row is None:
        assert entry["measurement"] is None
        return
    assert row["hardware"].startswith(entry["device"])
    assert row["latency_us"] > 0
    if entry["pair"]:
        assert PUBLISHED[entry["pair"]]["latency_us"] > 0
        assert entry["pair"] != entry["measurement"]
    if entry["task"]:
        assert entry["measurement"].startswith(
            f"accelopt-{entry['task'].removeprefix('nkibench/')}-"
        )
    elif not entry["family"].startswith("aws-layernorm"):
        shapes = {
            name: shape for names, shape in row["shapes"].items() for name in names.split(",")
        }
        assert {a["name"]: a["shape"] for a in entry["arguments"]}.items() <= shapes.items()
        assert {a["dtype"] for a in entry["arguments"]} == {row["dtype"]}
