"""The latency model: sane before it is accurate. And its counters, against the published ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulator_kernels import HEADER_LINES, latency, traced

from accelopt.plugins import installed
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.latency.calibration import timing_for
from accelopt_simulator.latency.costs import RULES
from accelopt_simulator.latency.costs_calls import RULES as CALL_RULES
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.latency.predict import INTERVAL
from accelopt_simulator.latency.stream import TooManyInstancesError

X = np.zeros((16, 128, 2048), np.float32)

STREAM = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(16):
        for j in nl.affine_range(2048 // WIDTH):
            t = nl.load(x[i, :, nl.ds(WIDTH * j, WIDTH)])
            WORK
            nl.store(out[i, :, nl.ds(WIDTH * j, WIDTH)], t)
    return out
"""


def stream(width=2048, work="pass"):
    indent = "\n            "
    return latency(
        STREAM.replace("WIDTH", str(width)).replace("WORK", work.replace("\n", indent)), X
    )


def test_no_kernel_is_faster_than_its_bytes_and_the_fixed_overhead():
    report = stream()
    t = TRN1_TIMING
    least_ns = 2 * X.nbytes / (t.dma_engines * t.dma_engine_bytes_per_ns)
    assert report.latency_us > t.overhead_us + least_ns / 1e3
    assert report.bound == "dma"
    assert report.busy_us["dma"] > 0.8 * (report.latency_us - t.overhead_us)
    assert report.notes == ("latency model trn1-uncalibrated-2, typical error 35 %",)


def test_notes_name_the_calibration_and_its_typical_error():
    timing = timing_for("trn1")
    trace = traced(STREAM.replace("WIDTH", "2048").replace("WORK", "pass"), X)
    report = estimate_latency(trace, TRN1, timing)
    percent = 100 * (math.exp(timing.log_error) - 1)
    assert timing.version.startswith("trn1-20")
    assert report.notes == (f"latency model {timing.version}, typical error {percent:.0f} %",)
    spread = math.exp(INTERVAL * timing.log_error)
    assert report.low_us == pytest.approx(report.latency_us / spread)
    assert report.high_us == pytest.approx(report.latency_us * spread)


def test_wider_rows_are_never_slower():
    found = [stream(width).latency_us for width in (128, 256, 512, 1024, 2048)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 1.3 * found[-1]


@pytest.mark.parametrize(
    "work",
    ["t[...] = nl.exp(t)", "t[...] = nl.add(t, t)", "t[...] = nisa.reciprocal(t)"],
)
def test_more_work_on_the_bound_engine_is_never_faster(work):
    found = [stream(512, "\n".join([work] * n)).latency_us for n in (0, 4, 8, 16)]
    assert found == sorted(found)
    assert found[-1] > 1.5 * found[1]


def test_two_engines_overlap_and_one_alone_does_not():
    vector = stream(512, "\n".join(["u = nl.add(t, t)"] * 12)).latency_us
    scalar = stream(512, "\n".join(["v = nl.exp(t)"] * 12)).latency_us
    both = stream(512, "\n".join(["u = nl.add(t, t)", "v = nl.exp(t)"] * 12)).latency_us
    assert max(vector, scalar) <= both < 0.75 * (vector + scalar)


def test_a_chain_of_dependent_instructions_waits_for_each_result():
    free = stream(64, "\n".join(f"u{k} = nl.exp(t)" for k in range(4))).latency_us
    chain = "u = nl.exp(t)\n" + "\n".join(["u = nl.exp(u)"] * 3)
    assert stream(64, chain).latency_us >= free


def test_a_tile_from_outside_the_loop_serializes_and_a_fresh_one_does_not():
    fresh = STREAM.replace("WIDTH", "512").replace("WORK", "pass")
    declared = "    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)\n    for i in"
    shared = fresh.replace("    for i in", declared, 1).replace("t = nl.load", "t[...] = nl.load")
    # Affine iterations that share a tile are no valid kernel; only the cost is asked for here.
    found = [
        estimate_latency(traced(text, X), TRN1, TRN1_TIMING).latency_us for text in (fresh, shared)
    ]
    assert found[1] > 1.5 * found[0]
    # A sequential loop serializes either way, and so does not overlap its iterations.
    in_order = [latency(text.replace("affine", "sequential"), X) for text in (fresh, shared)]
    assert in_order[0].latency_us == in_order[1].latency_us > 1.5 * found[0]


REPEATED = """
def kernel(x, w):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(16):
        for j in nl.affine_range(4):
            g = nl.load(w[j, :, 0:COLUMNS])
            nl.store(out[i, :, nl.ds(512 * j, 512)], nl.add(nl.load(x[i, :, nl.ds(512 * j, 512)]),
                                                          g[:, 0:512]))
    return out
"""


@pytest.mark.parametrize(("columns", "times"), [(512, 1), (16384, 16)])
def test_repeated_loads_count_once_when_they_fit_on_chip(columns, times):
    w = np.zeros((4, 128, 16384), np.float32)
    report = latency(REPEATED.replace("COLUMNS", str(columns)), X, w)
    assert report.profile.hbm_read_bytes == X.nbytes + times * 4 * 128 * columns * 4


def test_masked_parts_of_a_transfer_cost_nothing():
    text = STREAM.replace("WIDTH", "2048").replace("WORK", "pass")
    masked = text.replace("2048)])\n", "2048)], mask=nl.arange(128)[:, None] < 64)\n").replace(
        "2048)], t)", "2048)], t, mask=nl.arange(128)[:, None] < 64)"
    )
    assert masked.count("mask") == 2
    half, whole = latency(masked, X), latency(text, X)
    assert half.profile.hbm_read_bytes == whole.profile.hbm_read_bytes / 2
    overhead = TRN1_TIMING.overhead_us
    assert half.latency_us - overhead < 0.7 * (whole.latency_us - overhead)


def test_instances_that_a_condition_switches_off_take_no_time():
    work = "if i < 0:\n    t[...] = nl.exp(t)"
    assert stream(512, work).latency_us == stream(512).latency_us


def test_lines_with_the_most_engine_time_are_named():
    report = stream(512, "\n".join(["t[...] = nl.exp(t)"] * 4))
    first = HEADER_LINES + 5  # the load, four lines of work, the store
    busy = {line: fact.split("busy ")[1].split()[0] for line, fact in report.line_facts.items()}
    work = dict.fromkeys(range(first + 1, first + 5), "scalar")
    assert busy == {first: "dma"} | work | {first + 5: "dma"}
    assert report.features["count_activation"] == 4 * 64


GROWING = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x[0, :, 0:4])
    for i in nl.sequential_range(2100):
        for j in nl.sequential_range(i):
            t[...] = nl.add(t, t)
    nl.store(out[0, :, 0:4], t)
    return out
