"""Every rule of the front end: a kernel that breaks it, and one a single fault apart."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from simulator_kernels import HEADER_LINES, rules, trace, traced

X = np.zeros((256, 512), np.float32)

BODY = """
def kernel(x):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    a = nl.load(x[0:128])
    col = nl.sum(a, axis=1)
    blocks = nl.ndarray((2, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nl.store(out[0:128], a)
    STATEMENT
    return out
"""

# rule, breaks it, does not
PAIRS = [
    ("operand_not_a_tile", "nl.exp(3)", "nl.exp(a)"),
    ("operand_not_a_tile", "nl.add(1, 2)", "nl.add(a, 2)"),
    ("err_failed_to_infer_tile_from_local_tensor", "nl.copy(blocks)", "nl.copy(blocks[0])"),
    ("err_unsupported_expression_in_mask", "nl.exp(a, mask=3)", "nl.exp(a, mask=True)"),
    (
        "err_unsupported_expression_in_mask",
        "for i in nl.affine_range(2):\n        nl.exp(a, mask=(i % 2) + i_f < 9)",
        "for i in nl.affine_range(2):\n        nl.exp(a, mask=i + i_f < 9)",
    ),
    ("mask_shape_mismatch", "nl.exp(a[:, 0:4], mask=i_f < 3)", "nl.exp(a, mask=i_f < 3)"),
    (
        "mask_shape_mismatch",
        "nl.exp(a, mask=nl.arange(2)[:, None, None] < 1)",
        "nl.exp(a, mask=nl.arange(1)[:, None] < 1)",
    ),
    ("err_num_partition_mismatch", "a + nl.load(x[0:1])", "a + nl.load(x[0:128])"),
    (
        "err_num_partition_mismatch",
        "nisa.tensor_tensor(a, a[0:64], nl.add)",
        "nisa.tensor_tensor(a, a[0:128], nl.add)",
    ),
    (
        "err_num_partition_mismatch",
        "nisa.tensor_scalar(a[0:64], nl.add, col)",
        "nisa.tensor_scalar(a, nl.add, col)",
    ),
    (
        "err_num_partition_mismatch",
        "nisa.nc_matmul(a[0:64, 0:128], a)",
        "nisa.nc_matmul(a[:, 0:128], a)",
    ),
    ("shape_mismatch", "nl.add(a, a[:, 0:4])", "nl.add(a, a[:, 0:1])"),
    ("shape_mismatch", "a.broadcast_to((128, 4))", "col.broadcast_to((128, 4))"),
    ("shape_mismatch", "x[nl.arange(9), i_f]", "x[i_p, i_f]"),
    ("bad_assignment", "a[...] = 'text'", "a[...] = 1"),
    ("err_unsupported_memory", "out[0:128] = a", "blocks[0] = a"),
    ("err_unsupported_memory", "nl.load(a)", "nl.load(x[0:128])"),
    (
        "err_store_dst_shape_smaller_than_other_shape",
        "col[...] = a",
        "a[...] = col",
    ),
    (
        "err_store_dst_shape_smaller_than_other_shape",
        "nl.store(out[0:128, 0:4], a)",
        "nl.store(out[0:128], a)",
    ),
    (
        "operand_not_a_column",
        "nisa.tensor_scalar(a, nl.add, a)",
        "nisa.tensor_scalar(a, nl.add, col)",
    ),
    (
        "operand_not_a_column",
        "nisa.activation_reduce(nl.exp, a, reduce_op=nl.add, reduce_res=a)",
        "nisa.activation_reduce(nl.exp, a, reduce_op=nl.add, reduce_res=col)",
    ),
    ("unsupported_operator", "nisa.activation(nl.add, a)", "nisa.activation(nl.exp, a)"),
    (
        "unsupported_operator",
        "nisa.tensor_tensor(a, a, nl.exp)",
        "nisa.tensor_tensor(a, a, nl.add)",
    ),
    (
        "unsupported_operator",
        "nisa.tensor_tensor(a, a, max)",
        "nisa.tensor_tensor(a, a, np.maximum)",
    ),
    (
        "unsupported_operator",
        "nisa.tensor_reduce(nl.subtract, a, 1)",
        "nisa.tensor_reduce(nl.add, a, 1)",
    ),
    (
        "unsupported_operator",
        "nisa.activation_reduce(nl.exp, a, reduce_op=nl.max, reduce_res=col)",
        "nisa.activation_reduce(nl.exp, a, reduce_op=np.add, reduce_res=col)",
    ),
    (
        "unsupported_engine",
        "nisa.tensor_tensor(a, a, nl.add, engine=nisa.scalar_engine)",
        "nisa.tensor_tensor(a, a, nl.add, engine=nisa.gpsimd_engine)",
    ),
    (
        "err_activation_scale_invalid_type",
        "nisa.activation(nl.exp, a, scale=nl.copy(col, dtype=nl.float16))",
        "nisa.activation(nl.exp, a, scale=col)",
    ),
    (
        "err_activation_scale_scalar_or_vector",
        "nisa.activation(nl.exp, a, scale=a)",
        "nisa.activation(nl.exp, a, scale=2.0)",
    ),
    (
        "err_activation_bias_invalid_type",
        "nisa.activation(nl.exp, a, bias=1.0)",
        "nisa.activation(nl.exp, a, bias=nl.copy(col, dtype=nl.bfloat16))",
    ),
    ("bad_reduction_axis", "nl.sum(a, axis=0)", "nl.sum(a, axis=1)"),
    ("bad_reduction_axis", "nl.sum(a, axis=2)", "nl.sum(a, axis=-1)"),
    (
        "err_exceed_max_supported_dimension",
        "nl.transpose(a.reshape((128, 8, 64)))",
        "nl.transpose(a[:, 0:128])",
    ),
    ("wrong_number_of_indices", "a[i_p, i_f, 0]", "a[i_p, i_f]"),
    ("wrong_number_of_indices", "a[0, 0, 0]", "a[0, 0]"),
    (
        "err_unsupported_mixing_basic_advanced_tensor_indexing",
        "x[i_p, 0:512]",
        "x[i_p, i_f]",
    ),
    ("err_1d_arange_not_supported", "a[nl.arange(128), 0]", "a[i_p, 0]"),
    ("bad_subscript", "a['x']", "a[0]"),
    ("bad_subscript", "a[..., ...]", "a[...]"),
    ("bad_slice", "a[:, 8:2]", "a[:, 2:8]"),
    ("bad_slice", "a[:, nl.ds(0, 0)]", "a[:, nl.ds(0, 1)]"),
    ("bad_slice", "a[:, 0:8:-1]", "a[:, 0:8:2]"),
    (
        "variable_slice_size",
        "for i in nl.affine_range(2):\n        a[:, 0:i]",
        "for i in nl.affine_range(2):\n        a[:, i:i + 1]",
    ),
    ("tile_not_iterable", "list(a)", "list(a.shape)"),
    ("bad_reshape", "a.reshape((128, 7))", "a.reshape((128, 512))"),
    ("err_annotation_shape_mismatch", "a.assert_shape((1, 2))", "a.assert_shape([128, 512])"),
    ("err_ambiguous_tensor_truth_value", "not a", "a is None"),
    (
        "err_dynamic_control_flow_not_supported",
        "if a[0, 0]:\n        pass",
        "if a.shape[0]:\n        pass",
    ),
    (
        "err_dynamic_control_flow_not_supported",
        "for i in nl.affine_range(3):\n        if i > 1:\n            break",
        "for i in nl.static_range(3):\n        if i > 1:\n            break",
    ),
    (
        "err_dynamic_control_flow_not_supported",
        "for i in nl.affine_range(3):\n        b = 1 if i > 1 else 2",
        "for i in nl.static_range(3):\n        b = 1 if i > 1 else 2",
    ),
    (
        "err_control_flow_condition_depending_on_arange",
        "if i_f < 3:\n        pass",
        "if 2 < 3:\n        pass",
    ),
    (
        "shape_not_constant",
        "nl.ndarray(('a', 2), dtype=nl.float32)",
        "nl.ndarray((1, 2), nl.float32)",
    ),
    (
        "shape_not_positive",
        "nl.ndarray((0, 2), dtype=nl.float32)",
        "nl.ndarray((1, 2), nl.float32)",
    ),
    (
        "shape_too_large",
        "nl.ndarray((2**40, 2), dtype=nl.float32, buffer=nl.hbm)",
        "nl.ndarray((2**20, 2), dtype=nl.float32, buffer=nl.hbm)",
    ),
    (
        "unsupported_dtype",
        "nl.ndarray((1, 2), dtype=np.float64)",
        "nl.ndarray((1, 2), dtype=np.float32)",
    ),
    (
        "insufficient_rank",
        "nl.ndarray((128,), dtype=nl.float32)",
        "nl.ndarray((128, 1), nl.float32)",
    ),
    (
        "insufficient_rank",
        "nisa.memset((128,), 0, nl.float32)",
        "nisa.memset((128, 1), 0, nl.float32)",
    ),
    (
        "bad_buffer",
        "nl.ndarray((1, 2), nl.float32, buffer='sbuf')",
        "nl.ndarray((1, 2), nl.float32)",
    ),
    (
        "err_hbm_tensor_with_init_value_not_supported",
        "nl.zeros((1, 2), nl.float32, buffer=nl.hbm)",
        "nl.zeros((1, 2), nl.float32, buffer=nl.sbuf)",
    ),
    (
        "err_shared_hbm_must_in_kernel_level",
        "for i in nl.affine_range(2):\n        "
        "nl.ndarray((1, 2), nl.float32, buffer=nl.shared_hbm)",
        "for i in nl.affine_range(2):\n        "
        "nl.ndarray((1, 2), nl.float32, buffer=nl.private_hbm)",
    ),
    ("bad_fill_value", "nl.full((1, 2), a, nl.float32)", "nl.full((1, 2), 1, nl.float32)"),
    ("bad_fill_value", "nisa.memset((1, 2), a, nl.float32)", "nisa.memset((1, 2), 1, nl.float32)"),
    (
        "bad_constant",
        "nl.shared_constant(np.float32(1))",
        "nl.shared_constant(np.ones(1, np.float32))",
    ),
    ("err_cannot_update_immutable_parameter", "nl.store(x[0:128], a)", "nl.store(out[0:128], a)"),
    ("no_spmd_grid", "nl.program_id(0)", "nl.num_programs()"),
    ("err_cannot_assign_to_index", "i_f[0] = 1", "a[i_p, i_f] = 1"),
    ("index_not_iterable", "list(i_f)", "list(i_f.shape)"),
    ("non_affine_index", "i_f * i_p", "i_f * 2"),
    ("non_affine_index", "i_f // 2", "i_f + 2"),
    ("unsupported_index_subscript", "i_f[0]", "i_f[:, None]"),
    ("bad_arange", "nl.arange(0)", "nl.arange(1)"),
    ("bad_arange", "nl.arange('3')", "nl.arange(3)"),
    ("bad_mgrid", "nl.mgrid[0:4:2, 0:2]", "nl.mgrid[0:4, 0:2]"),
    ("bad_mgrid", "nl.mgrid[4:4]", "nl.mgrid[3:4]"),
    (
        "bad_range",
        "for i in nl.affine_range():\n        pass",
        "for i in nl.affine_range(1):\n        pass",
    ),
    (
        "bad_range",
        "for i in nl.affine_range(0, 4, 0):\n        pass",
        "for i in nl.affine_range(0, 4, 2):\n        pass",
    ),
    (
        "bad_range",
        "for i in nl.affine_range(1.5):\n        pass",
        "for i in nl.affine_range(2):\n        pass",
    ),
    (
        "loop_index_as_python_value",
        "for i in nl.affine_range(3):\n        [1, 2, 3][i]",
        "for i in nl.static_range(3):\n        [1, 2, 3][i]",
    ),
    (
        "loop_index_as_python_value",
        "for i in range(3):\n        int(i)",
        "for i in nl.static_range(3):\n        int(i)",
    ),
    (
        "loop_index_as_python_value",
        "for i in range(3):\n        {}.get(i)",
        "for i in nl.static_range(3):\n        {}.get(i)",
    ),
    (
        "loop_left_early",
        "for i in range(3):\n        break",
        "for i in nl.static_range(3):\n        break",
    ),
    (
        "loop_index_out_of_scope",
        "for i in nl.affine_range(1):\n        pass\n    nl.load(x[i + i_p, i_f])",
        "for i in nl.affine_range(1):\n        nl.load(x[i + i_p, i_f])",
    ),
    (
        "err_local_variable_used_out_of_scope",
        "for i in nl.affine_range(2):\n        b = nl.exp(a)\n    nl.exp(b)",
        "for i in nl.affine_range(2):\n        b = nl.exp(a)\n        nl.exp(b)",
    ),
    (
        "err_local_variable_used_out_of_scope",
        "for i in nl.affine_range(2):\n        "
        "if i == 0:\n            b = nl.exp(a)\n        nl.exp(b)",
        "for i in nl.affine_range(2):\n        "
        "if i == 0:\n            b = nl.exp(a)\n            nl.exp(b)",
    ),
    (
        "err_unsupported_expression_in_mask",
        "m = i_f < 0\n    for k in nl.static_range(8):\n"
        "        m = m | ((i_f > k) & (i_p > k) & (i_f < 9))",
        "m = i_f < 0\n    for k in nl.static_range(8):\n        m = m | (i_f > k)",
    ),
    ("unsupported_op", "nisa.builtin_custom_op('f')", "nl.exp(a)"),
    ("unsupported_op", "nl.exp(a[i_f < 3])", "nl.exp(a, mask=i_f < 3)"),
    ("unsupported_op", "a[i_f < 3] = 1.0", "a[...] = 1.0"),
    ("unsupported_op", "nl.mean(a, axis=1, mask=i_f < 3)", "nl.mean(a, axis=1)"),
    ("index_dtype", "x[a]", "x[0]"),
    (
        "unsupported_op",
        "for i in nl.affine_range(4):\n        "
        "for j in nl.affine_range(i // 2):\n            nl.exp(a)",
        "for i in nl.affine_range(4):\n        "
        "for j in nl.affine_range(2 * i):\n            nl.exp(a)",
    ),
    (
        "unsupported_op",
        "nisa.nc_matmul(a[:, 0:64], a, mask=i_p < i_f)",
        "nisa.nc_matmul(a[:, 0:64], a, mask=i_f < 3)",
    ),
    (
        "unsupported_operator",
        "nisa.dma_copy(dst=out, src=x, dst_rmw_op=np.multiply)",
        "nisa.dma_copy(dst=out, src=x)",
    ),
]


@pytest.mark.parametrize(("rule", "bad", "good"), PAIRS)
def test_a_rule_of_the_front_end_is_named_and_its_neighbour_passes(rule, bad, good):
    assert rules(BODY.replace("STATEMENT", bad), X) == [rule]
    assert trace(BODY.replace("STATEMENT", good), X).status == "ok"


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("err_tensor_output_not_written_to", "return", "return out"),
        ("err_unsupported_memory", "return nl.exp(a)", "return out"),
        ("bad_result", "return x", "return out"),
        ("bad_result", "return out, out", "return (out,)"),
        ("bad_result", "return out.reshape((512, 256))", "return [out]"),
    ],
)
def test_what_a_kernel_may_return(rule, bad, good):
    text = BODY.replace("STATEMENT", "pass")
    assert rules(text.replace("return out", bad), X) == [rule]
    assert rules(text.replace("return out", good), X) == []


def test_a_kernel_gets_the_arguments_of_its_task():
    text = BODY.replace("STATEMENT", "pass")
    assert rules(text, X, X) == ["wrong_number_of_arguments"]
    assert rules(text, X) == []
    assert rules(text.replace("kernel(x)", "kernel(x, eps=1.0)"), X) == []


def test_calls_outside_of_a_kernel_are_refused():
    assert rules("tile = nl.ndarray((1, 2), nl.float32)\ndef kernel(x):\n    return x", X) != []
    from accelopt_simulator.frontend.faults import KernelFault
    from accelopt_simulator.frontend.session import current

    with pytest.raises(KernelFault, match="err_nki_api_outside_of_nki_kernel"):
        current()


def test_a_kernel_may_call_another_but_not_with_a_grid():
    text = """
    @nki.jit
    def inner(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out[0:128], nl.load(x[0:128]))
        return out

    @nki.jit(mode="auto")
    def kernel(x):
        return inner(x)
    """
    assert rules(text, X) == []
    assert rules(text.replace("return inner(x)", "return inner[2](x)"), X) == [
        "err_nested_kernel_with_spmd_grid"
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("def kernel(x:", "syntax_error"),
        ("def other(x):\n    return x", "no_kernel"),
        ("def kernel(x):\n    return kernel(x)", "recursion"),
        ("def kernel(x):\n    return nl.nothing", "AttributeError"),
        ("def kernel(x):\n    1 / 0", "ZeroDivisionError"),
        ("def kernel(x):\n    raise SystemExit(0)", "SystemExit"),
        (
            "class Odd(BaseException):\n  def __str__(self): 1 / 0\ndef kernel(x):\n    raise Odd",
            "Odd",
        ),
        ("import neuronxcc.nki.nothing", "ModuleNotFoundError"),
    ],
)
def test_what_python_raises_is_a_load_error_with_its_name(text, rule):
    result = trace(text, X)
    assert [d["rule"] for d in result.diagnostics] == [rule]
    assert result.status == ("constraint_violation" if rule == "no_kernel" else "load_error")


def test_a_finding_names_the_line_of_the_kernel_file():
    result = trace(BODY.replace("STATEMENT", "nl.exp(3)"), X)
    line = BODY.strip("\n").split("\n").index("    STATEMENT") + 1
    assert result.diagnostics[0]["line"] == HEADER_LINES + line


def test_indices_too_large_for_the_trace_are_a_finding_not_a_forgery():
    text = BODY.replace("STATEMENT", "nl.store(out[i_p + 2**50, i_f], a)")
    assert rules(text, X) == ["trace_limits"]


def test_a_real_sdk_that_is_loaded_stays_in_place_and_ours_leaves(monkeypatch):
    real = ModuleType("neuronxcc")
    part = ModuleType("neuronxcc.starfish")
    monkeypatch.setitem(sys.modules, "neuronxcc", real)
    monkeypatch.setitem(sys.modules, "neuronxcc.starfish", part)
    traced(BODY.replace("STATEMENT", "import neuronxcc.nki.typing as nt"), X)
    assert sys.modules["neuronxcc"] is real
    assert sys.modules["neuronxcc.starfish"] is part
    assert "neuronxcc.nki" not in sys.modules


def test_unknown_keywords_and_names_of_instructions_are_ignored():
    assert rules(BODY.replace("STATEMENT", "nl.exp(a, name='e', lazy=1)"), X) == []


def test_shapes_and_types_compare_as_kernels_expect():
    checks = """
    assert x.shape == [256, 512] and x.shape == (256, 512) and x.shape != (1, 2)
    assert x.dtype == nl.float32 and x.dtype == np.float32 and x.dtype != nl.int32
    assert x.ndim == 2 and x.itemsize == 4 and len(x) == 256
    assert a[0].shape == (1, 512) and a[:, 3].shape == (128, 1) and x[3].shape == (512,)
    assert blocks[1].shape == (128, 512) and blocks[1, :, 3].shape == (128, 1)
    assert nl.expand_dims(a, 2).shape == (128, 512, 1) and x[None].shape == (1, 256, 512)
    assert nl.zeros_like(a).shape == a.shape and nl.empty_like(a, buffer=nl.psum).shape == a.shape
    assert nl.tile_size.pmax == 128 and nl.par_dim(4) == 4 and nl.fp32.min < -3e38
    assert nisa.get_nc_version() == nisa.nc_version.gen2 and nl.program_ndim() == 0
    assert np.dtype(nl.bfloat16).itemsize == 2 and nl.finfo(nl.bfloat16).bits == 16
    assert nl.static_cast(2.5, nl.int32) == 2
    """
    assert rules(BODY.replace("    STATEMENT", checks), X) == []
