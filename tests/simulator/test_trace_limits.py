"""The decoder's limits: what a hostile header or table may cost."""

from __future__ import annotations

import json
import struct
import tracemalloc

import numpy as np
import pytest
from simulator_forgery import edited, sample_trace
from simulator_kernels import run_kernel, traced

from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.hardware import TRN1
from accelopt_simulator.trace.codec import MAGIC, MAX_BYTES, decode, encode
from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.header_json import MAX_CONTAINERS, load_header
from accelopt_simulator.trace.validate import (
    MAX_CLAUSES,
    MAX_DERIVED,
    MAX_OPERANDS,
    MAX_VARIABLES,
)


@pytest.fixture(scope="module")
def sample():
    return sample_trace()


def with_header(data, old, new):
    (size,) = struct.unpack("<I", data[8:12])
    header = data[12 : 12 + size]
    assert old in header
    header = header.replace(old, new, 1)
    return MAGIC + struct.pack("<I", len(header)) + header + data[12 + size :]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"9" * 5000, "too many digits"),
        (b"-" + b"9" * 33, "too many digits"),
        (b"0." + b"3" * 10**6, "too many digits"),
        (b"1e" + b"9" * 4000, "too many digits"),
        (b'{"a":1,"a":2}', "twice"),
        (b'[{"b":[],"b":[]}]', "twice"),
        (b"[" * 200_000, "recursion|not JSON"),
        (b"[" + b"{}," * MAX_CONTAINERS + b"{}]", "too many lists"),
        (b"\xff\xfe", "not JSON"),
        (b"", "not JSON"),
        (b'"' + b"x" * (33 << 20) + b'"', "length"),
    ],
)
def test_a_header_that_costs_too_much_is_refused(text, message):
    with pytest.raises(TraceError, match=message):
        load_header(text)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (b'"scale":' + b"9" * 30, "too large a number"),
        (b'"scale":{"a":1}', "odd type"),
        (b'"scale":[[1]]', "odd type"),
        (b'"scale":"\\ud800"', "not text"),
        (b'"scale":"' + b"x" * 201 + b'"', "short string"),
        (b'"scale":[' + b",".join([b"1"] * 65) + b"]", "too long"),
    ],
)
def test_an_attribute_is_a_small_plain_value(sample, new, message):
    data = with_header(encode(sample), b'"attrs":[{', b'"attrs":[{' + new + b",")
    with pytest.raises(TraceError, match=message):
        decode(data)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_are_not_finite_are_numbers(sample, number):
    data = with_header(encode(sample), b'"attrs":[{', b'"attrs":[{"odd":' + number + b",")
    assert not np.isfinite(decode(data).attrs[0]["odd"])


@pytest.mark.parametrize("shape", [[0, 1 << 39, 1 << 39], [1 << 39] * 8, [1 << 39], [-1]])
def test_a_constant_of_an_impossible_shape_is_refused(sample, shape):
    data = encode(sample)
    with pytest.raises(TraceError):
        decode(with_header(data, b'"shape":[128,128]', b'"shape":' + json.dumps(shape).encode()))


def test_tables_that_are_walked_row_by_row_are_bounded(sample):
    def refused(message, **columns):
        with pytest.raises(TraceError, match=message):
            decode(edited(sample, **columns))

    many = MAX_VARIABLES + 1
    refused("variables", var_kind=np.full(many, 1), var_a=np.zeros(many), var_b=np.zeros(many))
    count = MAX_DERIVED + 1
    refused(
        "derived", var_kind=np.append(sample.var_kind, np.full(count, 3)),
        var_a=np.append(sample.var_a, np.zeros(count)),
        var_b=np.append(sample.var_b, np.ones(count)),
    )  # fmt: skip
    clauses = MAX_CLAUSES + 1
    refused(
        "more than 512 parts",
        pred_start=np.append(sample.pred_start, sample.pred_start[-1] + clauses),
        clause_start=np.append(sample.clause_start, np.full(clauses, sample.clause_start[-1])),
    )
    extra = MAX_OPERANDS + 1
    refused(
        "operands", ins_operand_start=np.append(
            sample.ins_operand_start[:-1], sample.ins_operand_start[-1] + extra),
        operand_role=np.append(sample.operand_role, np.zeros(extra)),
        operand_kind=np.append(sample.operand_kind, np.zeros(extra)),
        operand_ref=np.append(sample.operand_ref, np.zeros(extra)),
    )  # fmt: skip


def test_a_trace_that_is_too_long_is_refused_unread():
    with pytest.raises(TraceError, match="exceeds"):
        decode(memoryview(bytearray(MAX_BYTES + 1)))


@pytest.mark.parametrize(
    "old",
    [b'"lengths":[', b'"grid":[', b'"ops":[', b'"shape":[', b'"attrs":[{'],
)
def test_decoding_allocates_in_proportion_to_its_input(sample, old):
    # A small header that speaks of large things.
    new = old + (b'"x":1099511627775,' if old.endswith(b"{") else b"1099511627775,")
    data = with_header(encode(sample), old, new)
    tracemalloc.start()
    try:
        decode(data)
    except TraceError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < (4 << 20) + 40 * len(data)


# -- what the fuzzer found -------------------------------------------------------------------------

SCALED = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nisa.tensor_scalar(nl.load(x), nl.add, 1.0, op1=nl.multiply, operand1=2.0))
    return out
"""


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"op1": None}, "bad_operands"), ({"op": "bitwise_and"}, "unsupported_op"),
     ({"op": ["add"]}, "unsupported_op")],
)  # fmt: skip
def test_an_operator_that_does_not_fit_its_operands_is_a_finding(change, rule):
    found = traced(SCALED, np.zeros((128, 64), np.float32))
    attrs = tuple(
        {k: v for k, v in (attr | change).items() if v is not None} for attr in found.attrs
    )
    forged = decode(edited(found, attrs=attrs))
    assert [d.rule for d in check_constraints(forged, TRN1)] == [rule]


def test_a_shuffle_may_be_masked_along_the_free_axis():
    kernel = """
    def kernel(x):
        out = nl.ndarray((32, 9), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        copy = nl.zeros((32, 9), nl.float32, buffer=nl.sbuf)
        swap = [k ^ 1 for k in range(32)]
        nisa.nc_stream_shuffle(tile, copy, swap, mask=nl.arange(9)[None, :] < 5)
        nl.store(out, copy)
        return out
    """
    x = np.arange(288, dtype=np.float32).reshape(32, 9)
    expected = x.reshape(16, 2, 9)[:, ::-1].reshape(32, 9).copy()
    expected[:, 5:] = 0
    assert np.array_equal(run_kernel(kernel, x), expected)
