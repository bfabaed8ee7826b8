"""Every check of a call: a kernel that fails it, and one a single fault apart that does not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from call_faults import BODY, FAULTS
from simulator_kernels import rules, traced

from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.hardware import TRN1, TRN2

X = np.zeros((256, 512), np.float32)


@pytest.mark.parametrize(("rule", "bad", "good"), FAULTS)
def test_a_check_of_a_call_is_named_and_its_neighbour_passes(rule, bad, good):
    assert rules(BODY.replace("STATEMENT", bad), X) == [rule]
    assert rules(BODY.replace("STATEMENT", good), X) == []


RANGE = """
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.load(x[0:128])
    b = nl.load(x[0:128, 0:1])
    nl.store(out, nisa.range_select(on_true_tile=a, comp_op0=np.less, comp_op1=np.less, bound0=b,
                                    bound1=b))
    return out
"""


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("unsupported_operator", "comp_op0=np.less", "comp_op0=np.add"),
        ("operand_not_a_tile", "bound0=b", "bound0=3.0"),
        ("unsupported_dtype", "bound0=b", "bound0=nl.copy(b, dtype=nl.bfloat16)"),
        ("bad_fill_value", "bound1=b", "bound1=b, on_false_value=0.0"),
        ("unsupported_operator", "bound1=b", "bound1=b, reduce_op=np.add"),
        ("bad_subscript", "bound1=b", "bound1=b, range_start=0.5"),
    ],
)
def test_a_range_select_is_checked(rule, old, new):
    from simulator_kernels import trace

    result = trace(RANGE.replace(old, new), X)
    found = (
        [d["rule"] for d in result.diagnostics]
        if result.trace is None
        else [d.rule for d in check_constraints(result.trace, TRN2)]
        if rule != "unsupported_dtype"
        else [d.rule for d in check_constraints(result.trace, TRN2, min_float_bits=8)]
    )
    assert found == [rule]


def test_a_range_select_is_there_from_the_third_generation_on():
    found = traced(RANGE, X)
    assert [d.rule for d in check_constraints(found, TRN1)] == ["unsupported_generation"]
    assert check_constraints(found, TRN2) == []


def test_rows_in_pairs_need_fp8_and_the_third_generation():
    import ml_dtypes

    text = """
    def kernel(x, y):
        out = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.nc_matmul(nl.load(x), nl.load(y), perf_mode="double_row_gen3"))
        return out
    """

    def found(dtype, device):
        x, y = np.ones((128, 2, 8), dtype), np.ones((128, 2, 64), dtype)
        return [d.rule for d in check_constraints(traced(text, x, y), device, min_float_bits=8)]

    fp8 = ml_dtypes.float8_e4m3
    assert found(fp8, TRN2) == []
    assert found(fp8, TRN1) == ["unsupported_generation"]
    assert found(ml_dtypes.bfloat16, TRN2) == ["matmul_dtype"] * 1


SELECT = """
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    a = nl.load(x[0:128])
    nisa.tensor_copy_predicated(src=0.0, dst=a, predicate=nl.less(a, 0.0, dtype=nl.uint8))
    b = nisa.affine_select(i_f < i_p, a, 0.0)
    c = nl.add(nisa.iota(i_f + i_p, dtype=nl.int32), 3)
    d = nl.dropout(b, 0.5)
    e = nisa.max8(src=d)
    nl.store(out, nl.add(d, c))
    return out
"""


@pytest.mark.parametrize(
    ("op", "key", "values", "rule"),
    [
        ("affine_select", "compare", ["lt", 3, None], "bad_operands"),
        ("dropout", "seed", [-1, "x", 1.5, 1 << 32], "bad_operands"),
        ("dropout", "draw", [-1, None, True], "bad_operands"),
    ],
)
def test_a_forged_attribute_is_refused_before_a_rule_reads_it(op, key, values, rule):
    trace = traced(SELECT, X)
    for value in values:
        attrs = []
        for instruction in range(trace.num_instructions):
            row = dict(trace.attr(instruction))
            if trace.ops[trace.ins_op[instruction]] == op:
                row[key] = value
            attrs.append(row)
        columns = dict(trace.columns) | {"ins_attr": np.arange(len(attrs), dtype=np.int32)}
        forged = dataclasses.replace(trace, columns=columns, attrs=tuple(attrs), _hash=[])
        assert [d.rule for d in check_constraints(forged, TRN1)] == [rule]


def test_integer_arithmetic_is_only_marked_where_the_engine_has_it():
    trace = traced(SELECT, X)
    ops = [trace.ops[i] for i in trace.ins_op]
    attrs = [dict(trace.attr(i)) for i in range(trace.num_instructions)]
    attrs[-2 if ops[-2] == "tensor_tensor" else ops.index("tensor_tensor")]["integer"] = True
    columns = dict(trace.columns) | {"ins_attr": np.arange(len(attrs), dtype=np.int32)}
    forged = dataclasses.replace(trace, columns=columns, attrs=tuple(attrs), _hash=[])
    assert [d.rule for d in check_constraints(forged, TRN1)] == ["forged_attribute"]


def test_an_expression_operand_must_read_a_ramp_not_data():
    trace = traced(SELECT, X)
    forged = dataclasses.replace(
        trace, constants=tuple(c[::-1].copy() for c in trace.constants), _hash=[]
    )
    assert {d.rule for d in check_constraints(forged, TRN1)} == {"bad_operands"}


def test_an_all_reduce_over_several_instances_is_refused_with_a_reason():
    from simulator_kernels import whole_kernel

    from accelopt_simulator.frontend.run import TraceRequest, trace_kernel

    text = whole_kernel(
        """
        def kernel(x):
            out = nl.ndarray((2, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            a = nl.load(x[0:128])
            nl.store(out[nl.program_id(0)], nl.all_reduce(a, np.add, program_axes=[0]))
            return out
        """
    )
    request = TraceRequest(text=text, entry="kernel", arguments=((X.shape, "float32"),), grid=(2,))
    result = trace_kernel(request)
    assert result.status == "unsupported_op"
    assert "one after the other" in result.diagnostics[0]["message"]
