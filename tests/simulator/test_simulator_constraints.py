"""Every constraint: a kernel that breaks it, and one a single fault apart that does not."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import rules, trace

from accelopt_simulator.constraints.check import MAX_FINDINGS, check_constraints
from accelopt_simulator.hardware import TRN1

X = np.zeros((256, 2048), np.float32)

BODY = """
def kernel(x):
    out = nl.ndarray((256, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    a = nl.load(x[0:128])
    col = nl.sum(a, axis=1)
    p = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    q = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    c = nl.load(x[0:128, 0:512])
    nl.store(out[0:128], a)
    STATEMENT
    return out
"""

BOUND = "err_tensor_access_out_of_bound"
RACE = "err_unexpected_output_dependencies"
SIZE = "err_size_of_dimension_exceed_arch_limit"
TALL = "err_num_partition_exceed_arch_limit"
MEMORY = "err_unsupported_memory"
LOOP = "for i in nl.affine_range(4):\n        "

PAIRS = [
    (BOUND, "nl.load(x[129 + i_p, i_f])", "nl.load(x[128 + i_p, i_f])"),
    (BOUND, "nl.load(x[i_p - 1, i_f])", "nl.load(x[i_p, i_f])"),
    (BOUND, f"{LOOP}nl.load(x[i_p, 513 * i + i_f])", f"{LOOP}nl.load(x[i_p, 512 * i + i_f])"),
    (
        BOUND,
        f"{LOOP}nl.load(x[i_p, 600 * i + i_f], mask=600 * i + i_f < 2049)",
        f"{LOOP}nl.load(x[i_p, 600 * i + i_f], mask=600 * i + i_f < 2048)",
    ),
    (
        BOUND,
        f"{LOOP}if i < 4:\n            nl.load(x[i_p, 600 * i + i_f])",
        f"{LOOP}if i < 3:\n            nl.load(x[i_p, 600 * i + i_f])",
    ),
    (
        BOUND,
        f"{LOOP}nl.load(x[i_p, (i % 4) * 600 + i_f])",
        f"{LOOP}nl.load(x[i_p, (i % 3) * 600 + i_f])",
    ),
    (
        BOUND,
        f"{LOOP}nl.load(x[i_p, (i // 1) * 600 + i_f])",
        f"{LOOP}nl.load(x[i_p, (i // 2) * 600 + i_f])",
    ),
    # A column that the mask's axes say nothing about, on a grid of more axes.
    (
        BOUND,
        "nl.add(a.reshape((128, 4, 512))[i_p[:, :, None], nl.arange(2)[None, :, None], "
        "nl.arange(4)[None, None, :]], col[:, 0:2][:, 1], mask=nl.arange(4)[None, None, :] > 1)",
        "nl.add(a.reshape((128, 4, 512))[i_p[:, :, None], nl.arange(2)[None, :, None], "
        "nl.arange(4)[None, None, :]], col[:, 0], mask=nl.arange(4)[None, None, :] > 1)",
    ),
    # The partition axis of a matmul's operands is the contraction, not the mask's row axis.
    (
        BOUND,
        "nisa.nc_matmul(c[:, 0:128], c[i_p, 100 + i_f], mask=i_f < 413)",
        "nisa.nc_matmul(c[:, 0:128], c[i_p, 100 + i_f], mask=i_f < 412)",
    ),
    (
        "err_num_partition_exceed_arch_limit",
        "nl.ndarray((129, 2), nl.float32)[...] = 0.0",
        "nl.ndarray((128, 2), nl.float32)[...] = 0.0",
    ),
    (
        SIZE,
        "nl.ndarray((128, 513), nl.float32, buffer=nl.psum)[...] = 0.0",
        "nl.ndarray((128, 512), nl.float32, buffer=nl.psum)[...] = 0.0",
    ),
    (
        SIZE,
        "nl.ndarray((128, 45057), nl.float32)[...] = 0.0",
        "nl.ndarray((128, 45056), nl.float32)[...] = 0.0",
    ),
    (SIZE, "nisa.nc_matmul(c[:, 0:129], c)", "nisa.nc_matmul(c[:, 0:128], c)"),
    (SIZE, "nisa.nc_transpose(c[:, 0:129])", "nisa.nc_transpose(c[:, 0:128])"),
    (
        SIZE,
        "nisa.nc_transpose(c[0:33, 0:32], engine=nisa.vector_engine)",
        "nisa.nc_transpose(c[0:32, 0:32], engine=nisa.vector_engine)",
    ),
    (MEMORY, "nl.exp(x[0:128])", "nl.exp(nl.load(x[0:128]))"),
    (
        MEMORY,
        "nisa.dma_copy(dst=p, src=x[0:128, 0:512])",
        "nisa.dma_copy(dst=c, src=x[0:128, 0:512])",
    ),
    (
        "partition_access_pattern",
        "nl.exp(c[2 * nl.arange(64)[:, None], i_f])",
        "nl.exp(c[nl.arange(64)[:, None], i_f])",
    ),
    (
        "partition_access_pattern",
        "nl.exp(c[nl.arange(8)[None, :], nl.arange(8)[:, None]])",
        "nl.exp(c[nl.arange(8)[:, None], nl.arange(8)[None, :]])",
    ),
    ("start_partition", "nl.exp(c[32:128])", "nl.exp(c[64:128])"),
    ("start_partition", "nl.exp(c[16:32])", "nl.exp(c[32:48])"),
    ("start_partition", f"{LOOP}nl.exp(c[nl.ds(i * 31, 4)])", f"{LOOP}nl.exp(c[nl.ds(i * 32, 4)])"),
    ("start_partition", "nl.exp(c[16:32])", "nl.store(out[0:16], c[16:32, 0:1])"),
    ("both_operands_in_psum", "nl.add(p, q)", "nl.add(p, c)"),
    (
        "gpsimd_psum_access",
        "nisa.tensor_copy(p, engine=nisa.gpsimd_engine)",
        "nisa.tensor_copy(p, engine=nisa.vector_engine)",
    ),
    (
        "matmul_dtype",
        "nisa.nc_matmul(nl.copy(c[:, 0:128], dtype=nl.int32), c)",
        "nisa.nc_matmul(nl.copy(c[:, 0:128], dtype=nl.bfloat16), c)",
    ),
    (RACE, f"{LOOP}nl.store(out[i_p, i_f], c)", f"{LOOP}nl.store(out[i_p, 512 * i + i_f], c)"),
    (RACE, f"{LOOP}nl.store(out[i_p, i_f], c)", "nl.store(out[i_p, i_f], c)"),
    (
        RACE,
        f"{LOOP}nl.store(out[i_p, i_f], c)",
        "for i in nl.sequential_range(4):\n        nl.store(out[i_p, i_f], c)",
    ),
    # A read-modify-write of a tile from outside the loop, and of one made in the loop.
    (
        RACE,
        f"{LOOP}c[...] = nl.multiply(c, 2.0)",
        f"{LOOP}d = nl.load(x[0:128])\n        d[...] = nl.multiply(d, 2.0)",
    ),
    (RACE, f"{LOOP}c[...] = nl.multiply(c, 2.0)", f"{LOOP}c *= 2.0"),
    (
        RACE,
        f"{LOOP}p[...] = nisa.nc_matmul(c[:, 0:128], c)",
        f"{LOOP}p += nisa.nc_matmul(c[:, 0:128], c)",
    ),
    # Filling a tile again and again is harmless, unless something else is written there between.
    (
        RACE,
        f"{LOOP}p[...] = 0.0\n        p += nisa.nc_matmul(c[:, 0:128], c)",
        f"{LOOP}p[...] = 0.0",
    ),
    (
        RACE,
        f"{LOOP}nisa.activation_reduce(nl.exp, c, reduce_op=nl.add, reduce_res=col)",
        f"{LOOP}s = nl.sum(c, axis=1)\n        "
        "nisa.activation_reduce(nl.exp, c, reduce_op=nl.add, reduce_res=s)",
    ),
]


@pytest.mark.parametrize(("rule", "bad", "good"), PAIRS)
def test_a_constraint_is_named_and_its_neighbour_passes(rule, bad, good):
    # Too wide an operand also makes too tall a result: those break two rules.
    assert set(rules(BODY.replace("STATEMENT", bad), X)) - {TALL if rule == SIZE else ""} == {rule}
    assert rules(BODY.replace("STATEMENT", good), X) == []


def test_every_output_is_written():
    text = BODY.replace("nl.store(out[0:128], a)", "pass").replace("STATEMENT", "pass")
    assert rules(text, X) == ["err_tensor_output_not_written_to"]


@pytest.mark.parametrize(("bits", "found"), [(32, ["precision_below_task"]), (16, [])])
def test_a_kernel_keeps_the_precision_of_its_task(bits, found):
    text = BODY.replace("STATEMENT", "nl.copy(c, dtype=nl.bfloat16)")
    assert rules(text, X, bits=bits) == found
    assert rules(BODY.replace("STATEMENT", "nl.copy(c, dtype=nl.int32)"), X, bits=bits) == []


def test_findings_are_limited_and_say_what_was_asked_for_and_what_is_allowed():
    statement = "for k in nl.static_range(30):\n        nl.load(x[200 + k + i_p, i_f])"
    found = trace(BODY.replace("STATEMENT", statement), X)
    findings = check_constraints(found.trace, TRN1)
    assert len(findings) == MAX_FINDINGS
    first = findings[0]
    assert (first.required, first.limit) == ("[200, 327]", "[0, 255]")
    assert first.line is not None
    assert first.hint
