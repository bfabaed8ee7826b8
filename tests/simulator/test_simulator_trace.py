"""The trace format: round trips, the hash, and what validation refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator_forgery import at, edited, sample_trace
from simulator_kernels import traced

from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.codec import decode, encode, from_json, to_json, trace_hash
from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.schema import COLUMNS

X = np.zeros((128, 64), np.float32)


@pytest.fixture(scope="module")
def sample():
    return sample_trace()


def same(a, b):
    return encode(a) == encode(b)


def test_the_binary_and_the_json_form_give_the_trace_back(sample):
    assert same(decode(encode(sample)), sample)
    assert same(from_json(to_json(sample)), sample)
    assert trace_hash(from_json(to_json(sample))) == trace_hash(sample)


def test_json_keeps_immediates_that_are_not_finite():
    text = """
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.maximum(nl.load(x), float("-inf")))
        return out
    """
    found = traced(text, X)
    assert same(from_json(to_json(found)), found)


KERNEL = """
def kernel(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm, name="result")
    i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
    for i in nl.affine_range(2):
        t = nl.load(x[i_p, 32 * i + nl.arange(32)[None, :]])
        y = nl.multiply(t, 2.0)
        nl.store(out[i_p, 32 * i + nl.arange(32)[None, :]], y, mask=i_p < 100)
    return out
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i_p, i_f =", "\n    i_p, i_f ="),
        ('"result"', '"other"'),
        ("t = nl.load", "tile = t = nl.load"),
        ("def kernel(x):\n", "def kernel(x):\n    'A comment.'\n"),
    ],
)
def test_the_hash_does_not_see_lines_and_names(old, new):
    assert old in KERNEL
    assert trace_hash(traced(KERNEL.replace(old, new), X)) == trace_hash(traced(KERNEL, X))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "3.0"),
        ("nl.multiply", "nl.add"),
        ("affine_range", "sequential_range"),
        ("i_p < 100", "i_p < 101"),
        ("i_p < 100", "i_p <= 100"),
        ("dtype=nl.float32", "dtype=nl.bfloat16"),
        ("x[i_p, 32 * i +", "x[i_p, 16 * i +"),
        ("(128, 64)", "(128, 65)"),
        (
            "y = nl.multiply(t, 2.0)",
            "y = nisa.tensor_scalar(t, nl.multiply, 2.0, engine=nisa.engine.gpsimd)",
        ),
    ],
)
def test_the_hash_sees_everything_else(old, new):
    assert old in KERNEL
    assert trace_hash(traced(KERNEL.replace(old, new), X)) != trace_hash(traced(KERNEL, X))


def test_every_column_but_lines_counts_for_the_hash(sample):
    for name in COLUMNS:
        column = sample.columns[name]
        if not len(column):
            continue
        changed = at(column, -1, column[-1] + 1)
        try:
            found = trace_hash(decode(edited(sample, **{name: changed})))
        except TraceError:
            continue  # refused: no hash to compare
        assert (found == trace_hash(sample)) == name.endswith("_line"), name


def derived(trace):
    return int(np.flatnonzero(trace.var_kind >= 3)[0])


