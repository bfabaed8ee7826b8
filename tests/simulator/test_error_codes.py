"""The 36 documented error codes of `neuronxcc.nki`, each under its own name.

Every code has a pair of kernels one fault apart: one that is rejected with just that code, at the
faulty line, and one that is accepted. `NOT_PAIRED` lists the rest with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from simulator_kernels import HEADER_LINES, findings, rules, run_kernel, trace, traced

from accelopt import KernelSource
from accelopt.evaluation import EvaluationStatus
from accelopt.plugins import installed
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.frontend.session import MAX_WARNINGS, Session
from accelopt_simulator.hardware import TRN1

X = np.zeros((256, 512), np.float32)
ROWS = np.zeros((128, 1), np.int32)

DOCUMENTED_TEXT = """
err_1d_arange_not_supported err_activation_bias_invalid_type err_activation_scale_invalid_type
err_activation_scale_scalar_or_vector err_ambiguous_tensor_truth_value
err_annotation_shape_mismatch err_bias_tensor_must_be_specified_in_allocation
err_cannot_assign_to_index err_cannot_update_immutable_parameter
err_control_flow_condition_depending_on_arange
err_copy_dynamic_indirect_indices_not_natively_supported err_dynamic_control_flow_not_supported
err_exceed_max_supported_dimension err_failed_to_infer_tile_from_local_tensor
err_hbm_tensor_with_init_value_not_supported err_indirect_indices_are_not_supported_with_nki_api
err_indirect_indices_free_dim err_leading_dimension_of_tensor_must_be_partition
err_local_variable_used_out_of_scope err_mutable_parameter_not_returned
err_nested_kernel_with_spmd_grid err_nki_api_outside_of_nki_kernel
err_num_partition_exceed_arch_limit err_num_partition_mismatch err_shared_hbm_must_in_kernel_level
err_size_of_dimension_exceed_arch_limit err_store_dst_shape_smaller_than_other_shape
err_tensor_access_out_of_bound err_tensor_creation_on_scratchpad_with_init_value_not_supported
err_tensor_output_not_written_to err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel
err_unexpected_output_dependencies err_unsupported_expression_in_mask err_unsupported_memory
err_unsupported_mixing_basic_advanced_tensor_indexing err_while_loop_requires_unconditional_entry
"""
DOCUMENTED = DOCUMENTED_TEXT.split()

NOT_PAIRED: dict[str, str] = {}
"""Code -> why no kernel of this simulator can show it, one sentence."""

WARNINGS = {"err_leading_dimension_of_tensor_must_be_partition"}
"""Published kernels do it: reported, not rejected."""

BODY = """
import neuronxcc.nki.typing as nt

def kernel(x, rows):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    a = nl.load(x[0:128])
    b = nl.load(x[128:256])
    col = nl.sum(a, axis=1)
    idx = nl.load(rows)
    blocks = [nl.exp(a), nl.exp(b)]
    nl.store(out[0:128], a)
    STATEMENT
    return out
"""

ALLOCATED = """
import neuronxcc.nki.compiler as ncc

def at(byte):
    return ncc.sbuf.alloc(lambda index, partitions, size: (0, byte))

def kernel(x, rows):
    out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 128), dtype=nl.float32, buffer=at(0))
    b = nl.ndarray((128, 128), dtype=nl.float32, buffer=at(1024))
    zero = nl.ndarray((128, 1), dtype=nl.float32, buffer=at(2048))
    bank = ncc.psum.alloc(lambda index, partitions, size: (3, 0, 0))
    p = nl.ndarray((128, 128), dtype=nl.float32, buffer=bank)
    a[...] = nl.load(x[0:128, 0:128])
    zero[...] = 0.0
    b[...] = nl.add(a, 1.0)
    STATEMENT
    nl.store(out, b)
    return out
"""

MUTABLE = """
import neuronxcc.nki.typing as nt

def kernel(x: nt.mutable_tensor, rows):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:128], nl.load(x[0:128]))
    nl.store(x[0:128], nl.load(x[128:256]))
    STATEMENT
"""

NESTED = """
@nki.jit
def inner(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:128], nl.load(x[0:128]))
    return out

@nki.jit
def kernel(x, rows):
    STATEMENT
"""

OUTSIDE = """
def shared():
    return nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)

STATEMENT

def kernel(x, rows):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:128], table())
    return out