"""


def test_too_many_instances_are_refused_not_awaited():
    with pytest.raises(TooManyInstancesError, match="at most 2000000"):
        latency(GROWING, X)


def test_too_many_instances_of_a_steady_loop_are_extrapolated():
    text = STREAM.replace("affine_range(16)", "affine_range(3000000)").replace(
        "x[i,", "x[i // 200000,"
    )
    text = text.replace("out[i,", "out[i // 200000,").replace("affine", "sequential")
    report = latency(text.replace("WIDTH", "2048").replace("WORK", "pass"), X)
    assert any("of 3000000 iterations" in note for note in report.notes)
    assert report.profile.hbm_write_bytes == 3_000_000 * 128 * 2048 * 4


@pytest.mark.parametrize("device", ["trn1", "trn2"])
def test_every_cost_is_positive_on_both_devices(device):
    from accelopt_simulator import hardware

    text = """
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x[0, :, 0:512])
        s = nl.sum(a, axis=1)
        m = nisa.nc_matmul(a[:, 0:128], a)
        t = nisa.nc_transpose(a[:, 0:128])
        b = nl.load(x[0, 0:1, 0:512]).broadcast_to((128, 512))
        c = nisa.tensor_tensor_scan(a, a, 0.0, nl.multiply, nl.add)
        d = nisa.scalar_tensor_tensor(data=a, op0=nl.add, operand0=s, op1=nl.multiply, operand1=c)
        e = nl.add(nl.exp(d), b)
        f = nisa.tensor_copy(nisa.reciprocal(e), engine=nisa.gpsimd_engine)
        f[:, 0:4] = 0.0
        g = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        g[...] = nl.copy(t)
        nl.store(out, nl.add(f, m))
        nl.store(out[:, 0:128], g)
        return out
    """
    timing = getattr(hardware, f"{device.upper()}_TIMING")
    trace = traced(text, X)
    report = estimate_latency(trace, getattr(hardware, device.upper()), timing)
    used = {name.removeprefix("count_") for name in report.features if name.startswith("count_")}
    # What is not here, the corpus of kernels runs.
    assert set(RULES) - used == {"tensor_scalar", "tensor_copy_dynamic"} | set(CALL_RULES)
    assert all(us > 0 for us in report.busy_us.values())


# Bytes and FLOPs of the baselines: sections 5 and 8 of the benchmark's specification.
PUBLISHED = {
    "silu": {"hbm_read_bytes": 117_440_512, "hbm_write_bytes": 117_440_512, "hardware_flops": 0},
    "adamw": {"hbm_read_bytes": 358_612_992, "hbm_write_bytes": 89_653_248, "hardware_flops": 0},
    "add_rmsnorm_matmul": {
        # x + z + g + w once, and one 64 KiB identity for the transposes (section 5.2).
        "hbm_read_bytes": 42_012_672,
        "hbm_write_bytes": 33_554_432,
        "transpose_flops": 1024 * 4 * 128 * 128 * 128,
    },
}


@pytest.mark.parametrize("task", sorted(PUBLISHED))
def test_counters_of_the_baselines_are_the_published_ones(task):
    kernel_task = installed().task(f"nkibench/{task}")
    arguments = tuple(
        a.value if a.value is not None else (a.shape, a.dtype) for a in kernel_task.arguments
    )
    request = TraceRequest(text=kernel_task.baseline.text, entry="kernel", arguments=arguments)
    trace = trace_kernel(request).trace
    profile = estimate_latency(trace, TRN1, TRN1_TIMING).profile
    found = {name: getattr(profile, name) for name in PUBLISHED[task]}
    assert found == PUBLISHED[task]


def test_matmul_flops_count_fp32_twice_and_the_broadcast_of_the_gain_once():
    kernel_task = installed().task("nkibench/add_rmsnorm_matmul")
    arguments = tuple(
        a.value if a.value is not None else (a.shape, a.dtype) for a in kernel_task.arguments
    )
    request = TraceRequest(text=kernel_task.baseline.text, entry="kernel", arguments=arguments)
    profile = estimate_latency(trace_kernel(request).trace, TRN1, TRN1_TIMING).profile
    matmuls = 1024 * 4 * 128 * 128 * 512
    # One broadcast, hoisted by the compiler (section 8).
    assert profile.hardware_flops - profile.transpose_flops == matmuls + 2 * 128 * 1024