FORGERIES = {
    "access_tensor leaves": lambda t: {"access_tensor": at(t.access_tensor, 0, 99)},
    "loops are nested|loop_parent": lambda t: {"loop_parent": at(t.loop_parent, 1, -1)},
    "a loop's body": lambda t: {"loop_last": at(t.loop_last, 0, 10_000)},
    "loop_step leaves": lambda t: {"loop_step": at(t.loop_step, 0, 0)},
    "ins_op leaves": lambda t: {"ops": t.ops[:2]},
    "var_kind holds": lambda t: {"var_kind": at(t.var_kind, 0, 77)},
    "later variable": lambda t: {
        "term_var": at(t.term_var, int(t.expr_start[t.var_a[derived(t)]]), derived(t))
    },
    "divisor": lambda t: {"var_b": at(t.var_b, derived(t), 0)},
    "rising offset": lambda t: {"expr_start": at(t.expr_start, 1, 10_000)},
    "expr_const leaves": lambda t: {"expr_const": at(t.expr_const, 0, 2**50)},
    "tensor_shape leaves": lambda t: {"tensor_shape": at(t.tensor_shape, 0, 2**40)},
    "tensor_par_dim": lambda t: {"tensor_par_dim": np.zeros_like(t.tensor_par_dim)},
    "constant's": lambda t: {"constants": (np.zeros((2, 2), np.float32),)},
    "rows instead of": lambda t: {"ins_line": t.ins_line[:-1]},
    "tensor_names": lambda t: {"tensor_names": t.tensor_names[1:]},
    "does not enclose it": lambda t: {
        "access_index": np.full_like(t.access_index, innermost_expression(t))
    },
    "axis that its access": lambda t: {
        "access_grid": t.access_grid[:0],
        "access_grid_start": np.zeros_like(t.access_grid_start),
    },
    "has more than": lambda t: {
        "expr_start": np.concatenate([t.expr_start[:-1], [len(t.term_var) + 300]]),
        "term_var": np.concatenate([t.term_var, np.zeros(300, np.int32)]),
        "term_coef": np.concatenate([t.term_coef, np.ones(300, np.int64)]),
    },
}


def innermost_expression(trace):
    analysis = Analysis(trace)
    return next(
        e for e in range(len(trace.expr_const)) if trace.num_loops - 1 in analysis.loops_in(e)
    )


@pytest.mark.parametrize("message", sorted(FORGERIES))
def test_a_forged_table_is_refused_with_its_reason(message, sample):
    with pytest.raises(TraceError, match=message):
        decode(edited(sample, **FORGERIES[message](sample)))


@pytest.mark.parametrize(
    "data",
    [b"", b"NKITRACE", b"NKITRACE\xff\xff\xff\xff", b"NKITRACE\x02\0\0\0{}", b"NOTTRACE" * 9],
)
def test_bytes_that_are_no_trace_are_refused(data):
    with pytest.raises(TraceError):
        decode(data)


def test_a_trace_cut_short_or_with_more_behind_it_is_refused(sample):
    data = encode(sample)
    for changed in (data[:-1], data + b"\0"):
        with pytest.raises(TraceError):
            decode(changed)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema_version", 99),
        ("entry", "\ud800"),
        ("dialect", 3),
        ("ops", "text"),
        ("grid", [-1]),
        ("attrs", [{"op": {"deep": 1}}]),
        ("constants", [{"dtype": "object", "shape": [1]}]),
        ("columns", {}),
        ("more", 1),
    ],
)
def test_a_json_form_with_odd_fields_is_refused(key, value, sample):
    data = json.loads(to_json(sample))
    data[key] = value
    with pytest.raises(TraceError):
        from_json(json.dumps(data))


@given(st.integers(0, 3), st.integers(-3, 12), st.integers(-2, 12), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_iterations_are_those_of_python_and_intervals_hold_them(a, start, stop, step):
    text = f"""
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.load(x)
        nl.store(out, t)
        for i in nl.sequential_range(4):
            for j in nl.sequential_range({a} * i + {start}, {stop} + i, {step}):
                t[:, 0:1] = nl.add(t[:, nl.ds((i * j) % 8 if False else (3 * j + i) % 8, 1)], 1.0)
        return out
    """
    found = traced(text, X)
    wanted = [(i, j) for i in range(4) for j in range(a * i + start, stop + i, step)]
    if found.num_loops < 2:  # a loop that can never run is left out
        assert not wanted
        return
    analysis = Analysis(found)
    loops = analysis.iterations((0, 1))
    assert list(zip(loops[0].tolist(), loops[1].tolist(), strict=True)) == wanted
    assert analysis.instances(1) >= len(wanted)
    low, high = analysis.loop_range[1]
    assert all(low <= j <= high for _, j in wanted)