"""

UNWRITTEN = """
def kernel(x, rows):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)  # HERE
    a = nl.load(x[0:128])
    STATEMENT
    return out
"""

LOOP = "for i in nl.affine_range(4):\n        "


@dataclass(frozen=True)
class Pair:
    """A kernel that is rejected and one that is not.

    The faulty line is the statement's last one, or the one with HERE.
    """

    code: str
    bad: str
    good: str
    body: str = BODY
    found: str | None = None
    allowed: str | None = None
    bits: int = 8

    def text(self, statement):
        return self.body.replace("STATEMENT", statement)

    @property
    def line(self):
        lines = self.text(self.bad).strip("\n").split("\n")
        marked = [n for n, line in enumerate(lines) if "HERE" in line]
        if not marked:
            last = self.bad.split("\n")[-1]
            marked = [n for n, line in enumerate(lines) if line.endswith(last)]
        return HEADER_LINES + marked[-1] + 1


DYNAMIC = "a[i_p, idx[0, 0] + nl.arange(8)[None, :]]"

PAIRS = [
    Pair(
        "err_1d_arange_not_supported",
        "nl.exp(a[nl.arange(64), 0])",
        "nl.exp(a[nl.arange(64)[:, None], 0])",
    ),
    Pair(
        "err_activation_bias_invalid_type",
        "nisa.activation(nl.exp, a, bias=nl.copy(col, dtype=nl.int8))",
        "nisa.activation(nl.exp, a, bias=nl.copy(col, dtype=nl.float16))",
        allowed="float32 or float16 or bfloat16 vector",
    ),
    Pair(
        "err_activation_scale_invalid_type",
        "nisa.activation(nl.exp, a, scale=nl.copy(col, dtype=nl.float16))",
        "nisa.activation(nl.exp, a, scale=nl.copy(col, dtype=nl.float32))",
        allowed="float32 vector or a number",
    ),
    Pair(
        "err_activation_scale_scalar_or_vector",
        "nisa.activation(nl.exp, a, scale=b[:, 0:128])",
        "nisa.activation(nl.exp, a, scale=b[:, 0:1])",
    ),
    Pair("err_ambiguous_tensor_truth_value", "if a:  # HERE\n        pass", "if a is None: pass"),
    Pair("err_ambiguous_tensor_truth_value", "a and b", "nl.logical_and(a, b)"),
    Pair(
        "err_annotation_shape_mismatch",
        "c: nt.tensor[128, 256] = nl.exp(a)",
        "c: nt.tensor[128, 512] = nl.exp(a)",
        found="(128, 512)",
        allowed="(128, 256)",
    ),
    Pair(
        "err_bias_tensor_must_be_specified_in_allocation",
        "b[...] = nisa.activation(nl.exp, a)",
        "b[...] = nisa.activation(nl.exp, a, bias=zero)",
        ALLOCATED,
    ),
    Pair("err_cannot_assign_to_index", "i_f[0] = 1", "a[i_p, i_f] = 1"),
    Pair("err_cannot_assign_to_index", "(i_f < 3)[0] = 1", "a[i_p, i_f] = 1"),
    Pair("err_cannot_assign_to_index", "nl.mgrid[0:4, 0:4][0] = 1", "a[nl.mgrid[0:4, 0:4]] = 1"),
    Pair(
        "err_cannot_update_immutable_parameter",
        "nl.store(x[0:128], a)",
        "nl.store(out[0:128], a)",
    ),
    Pair(
        "err_cannot_update_immutable_parameter",
        "nisa.dma_copy(dst=x[0:128], src=a)",
        "nisa.dma_copy(dst=out[0:128], src=a)",
    ),
    Pair(
        "err_control_flow_condition_depending_on_arange",
        f"{LOOP}if i + i_f < 3:  # HERE\n            nl.exp(a)",
        f"{LOOP}if i < 3:\n            nl.exp(a)",
    ),
    Pair(
        "err_control_flow_condition_depending_on_arange",
        "while i_f < 3:  # HERE\n        pass",
        "while 4 < 3:\n        pass",
    ),
    Pair(
        "err_copy_dynamic_indirect_indices_not_natively_supported",
        f"b[:, 0:8] = {DYNAMIC}",
        f"b[:, 0:8] = nisa.tensor_copy_dynamic_src({DYNAMIC})",
    ),
    Pair(
        "err_dynamic_control_flow_not_supported",
        "if a[0, 0]:  # HERE\n        pass",
        "if a.shape[0]:\n        pass",
    ),
    Pair(
        "err_exceed_max_supported_dimension",
        "nl.transpose(a[:, 0:4, None])",
        "nl.transpose(a[:, 0:4])",
        found="3",
        allowed="2",
    ),
    Pair(
        "err_failed_to_infer_tile_from_local_tensor",
        "t = nl.zeros((2, nl.par_dim(128), 4), dtype=nl.float32)\n    nl.exp(t)",
        "t = nl.zeros((2, nl.par_dim(128), 4), dtype=nl.float32)\n    nl.exp(t[1])",
    ),
    Pair(
        "err_hbm_tensor_with_init_value_not_supported",
        "nl.zeros((128, 4), dtype=nl.float32, buffer=nl.private_hbm)",
        "nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.private_hbm)",
    ),
    Pair(
        "err_indirect_indices_are_not_supported_with_nki_api",
        "nl.load_transpose2d(x[idx, nl.arange(64)[None, :]])",
        "nl.load_transpose2d(x[i_p, nl.arange(64)[None, :]])",
    ),
    Pair(
        "err_indirect_indices_are_not_supported_with_nki_api",
        "nisa.dma_transpose(x[idx, nl.arange(64)[None, :]])",
        "nisa.dma_transpose(x[i_p, nl.arange(64)[None, :]])",
    ),
    Pair("err_indirect_indices_free_dim", "nl.load(x[i_p, idx])", "nl.load(x[idx, i_f])"),
    Pair(
        "err_indirect_indices_free_dim",
        "many = nl.copy(a[:, 0:2], dtype=nl.int32)\n    nl.load(x[many, i_f])",
        "many = nl.copy(a[:, 0:2], dtype=nl.int32)\n    nl.load(x[many[:, 1], i_f])",
        found="(128, 2)",
        allowed="(P, 1)",
    ),
    Pair(
        "err_local_variable_used_out_of_scope",
        f"{LOOP}c = nl.exp(a)\n    nl.copy(c)",
        f"{LOOP}c = nl.exp(a)\n        nl.copy(c)",
    ),
    Pair(
        "err_local_variable_used_out_of_scope",
        f"{LOOP}a = nl.exp(b)\n    nl.copy(a)",
        f"{LOOP}a[...] = 1.0\n    nl.copy(a)",
    ),
    Pair(
        "err_mutable_parameter_not_returned",
        "return out",
        "return out, x",
        MUTABLE.replace("rows):", "rows):  # HERE"),
    ),
    Pair("err_nested_kernel_with_spmd_grid", "return inner[2](x)", "return inner(x)", NESTED),
    Pair(
        "err_nki_api_outside_of_nki_kernel",
        "table = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)",
        "table = shared",
        OUTSIDE,
    ),
    Pair(
        "err_num_partition_exceed_arch_limit",
        "nl.ndarray((129, 2), nl.float32)[...] = 0.0",
        "nl.ndarray((128, 2), nl.float32)[...] = 0.0",
        found="129",
        allowed="128",
    ),
    Pair(
        "err_num_partition_mismatch",
        "nisa.tensor_tensor(a, b[0:1], nl.add)",
        "nisa.tensor_tensor(a, b[0:128], nl.add)",
        found="1",
        allowed="128",
    ),
    Pair(
        "err_shared_hbm_must_in_kernel_level",
        f"{LOOP}nl.ndarray((1, 2), nl.float32, buffer=nl.shared_hbm)",
        "nl.ndarray((1, 2), nl.float32, buffer=nl.shared_hbm)",
    ),
    Pair(
        "err_shared_hbm_must_in_kernel_level",
        f"{LOOP}if i > 2:\n            nl.ndarray((1, 2), nl.float32, buffer=nl.shared_hbm)",
        f"{LOOP}if i > 2:\n            nl.ndarray((1, 2), nl.float32, buffer=nl.private_hbm)",
    ),
    Pair(
        "err_size_of_dimension_exceed_arch_limit",
        "nl.ndarray((128, 513), nl.float32, buffer=nl.psum)[...] = 0.0",
        "nl.ndarray((128, 512), nl.float32, buffer=nl.psum)[...] = 0.0",
        found="2052",
        allowed="2048",
    ),
    Pair(
        "err_store_dst_shape_smaller_than_other_shape",
        "col[...] = nl.exp(a)",
        "a[...] = nl.exp(col)",
        found="(128, 512)",
        allowed="(128, 1)",
    ),
    Pair(
        "err_store_dst_shape_smaller_than_other_shape",
        "nl.store(out[0:128, 0:4], a)",
        "nl.store(out[0:128, 0:512], a)",
        found="(128, 512)",
        allowed="(128, 4)",
    ),
    Pair(
        "err_tensor_access_out_of_bound",
        "nl.load(x[129 + i_p, i_f])",
        "nl.load(x[128 + i_p, i_f])",
        found="[129, 256]",
        allowed="[0, 255]",
    ),
    Pair(
        "err_tensor_creation_on_scratchpad_with_init_value_not_supported",
        "nl.zeros((128, 4), dtype=nl.float32, buffer=at(4096))",
        "nl.ndarray((128, 4), dtype=nl.float32, buffer=at(4096))",
        ALLOCATED,
    ),
    Pair(
        "err_tensor_output_not_written_to",
        "for i in nl.affine_range(0): nl.store(out[0:128], a)",
        "for i in nl.affine_range(1): nl.store(out[0:128], a)",
        UNWRITTEN,
    ),
    Pair(
        "err_tensor_output_not_written_to",
        f"{LOOP}if i > 3:\n            nl.store(out[nl.ds(32 * i, 32)], a[0:32])",
        f"{LOOP}if i > 2:\n            nl.store(out[nl.ds(32 * i, 32)], a[0:32])",
        UNWRITTEN,
    ),
    Pair(
        "err_tensor_output_not_written_to",
        "nl.store(out[0:128], a)\n    return",
        "nl.store(out[0:128], a)\n    return out",
        UNWRITTEN.replace("  # HERE", "").replace("rows):", "rows):  # HERE"),
    ),
    Pair(
        "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
        "p[...] = nisa.nc_transpose(a)",
        "p[...] = nisa.nc_matmul(a, b)",
        ALLOCATED,
    ),
    Pair(
        "err_unexpected_output_dependencies",
        f"{LOOP}nl.store(out[0:128], b)",
        "for i in nl.sequential_range(4):\n        nl.store(out[0:128], b)",
    ),
    Pair(
        "err_unsupported_expression_in_mask",
        "nl.exp(a, mask=i_f < idx[0, 0])",
        "nl.exp(a, mask=i_f < 3)",
    ),
    Pair(
        "err_unsupported_expression_in_mask",
        "nl.exp(a, mask=idx[0, 0] + i_f < 3)",
        "nl.exp(a, mask=2 + i_f < 3)",
    ),
    Pair(
        "err_unsupported_expression_in_mask",
        f"{LOOP}nl.exp(a, mask=i % 2 + i_f < 9)",
        f"{LOOP}nl.exp(a, mask=i * 2 + i_f < 9)",
    ),
    Pair(
        "err_unsupported_memory",
        "nl.exp(x[0:128])",
        "nl.exp(nl.load(x[0:128]))",
        found="hbm",
        allowed="sbuf or psum",
    ),
    Pair("err_unsupported_memory", "nl.load(a)", "nl.load(x[0:128])", found="sbuf", allowed="hbm"),
    Pair(
        "err_unsupported_mixing_basic_advanced_tensor_indexing",
        "nl.load(x[i_p, 0:512])",
        "nl.load(x[i_p, i_f])",
    ),
    Pair(
        "err_while_loop_requires_unconditional_entry",
        "while a[0, 0]:  # HERE\n        pass",
        "while a is None:\n        pass",
    ),
    # -- what has no documented code of its own, or a code in another place ------------------------
    Pair(
        "err_size_of_dimension_exceed_arch_limit",
        "nl.ndarray((128, 45057), nl.float32)[...] = 0.0",
        "nl.ndarray((128, 45056), nl.float32)[...] = 0.0",
        found="180228",
        allowed="180224",
    ),
    Pair(
        "start_partition",
        "nl.exp(a[32:96])",
        "nl.exp(a[64:128])",
        found="32",
        allowed="a multiple of 64",
    ),
    Pair(
        "err_unsupported_memory",
        "nisa.nc_matmul(x[0:128, 0:128], a)",
        "nisa.nc_matmul(a[:, 0:128], a)",
        found="hbm",
        allowed="sbuf",
    ),
    Pair(
        "err_num_partition_mismatch",
        "nisa.nc_matmul(a[0:64, 0:128], b)",
        "nisa.nc_matmul(a[0:64, 0:128], b[0:64])",
        found="64",
        allowed="128",
    ),
    Pair("loop_index_as_python_value", f"{LOOP}int(i)", f"{LOOP}a[i]"),
    Pair("loop_index_as_python_value", f"{LOOP}blocks[i % 2]", f"{LOOP}blocks[0]"),
    Pair("loop_index_as_python_value", f"{LOOP}{{0: a}}.get(i)", f"{LOOP}{{0: a}}.get(0)"),
    Pair(
        "unsupported_dtype",
        "nl.copy(a, dtype=np.float64)",
        "nl.copy(a, dtype=np.float32)",
    ),
    Pair(
        "precision_below_task",
        "nl.copy(a, dtype=nl.bfloat16)",
        "nl.copy(a, dtype=nl.float32)",
        found="bfloat16",
        allowed="32 bits",
        bits=32,
    ),
    Pair(
        "direct_allocation_out_of_range",
        "nl.ndarray((128, 1), dtype=nl.float32, buffer=at(180221))",
        "nl.ndarray((128, 1), dtype=nl.float32, buffer=at(180220))",
        ALLOCATED,
        found="(0, 180221)",
    ),
    Pair(
        "direct_allocation_out_of_range",
        "nl.ndarray((128, 1), nl.float32, buffer=ncc.psum.alloc(lambda i, p, f: (8, 0, 0)))",
        "nl.ndarray((128, 1), nl.float32, buffer=ncc.psum.alloc(lambda i, p, f: (7, 0, 0)))",
        ALLOCATED,
        found="(8, 0, 0)",
    ),
    Pair("mixed_allocation", "nl.add(a, 2.0)", "b[...] = nl.add(a, 2.0)", ALLOCATED),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.code}: {pair.bad}"[:90])
def test_a_kernel_is_rejected_with_its_code_and_its_neighbour_is_accepted(pair):
    found = findings(pair.text(pair.bad), X, ROWS, bits=pair.bits)
    assert [f.rule for f in found] == [pair.code]
    finding = found[0]
    assert finding.line == pair.line, finding
    assert finding.severity == "error"
    assert finding.message
    if pair.found is not None:
        assert finding.required == pair.found
    if pair.allowed is not None:
        assert finding.limit == pair.allowed
    assert rules(pair.text(pair.good), X, ROWS, bits=pair.bits) == []


def test_nearly_all_documented_codes_have_a_pair():
    paired = ({pair.code for pair in PAIRS} & set(DOCUMENTED)) | WARNINGS
    assert len(DOCUMENTED) == len(set(DOCUMENTED)) == 36
    assert paired | set(NOT_PAIRED) == set(DOCUMENTED)
    assert not paired & set(NOT_PAIRED)
    assert len(paired) >= 33
    assert all(reason.endswith(".") for reason in NOT_PAIRED.values())


@pytest.mark.parametrize(("role", "columns"), [("stationary", (129, 512)), ("moving", (128, 513))])
def test_a_matmul_limits_both_free_sizes(role, columns):
    text = """
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        nisa.nc_matmul(a[:, 0:{}], a[:, 0:{}])
        nl.store(out, a[:, 0:512])
        return out
    """
    wide = np.zeros((128, 600), np.float32)
    found = findings(text.format(*columns), wide)
    first = next(f for f in found if role in f.message)
    assert first.rule == "err_size_of_dimension_exceed_arch_limit"
    assert (first.required, first.limit) == {
        "stationary": ("129", "128"),
        "moving": ("513", "512"),
    }[role]
    assert first.line == HEADER_LINES + 4
    assert first.hint
    assert rules(text.format(128, 512), wide) == []


def test_an_if_on_a_loop_index_becomes_predicates():
    text = """
    def kernel(x):
        out = nl.ndarray((4, 32, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            tile = nl.load(x[i])
            if i % 2 == 1:
                tile[...] = nl.multiply(tile, 2.0)
            elif i > 1:
                tile[...] = nl.add(tile, 1.0)
            nl.store(out[i], tile)
        return out
    """
    x = np.random.default_rng(0).standard_normal((4, 32, 8)).astype(np.float32)
    wanted = np.stack([x[0], 2 * x[1], x[2] + 1, 2 * x[3]])
    np.testing.assert_array_equal(run_kernel(text, x), wanted)


# -- warnings ------------------------------------------------------------------------------------

BLOCKED = """
def kernel(x, rows):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = nl.ndarray((2, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(2):
        tiles[i] = nl.load(x[nl.ds(128 * i, 128)])
        nl.store(out[nl.ds(128 * i, 128)], tiles[i])
    return out
"""
FRESH = BLOCKED.replace("2, nl.par_dim(128), 512", "128, 512").replace("tiles[i]", "tiles[...]")


def test_block_dimensions_are_a_warning():
    result = trace(BLOCKED, X, ROWS)
    assert result.status == "ok"
    assert check_constraints(result.trace, TRN1) == []
    (warning,) = result.diagnostics
    assert warning["rule"] == "err_leading_dimension_of_tensor_must_be_partition"
    assert warning["severity"] == "warning"
    assert warning["line"] == HEADER_LINES + 3
    assert warning["hint"]
    moved = FRESH.replace("    tiles =", "    for i in nl.affine_range(2):\n        tiles =")
    moved = moved.replace(
        "buffer=nl.sbuf)\n    for i in nl.affine_range(2):\n", "buffer=nl.sbuf)\n"
    )
    assert trace(moved, X, ROWS).diagnostics == []
    assert rules(moved, X, ROWS) == []


def test_shadowing_a_tensor_in_a_block_is_a_warning():
    statement = f"{LOOP}a = nl.add(a, 1.0)"
    result = trace(BODY.replace("STATEMENT", statement), X, ROWS)
    assert result.status == "ok"
    (warning,) = result.diagnostics
    assert (warning["rule"], warning["severity"]) == ("local_variable_shadowed", "warning")
    assert "'a'" in warning["message"]
    neighbours = (
        f"{LOOP}a[...] = nl.add(b, float(1))".replace("affine", "sequential"),
        f"{LOOP}c = nl.add(a, 1.0)\n        c = nl.add(c, 1.0)",
        "a = nl.add(a, 1.0)",
        "for i in nl.static_range(4):\n        a = nl.add(a, 1.0)",
        f"{LOOP}a = 3",
        f"{LOOP}c = nl.exp(a)\n    {LOOP}c = nl.exp(a)",
        "if False:\n        late = 1\n    " + f"{LOOP}late = nl.exp(a)",
        f"{LOOP}a = a[0:64]",
    )
    for neighbour in neighbours:
        assert trace(BODY.replace("STATEMENT", neighbour), X, ROWS).diagnostics == [], neighbour


def test_a_flood_of_warnings_is_capped():
    made = "nl.ndarray((2, nl.par_dim(128), 4), dtype=nl.float32, buffer=nl.sbuf)"
    result = trace(BODY.replace("STATEMENT", "\n    ".join([made] * 300)), X, ROWS)
    assert result.status == "ok"
    assert [d["severity"] for d in result.diagnostics] == ["warning"] * 4
    assert "more of this kind, in line(s) " in result.diagnostics[-1]["message"]
    session = Session("neuronxcc.nki", "kernel")
    for kind in range(50):
        session.warn(f"rule{kind}", "text")
    assert len(session.reported_warnings()) == MAX_WARNINGS


def test_warnings_reach_the_evaluation():
    task = installed().task("nkibench/silu@small")
    backend = installed().backend("sim-trn1")
    text = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[1]):
        tiles = nl.ndarray((1, nl.par_dim(128), x.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
        tiles[0] = nl.load(x[:, r])
        nl.store(out[:, r], nl.FUNCTION(tiles[0]))
    return out
"""
    try:
        good = backend.evaluate(task, KernelSource(text=text.replace("FUNCTION", "silu")))
        wrong = backend.evaluate(task, KernelSource(text=text.replace("FUNCTION", "tanh")))
    finally:
        backend.close()
    code = "err_leading_dimension_of_tensor_must_be_partition"
    assert good.status is EvaluationStatus.OK, good.diagnostics
    assert [(d.rule, d.severity, d.line) for d in good.diagnostics] == [(code, "warning", 10)]
    assert wrong.status is EvaluationStatus.INCORRECT
    assert [d.severity for d in wrong.diagnostics] == ["error", "warning"]


def test_the_line_of_an_accepted_kernel_is_the_same_with_and_without_rewriting():
    found = traced(BODY.replace("STATEMENT", "nl.exp(a)"), X, ROWS)
    last = BODY.strip("\n").split("\n").index("    STATEMENT") + 1
    assert int(found.ins_line.max()) == HEADER_LINES + last
