"""Known answers of every instruction and function, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import special
from simulator_kernels import execute, rules, run_kernel

from accelopt_simulator.dtypes import CODE_BY_NAME, DTYPES, code_of, promote
from accelopt_simulator.isa import ACTIVATIONS, BINARY_ALU, OPS, UNARY_ALU
from accelopt_simulator.latency.costs import RULES as COST_RULES
from accelopt_simulator.numerics.functions import VALID_RANGE
from accelopt_simulator.numerics.rules import RULES as NUMERIC_RULES

F64 = np.float64


def _phi(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _sigmoid(x):
    return special.expit(x)


REFERENCE = {
    "copy": lambda x: x,
    "square": np.square,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + special.erf(x / np.sqrt(2))),
    "gelu_dx": lambda x: special.ndtr(x) + x * _phi(x),
    "gelu_apprx_tanh": lambda x: (
        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(x, 0),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "erf": special.erf,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": np.sign,
    "abs": np.abs,
}

UNARY = """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    zero = nisa.memset((128, 1), 0.0, nl.float32)
    nl.store(out, nisa.activation(op=nl.NAME, data=tile, bias=zero, scale=1.0))
    return out
"""


def test_every_instruction_has_a_numeric_rule_and_a_cost_rule():
    assert set(OPS) == set(NUMERIC_RULES) == set(COST_RULES)


def test_every_activation_has_a_reference():
    assert set(REFERENCE) == ACTIVATIONS


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_an_activation_agrees_with_float64_within_a_few_ulp(name, arrays):
    x = arrays(128, 64)
    x[0, :3] = (0.0, 1.0, -1.0)
    if name in ("log", "sqrt", "rsqrt"):
        x = np.abs(x) + np.float32(0.01)
    if name == "reciprocal":
        x = x + np.where(x >= 0, 0.25, -0.25).astype(np.float32)
    if name == "arctan":
        x = np.clip(x, -1.5, 1.5)
    if name == "sin":
        x = np.clip(x, -3, 3)
    found = run_kernel(UNARY.replace("NAME", name), x)
    wanted = REFERENCE[name](x.astype(F64))
    # Sums of terms that cancel lose absolute, not relative, precision.
    scale = np.maximum(np.abs(wanted), 0.1)
    assert np.max(np.abs(found - wanted) / scale) < 8 * np.finfo(np.float32).eps


@pytest.mark.parametrize("name", sorted(VALID_RANGE))
def test_an_activation_outside_its_range_gives_nan_and_says_so(name):
    x = np.full((128, 2), 1.0, np.float32)
    x[3, 1] = -(2.0**120) if name != "log" else -1.0
    result = execute(UNARY.replace("NAME", name), x)
    assert np.isnan(result.outputs[0][3, 1])
    assert np.isfinite(np.delete(result.outputs[0].ravel(), 7)).all()
    assert {rule for rule, _ in result.hazards} == {f"activation_range:{name}"}


def test_scale_and_bias_of_an_activation_are_columns_on_any_number_of_axes(arrays):
    x, scale, bias = arrays(128, 3, 5), arrays(128, 1), arrays(128, 1)
    text = """
    def kernel(x, s, b):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        y = nisa.activation(nl.tanh, nl.load(x), bias=nl.load(b), scale=nl.load(s))
        nl.store(out, y)
        return out
    """
    wanted = np.tanh(x * scale[:, :, None] + bias[:, :, None])
    np.testing.assert_allclose(run_kernel(text, x, scale, bias), wanted, rtol=1e-6, atol=1e-7)


def test_activation_reduce_sums_before_the_cast(arrays):
    x = arrays(128, 4, 6)
    text = """
    def kernel(x):
        out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        y = nl.ndarray((128, 4, 6), dtype=nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((128, 3), dtype=nl.float32, buffer=nl.sbuf)
        y[...] = nisa.activation_reduce(nl.square, nl.load(x), reduce_op=np.add,
                                        reduce_res=total[:, 1])
        nl.store(out, total[:, 1])
        return out
    """
    wanted = np.square(x).sum((1, 2), keepdims=False)[:, None]
    np.testing.assert_allclose(run_kernel(text, x), wanted, rtol=1e-5)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def test_every_binary_operator_has_a_reference():
    assert set(BINARY) == BINARY_ALU


@pytest.mark.parametrize("name", sorted(BINARY_ALU))
def test_binary_operators_agree_with_numpy_in_every_instruction(name, arrays):
    x, y, c = arrays(128, 12), arrays(128, 12), arrays(128, 1)
    x, y, c = (np.round(np.abs(a) * 2) / 2 for a in (x, y, c))  # ties and zeros
    text = f"""
    def kernel(x, y, c):
        out = nl.ndarray((5, 128, 12), dtype=nl.float32, buffer=nl.shared_hbm)
        a, b, k = nl.load(x), nl.load(y), nl.load(c)
        nl.store(out[0], nisa.tensor_tensor(a, b, nl.{name}, dtype=nl.float32))
        nl.store(out[1], nisa.tensor_scalar(a, np.{name}, 1.5, dtype=nl.float32))
        nl.store(out[2], nisa.tensor_scalar(a, nl.{name}, k, reverse0=True, dtype=nl.float32))
        nl.store(out[3], nl.{name}(a, k, dtype=nl.float32))
        nl.store(out[4], nisa.scalar_tensor_tensor(data=a, op0=nl.add, operand0=k, op1=nl.{name},
                                                   operand1=b, reverse1=True))
        return out
    """
    f = BINARY[name]
    wanted = np.stack([f(x, y), f(x, np.float32(1.5)), f(c, x), f(x, c), f(y, x + c)])
    found = run_kernel(text, x, y, c)
    np.testing.assert_allclose(found, wanted.astype(np.float32), rtol=3e-7)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("abs", np.abs),
        ("reciprocal", lambda v: 1 / v),
        ("rsqrt", lambda v: 1 / np.sqrt(np.abs(v))),
        ("logical_not", lambda v: v == 0),
    ],
)
def test_unary_operators_ignore_their_operand(name, reference, arrays):
    x = arrays(128, 8) + np.float32(3)
    token = "np.logical_not" if name == "logical_not" else f"nl.{name}"
    text = f"""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_scalar(nl.load(x), {token}, 7.0, op1=nl.add, operand1=1.0))
        return out
    """
    assert name in UNARY_ALU
    np.testing.assert_allclose(run_kernel(text, np.abs(x)), reference(np.abs(x)) + 1, rtol=1e-6)


def test_tensor_scalar_takes_two_stages_on_three_axes(arrays):
    x, c = arrays(128, 3, 4), arrays(128, 1)
    text = """
    def kernel(x, c):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        k = nl.load(c)
        nl.store(out, nisa.tensor_scalar(nl.load(x), nl.subtract, 2.0, True, nl.multiply, k, False))
        return out
    """
    np.testing.assert_array_equal(run_kernel(text, x, c), (np.float32(2) - x) * c[:, :, None])


def test_tensor_scalar_reduce_gives_both_results(arrays):
    x = arrays(128, 16)
    text = """
    def kernel(x):
        out = nl.ndarray((128, 17), dtype=nl.float32, buffer=nl.shared_hbm)
        most = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        y = nisa.tensor_scalar_reduce(data=nl.load(x), op0=nl.multiply, operand0=2.0,
                                      reduce_op=nl.max, reduce_res=most)
        nl.store(out[:, 0:16], y)
        nl.store(out[:, 16:17], most)
        return out
    """
    found = run_kernel(text, x)
    np.testing.assert_array_equal(found, np.hstack([2 * x, 2 * x.max(1, keepdims=True)]))


@pytest.mark.parametrize(
    ("op", "axis", "reference"),
    [
        ("nl.add", "[1]", lambda x: x.sum(1)),
        ("np.max", "(1, 2)", lambda x: x.max((1, 2))[:, None]),
        ("nl.min", "2", lambda x: x.min(2)),
        ("nl.multiply", "[-1]", lambda x: x.prod(2)),
    ],
)
def test_tensor_reduce_agrees_with_numpy(op, axis, reference, arrays):
    x = arrays(128, 4, 6)
    wanted = reference(x)
    text = f"""
    def kernel(x):
        out = nl.ndarray({wanted.shape}, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_reduce({op}, nl.load(x), {axis}, negate=True))
        return out
    """
    np.testing.assert_allclose(run_kernel(text, x), -wanted, rtol=1e-5, atol=1e-6)


def test_mean_of_a_tile_is_a_sum_and_a_scale(arrays):
    x = arrays(128, 20)
    text = """
    def kernel(x):
        out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.mean(nl.load(x), axis=1))
        return out
    """
    np.testing.assert_allclose(run_kernel(text, x), x.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_a_scan_carries_its_state_over_chained_halves(arrays):
    a, b = np.abs(arrays(128, 64)) % 1, arrays(128, 64)
    text = """
    def kernel(a, b):
        out = nl.ndarray((2, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        x, y = nl.load(a), nl.load(b)
        whole = nisa.tensor_tensor_scan(x, y, 0.5, np.multiply, np.add)
        first = nisa.tensor_tensor_scan(x[:, 0:32], y[:, 0:32], 0.5, np.multiply, np.add)
        rest = nisa.tensor_tensor_scan(x[:, 32:64], y[:, 32:64], first[:, 31], np.multiply, np.add)
        nl.store(out[0], whole)
        nl.store(out[1, :, 0:32], first)
        nl.store(out[1, :, 32:64], rest)
        return out
    """
    state, wanted = np.full(128, 0.5, np.float32), np.empty_like(b)
    for i in range(64):
        state = a[:, i] * state + b[:, i]
        wanted[:, i] = state
    found = run_kernel(text, a, b)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    np.testing.assert_array_equal(found[0], found[1])


def test_a_matmul_accumulates_over_parts_of_the_contraction(arrays):
    d, e = arrays(256, 128), arrays(256, 512)
    text = """
    def kernel(d, e):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(2):
            rows = nl.ds(k * 128, 128)
            acc += nisa.nc_matmul(nl.load(d[rows]), nl.load(e[rows]))
        nl.store(out, nl.copy(acc))
        return out
    """
    np.testing.assert_allclose(run_kernel(text, d, e), d.T @ e, rtol=1e-4, atol=1e-4)


def test_nl_matmul_transposes_its_left_operand_unless_told(arrays):
    a, b = arrays(128, 64), arrays(64, 32)
    text = """
    def kernel(a, b, at):
        out = nl.ndarray((2, 128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out[0], nl.matmul(nl.load(a), nl.load(b)))
        nl.store(out[1], nl.matmul(nl.load(at), nl.load(b), transpose_x=True))
        return out
    """
    found = run_kernel(text, a, b, np.ascontiguousarray(a.T))
    np.testing.assert_allclose(found, np.stack([a @ b] * 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(128, 64), (16, 32)])
def test_transposes_on_both_engines(shape, arrays):
    x = arrays(*shape)
    text = f"""
    def kernel(x):
        out = nl.ndarray({shape[::-1]}, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.nc_transpose(nl.load(x)))
        return out
    """
    np.testing.assert_array_equal(run_kernel(text, x), x.T)


def test_a_row_is_broadcast_over_partitions_in_chunks_of_a_bank(arrays):
    g, x = arrays(1, 1200), arrays(128, 1200)
    text = """
    def kernel(g, x):
        out = nl.ndarray((128, 1200), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), nl.load(g)))
        return out
    """
    np.testing.assert_array_equal(run_kernel(text, g, x), g * x)


def test_division_is_right_with_scalars_columns_rows_and_tiles(arrays):
    x, c = arrays(128, 8), np.abs(arrays(128, 1)) + np.float32(1)
    r = np.abs(arrays(1, 8)) + np.float32(1)
    text = """
    def kernel(x, c, r):
        out = nl.ndarray((4, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(c)
        i_p = nl.arange(128)[:, None]
        nl.store(out[0], a / 3.0)
        nl.store(out[1], a / b)
        nl.store(out[2], nl.divide(a, nl.load(r), mask=i_p < 128))
        nl.store(out[3], 1.0 / nl.add(nl.abs(a), 1.0))
        return out
    """
    wanted = np.stack([x / 3, x / c, x / r, 1 / (np.abs(x) + 1)])
    np.testing.assert_allclose(run_kernel(text, x, c, r), wanted, rtol=4e-7)


def test_operators_of_tiles_agree_with_numpy(arrays):
    x, y = arrays(128, 8), arrays(128, 8)
    text = """
    def kernel(x, y):
        out = nl.ndarray((4, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(y)
        nl.store(out[0], 2 - a * b)
        nl.store(out[1], -a + b)
        nl.store(out[2], (a > b) * 1.0)
        a *= b
        a -= 1.0
        nl.store(out[3], a)
        return out
    """
    wanted = np.stack([2 - x * y, -x + y, (x > y).astype(np.float32), x * y - 1])
    np.testing.assert_allclose(run_kernel(text, x, y), wanted, rtol=1e-6)


CAST = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    small = nl.ndarray(x.shape, dtype=nl.NAME, buffer=nl.sbuf)
    small[...] = nl.load(x)
    nl.store(out, nl.copy(small, dtype=nl.float32))
    return out
"""


def _tfloat32(x):
    # 13 bits fewer than float32: round in float64 by adding and taking away a large number.
    exponent = np.exp2(np.floor(np.log2(np.abs(x.astype(F64)))) - 10)
    return (np.round(x.astype(F64) / exponent) * exponent).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("float32", lambda x: x),
        ("bfloat16", lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32)),
        ("float16", lambda x: x.astype(np.float16).astype(np.float32)),
        ("float8_e4m3", lambda x: x.astype(ml_dtypes.float8_e4m3).astype(np.float32)),
        ("float8_e5m2", lambda x: x.astype(ml_dtypes.float8_e5m2).astype(np.float32)),
        ("tfloat32", _tfloat32),
        ("int32", lambda x: np.rint(x)),
        ("int8", lambda x: np.clip(np.rint(x), -128, 127)),
        ("uint8", lambda x: np.clip(np.rint(x), 0, 255)),
        ("int16", lambda x: np.clip(np.rint(x), -(2**15), 2**15 - 1)),
    ],
)
def test_casts_round_to_nearest_and_integers_saturate(name, reference, arrays):
    x = arrays(128, 32) * np.float32(100)
    x[0, :4] = (0.5, 1.5, 2.5, -0.5)
    if name == "tfloat32":
        x[0, :4] = 1.0
    np.testing.assert_array_equal(run_kernel(CAST.replace("NAME", name), x), reference(x))


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [(2.7, "int32", 3), (300.0, "uint8", 255), (-1.5, "float32", -1.5)],
)
def test_a_fill_is_cast_like_a_result(value, dtype, wanted):
    text = f"""
    def kernel(x):
        out = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.full((128, 2), {value}, dtype=nl.{dtype}, buffer=nl.sbuf)
        nl.store(out, nl.copy(tile, dtype=nl.float32))
        return out
    """
    assert (run_kernel(text, np.zeros((1, 1), np.float32)) == wanted).all()


FLOATS = ["float8_e4m3", "float8_e5m2", "float16", "bfloat16", "tfloat32", "float32"]
FLOAT_TABLE = [
    "float8_e4m3 bfloat16 float16 bfloat16 tfloat32 float32",
    "bfloat16 float8_e5m2 float16 bfloat16 tfloat32 float32",
    "float16 float16 float16 float32 tfloat32 float32",
    "bfloat16 bfloat16 float32 bfloat16 tfloat32 float32",
    "tfloat32 tfloat32 tfloat32 tfloat32 tfloat32 float32",
    "float32 float32 float32 float32 float32 float32",
]
INTS = ["uint8", "int8", "uint16", "int16", "uint32", "int32"]
INT_TABLE = [
    "uint8 int16 uint16 int16 uint32 int32",
    "int16 int8 int32 int16 float32 int32",
    "uint16 int32 uint16 int32 uint32 int32",
    "int16 int16 int32 int16 float32 int32",
    "uint32 float32 uint32 float32 uint32 float32",
    "int32 int32 int32 int32 float32 int32",
]


@pytest.mark.parametrize(("names", "table"), [(FLOATS, FLOAT_TABLE), (INTS, INT_TABLE)])
def test_promotion_follows_the_documented_table(names, table):
    for row, a in enumerate(names):
        found = [DTYPES[promote(CODE_BY_NAME[a], CODE_BY_NAME[b])].name for b in names]
        assert found == table[row].split(), a


def test_a_float_wins_over_an_integer_and_bool_counts_as_uint8():
    code = CODE_BY_NAME
    assert promote(code["bfloat16"], code["int32"]) == code["bfloat16"]
    assert promote(code["bool"], code["int8"]) == code["int16"]
    assert promote(code["bool"], code["uint8"]) == code["uint8"]


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.complex64, object, "nothing"])
def test_types_that_nki_does_not_have_are_refused(dtype):
    with pytest.raises(TypeError, match="no element type"):
        code_of(dtype)


@pytest.mark.parametrize(
    ("scalar", "dtype"),
    [
        ("3", "bfloat16"),
        ("1.5", "float32"),
        ("np.float16(2)", "float32"),
        ("np.float64(2)", "float32"),
    ],
)
def test_python_scalars_take_part_in_promotion_weakly(scalar, dtype):
    text = f"""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        y = nl.add(nl.load(x), {scalar})
        assert y.dtype == nl.{dtype}, y.dtype
        nl.store(out, y)
        return out
    """
    assert rules(text, np.zeros((128, 2), ml_dtypes.bfloat16)) == []
