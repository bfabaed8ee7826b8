"""Counts instructions and bytes of the full-size baselines on their traces; nothing is computed.

The expected figures are what the published loop nests ask for, nothing merged or hoisted. Names:
LD load, ST store, TR transpose by identity matmul, MM matmul (stationary, moving), CP copy, TS
tensor_scalar, TT tensor_tensor, ACT activation, RC reciprocal, RD reduction over the free axis, LR
reduction over loop iterations, MS fill. `partial` instructions are those that a mask cuts.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from accelopt.plugins import installed
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind, Space
from nkibench.suite import suite

NAMES = {
    "activation": "ACT",
    "memset": "MS",
    "nc_transpose": "TR",
    "partition_broadcast": "broadcast",
    "reciprocal": "RC",
    "tensor_copy": "CP",
    "tensor_reduce": "RD",
    "tensor_scalar": "TS",
    "tensor_tensor": "TT",
    "tensor_tensor_scan": "scan",
}


@cache
def count(name):
    """(instructions by name and tile, bytes loaded, bytes stored) of a baseline."""
    task = suite()[name]()
    arguments = [(a.shape, a.dtype) if a.value is None else a.value for a in task.arguments]
    request = TraceRequest(
        text=task.baseline.text, entry=task.baseline.entry, arguments=tuple(arguments)
    )
    result = trace_kernel(request)
    assert result.status == "ok", result.diagnostics
    trace, analysis = result.trace, Analysis(result.trace)
    counts = Counter()
    moved = {"LD": 0, "ST": 0}
    for ins in range(trace.num_instructions):
        operands = {
            role: ref for role, kind, ref in trace.operands(ins) if kind is OperandKind.ACCESS
        }
        # A reduction's mask is over what it reads.
        grid = trace.access_shape(operands.get("data", operands["dst"]))
        loops = analysis.iterations(analysis.loops_of(ins))
        runs = len(next(iter(loops.values()))) if loops else 1
        lows, highs, alive, exact = analysis.axis_window(int(trace.ins_pred[ins]), grid, loops)
        assert exact
        elements = np.broadcast_to(alive, runs).astype(np.int64)
        for low, high in zip(lows, highs, strict=True):
            elements = elements * np.maximum(0, np.asarray(high) - low)
        label = _name(trace, ins, operands, grid)
        whole = int(np.prod(grid))
        counts[label] += int((elements == whole).sum())
        counts[f"{label} partial"] += int(((elements > 0) & (elements < whole)).sum())
        if label[:2] in moved:
            moved[label[:2]] += 4 * int(elements.sum())
    return {k: v for k, v in counts.items() if v}, moved["LD"], moved["ST"]


def _name(trace, ins, operands, grid):
    op = trace.ops[trace.ins_op[ins]]
    attrs = trace.attr(ins)
    if op == "dma_copy":
        to_hbm = trace.tensor_space[trace.access_tensor[operands["dst"]]] == Space.HBM
        return f"{'ST' if to_hbm else 'LD'} {_tile(grid)}"
    if op == "nc_matmul":
        stationary, moving = (
            _tile(trace.access_shape(operands[r])) for r in ("stationary", "moving")
        )
        return f"TR {stationary}" if attrs.get("is_transpose") else f"MM {stationary} {moving}"
    if attrs.get("loop_reduce"):
        return f"LR {_tile(grid)}"
    return f"{NAMES[op]} {_tile(grid)}"


def _tile(shape):
    return "x".join(str(n) for n in shape)


# Instructions, bytes loaded, bytes stored.
EXPECTED = {
    "swiglu": (
        {
            "MS 128x1": 1,
            "LD 128x128": 1,
            "LD 128x1024": 3 * 24,
            "LD 128x8x128": 192,
            "LD 128x512": 192,
            "TR 128x128": 1536,
            "CP 128x128": 1536,
            "MM 128x128 128x512": 3 * 1536,
            "CP 128x512": 192 + 64,
            "ACT 128x512": 192,
            "TS 128x512": 192,
            "RC 128x512": 192,
            "TT 128x512": 384,
            "ST 128x512": 192,
            "ST 128x1024": 32,
        },
        188_809_216,
        67_108_864,
    ),
    # Here and in the next task nl.matmul adds a transpose and its copy, a broadcast over
    # partitions comes in chunks of 512 columns with a copy each, and a column operand makes an
    # nl.multiply a TS; so do `/` and adding eps.
    "matmul_add_rmsnorm": (
        {
            "LD 1x2048": 1,
            "LD 128x2048": 32 + 32,
            "LD 128x512": 2048,
            "TR 128x128": 2048,
            "CP 128x128": 2048,
            "MM 128x128 128x512": 2048,
            "CP 128x512": 128 + 128,
            "broadcast 128x512": 32 * 4,
            "ACT 128x2048": 32,
            "RD 128x2048": 32,
            "TS 128x1": 32 + 32,
            "ACT 128x1": 32,
            "TS 128x2048": 32,
            "TT 128x2048": 32 + 32,
            "ST 128x2048": 32,
        },
        603_987_968,
        33_554_432,
    ),
    "add_rmsnorm_matmul": (
        {
            "LD 1x1024": 1,
            "LD 128x1024": 32 + 32,
            "LD 128x512": 1024,
            "TR 128x128": 1024,
            "CP 128x128": 1024,
            "MM 128x128 128x512": 1024,
            "CP 128x512": 128 + 64,
            "broadcast 128x512": 32 * 2,
            "ACT 128x1024": 32,
            "RD 128x1024": 32,
            "TS 128x1": 32 + 32,
            "ACT 128x1": 32,
            "TS 128x1024": 32,
            "TT 128x1024": 32 + 32,
            "ST 128x512": 128,
        },
        301_993_984,
        33_554_432,
    ),
    "matmul": (
        {
            "LD 128x128": 1,
            "LD 128x1024": 480,
            "LD 128x8x128": 1920,
            "TR 128x128": 15_360,
            "CP 128x128": 15_360,
            "MM 128x128 128x512": 30_720,
            "CP 128x512": 768,
            "ST 128x1024": 384,
        },
        1_258_356_736,
        201_326_592,
    ),
    "gqa_full": (
        {
            "LD 128x128": 1,
            "LD 128x8x128": 64 + 32,
            "LD 128x1024": 32,
            "TR 128x128": 512 + 256 + 16_384,
            "CP 128x128": 17_152 + 512,
            "MM 128x128 128x512": 4096,
            "MM 128x128 128x128": 16_384,
            "TS 128x512": 4096 + 4096,
            "RD 128x512": 4096 + 4096,
            "LR 128x1": 4096 + 4096,
            "ACT 128x512": 4096,
            "TS 128x1": 512,
            "RC 128x1": 512,
            "ST 128x128": 512,
        },
        67_174_400,
        33_554_432,
    ),
    "rmsnorm_matmul": (
        {
            "MS 128x1": 1,
            "LD 128x128": 1,
            "LD 128x1024": 64 + 64,
            "ACT 128x512": 64,
            "TS 128x512": 64 + 64,
            "RD 128x512": 64,
            "LR 128x1": 64,
            "ACT 128x1": 32,
            "TR 128x128": 256,
            "CP 128x128": 256,
            "MM 128x128 128x512": 1024,
            "CP 128x512": 128,
            "ST 128x1024": 64,
        },
        67_174_400,
        33_554_432,
    ),
    "rope_single_freq_apply": (
        {
            "LD 128x512": 512,
            "LD 64x512": 512 + 512,
            "CP 64x512": 512,
            "TT 64x512": 2048 + 512 + 512,
            "ST 128x512": 512,
        },
        268_435_456,
        134_217_728,
    ),
    "bmm": (
        {
            "LD 128x128": 1,
            "LD 64x1024": 64,
            "LD 128x64": 2048,
            "TR 128x64": 2048,
            "CP 64x128": 2048,
            "MM 64x128 64x512": 4096,
            "CP 128x512": 4096,
            "ST 128x1024": 2048,
        },
        83_951_616,
        1_073_741_824,
    ),
    "bmm_softmax": (
        {
            "LD 128x128": 1,
            "LD 64x1024": 64,
            "LD 128x64": 2048,
            "TR 128x64": 2048,
            "CP 64x128": 2048,
            "MM 64x128 64x512": 4096,
            "CP 128x512": 4096,
            "RD 128x512": 4096 + 4096,
            "LR 128x1": 4096 + 4096,
            "ACT 128x512": 4096,
            "TS 128x512": 4096,
            "TS 128x1": 512,
            "RC 128x1": 512,
            "ST 128x1024": 2048,
        },
        83_951_616,
        1_073_741_824,
    ),
    "transpose_matmul": (
        {
            "LD 128x1024": 64 + 640,
            "LD 128x1024 partial": 64,
            "MM 128x128 128x512": 10_752,
            "MM 128x128 128x512 partial": 512,
            "CP 128x512": 672,
            "CP 128x512 partial": 32,
            "ST 128x1024": 320,
            "ST 128x1024 partial": 32,
        },
        392_167_424,
        179_306_496,
    ),
    "lora": (
        {
            "LD 128x128": 1 + 40,
            "LD 128x8x128": 160,
            "LD 128x1024": 24 + 480,
            "LD 128x5x128": 3072,
            "TR 128x128": 1280 + 15_360 + 3072,
            "CP 128x128": 19_712,
            "MM 128x128 128x512": 320 + 768 + 30_720,
            "CP 128x512": 8 + 768,
            "LR 128x512": 3072,
            "TT 128x512": 768,
            "MS 128x512": 12 * 2 * 4 * 2 * 4,
            "ST 128x128": 3072,
        },
        1_357_447_168,
        201_326_592,
    ),
    # The last of 86 row tiles has 64 rows.
    "adamw": (
        {
            "MS 128x1": 1,
            "LD 128x1024": 4 * 170,
            "LD 128x1024 partial": 4 * 2,
            "TS 128x512": 7 * 340,
            "TS 128x512 partial": 7 * 4,
            "TT 128x512": 6 * 340,
            "TT 128x512 partial": 6 * 4,
            "ACT 128x512": 340,
            "ACT 128x512 partial": 4,
            "RC 128x512": 340,
            "RC 128x512 partial": 4,
            "ST 128x1024": 170,
            "ST 128x1024 partial": 2,
        },
        358_612_992,
        89_653_248,
    ),
    "silu": (
        {
            "MS 128x1": 1,
            "LD 128x1024": 224,
            "ACT 128x512": 448,
            "TS 128x512": 448,
            "RC 128x512": 448,
            "TT 128x512": 448,
            "ST 128x1024": 224,
        },
        117_440_512,
        117_440_512,
    ),
    # Each of the 64 broadcasts comes in 14 chunks of 512 columns with a copy each.
    "mamba": (
        {
            "MS 128x7168": 2,
            "LD 128x7168": 32 + 32,
            "LD 128x1": 32,
            "LD 1x7168": 32 + 32,
            "ACT 128x7168": 32,
            "TT 128x7168": 96 + 32,
            "broadcast 128x512": 64 * 14,
            "CP 128x512": 64 * 14,
            "scan 128x7168": 32,
            "ST 128x7168": 2,
        },
        236_732_416,
        7_340_032,
    ),
}

# LD, ST, explicit and implicit TR, MM as the published summary has them.
SUMMARY = {
    "swiglu": (457, 224, 1536, 4608),
    "matmul_add_rmsnorm": (2113, 32, 2048, 2048),
    "add_rmsnorm_matmul": (1089, 128, 1024, 1024),
    "matmul": (2401, 384, 15_360, 30_720),
    "gqa_full": (129, 512, 17_152, 20_480),
    "rmsnorm_matmul": (129, 64, 256, 1024),
    "rope_single_freq_apply": (1536, 512, 0, 0),
    "bmm": (2113, 2048, 2048, 4096),
    "bmm_softmax": (2113, 2048, 2048, 4096),
    "transpose_matmul": (768, 352, 0, 11_264),
    "lora": (3777, 3072, 19_712, 31_808),
    "adamw": (688, 172, 0, 0),
    "silu": (224, 224, 0, 0),
    "mamba": (160, 2, 0, 0),
}


def test_every_task_has_expected_counts():
    names = [name for name in suite() if "@" not in name]
    assert sorted(EXPECTED) == sorted(SUMMARY) == sorted(names)


@pytest.mark.parametrize("name", EXPECTED)
def test_instructions_are_those_of_the_published_loop_nest(name):
    assert count(name)[0] == EXPECTED[name][0]


@pytest.mark.parametrize("name", EXPECTED)
def test_bytes_are_those_of_the_published_loop_nest(name):
    assert count(name)[1:] == EXPECTED[name][1:]


@pytest.mark.parametrize("name", SUMMARY)
def test_totals_are_those_of_the_published_summary(name):
    counts = count(name)[0]
    totals = tuple(
        sum(n for key, n in counts.items() if key.startswith(f"{op} "))
        for op in ("LD", "ST", "TR", "MM")
    )
    assert totals == SUMMARY[name]


def test_the_last_column_block_of_transpose_matmul_has_704_columns():
    # Without its masks it would move these bytes.
    _, loaded, stored = count("transpose_matmul")
    assert 33_554_432 + 369_098_752 - loaded == 4 * 2048 * 4 * (1024 - 704)
    assert 184_549_376 - stored == 4096 * 4 * (1024 - 704)


@pytest.mark.parametrize(
    ("name", "hardware_flops", "transpose_flops"),
    [
        ("rmsnorm_matmul", 36_507_222_016, 2_147_483_648),
        ("transpose_matmul", 377_957_122_048, 0),
        ("silu", 0, 0),
    ],
)
def test_flop_counters_equal_the_published_profile(name, hardware_flops, transpose_flops):
    """Explicit transposes are matmuls with the identity, and count as transposes too."""
    backend = installed().backend("sim-trn1")
    try:
        task = installed().task(f"nkibench/{name}")
        profile = backend.estimate(task, task.baseline).profile
    finally:
        backend.close()
    assert profile.hardware_flops == hardware_flops
    assert profile.transpose_flops == transpose_flops
