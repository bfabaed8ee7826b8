"""Our own kernels over every call of the `neuronxcc.nki` dialect, each with a NumPy reference.

The calls a kernel is here for are listed with it; `docs/make_coverage.py` makes its table of that.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

F32 = np.float32
BF16 = np.dtype(ml_dtypes.bfloat16)
FP8 = np.dtype(ml_dtypes.float8_e4m3)


@dataclass(frozen=True)
class Kernel:
    """One kernel of the corpus.

    Attributes:
        name: what the test is called.
        text: functions of the kernel file; the entry is `kernel`.
        inputs: makes the arguments.
        reference: the outputs, from the arguments.
        calls: calls it is here for, as `nl.exp`.
        rtol: relative tolerance; 0 is equality.
        atol: absolute tolerance.
        device: `trn1` or `trn2`.
    """

    name: str
    text: str
    inputs: Callable[[], list[Any]]
    reference: Callable[..., Any]
    calls: tuple[str, ...]
    rtol: float = 2e-6
    atol: float = 1e-6
    device: str = "trn1"


KERNELS: list[Kernel] = []


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def normal(*shapes, dtype=F32):
    return lambda: [a.astype(dtype) for a in map(rng().standard_normal, shapes)]


def integers(low, high, *shapes, dtype=np.int32):
    return lambda: [rng().integers(low, high, s).astype(dtype) for s in shapes]


def add(name, calls, body, out, inputs, reference, *, dtype="nl.float32", exact=False, **kw):
    """A kernel whose body writes to `out`; its parameters are `x`, `y`, `z` as far as needed."""
    count = len(inputs())
    head = ", ".join("xyz"[:count])
    shapes = out if isinstance(out, list) else [out]
    dtypes = dtype if isinstance(dtype, list) else [dtype] * len(shapes)
    names = ["out", *(f"out{i}" for i in range(1, len(shapes)))]
    lines = [
        f"{n} = nl.ndarray({s}, dtype={d}, buffer=nl.shared_hbm)"
        for n, s, d in zip(names, shapes, dtypes, strict=True)
    ]
    lines += textwrap.dedent(body).strip("\n").split("\n")
    lines.append(f"return {', '.join(names)}")
    text = f"@nki.jit\ndef kernel({head}):\n" + "\n".join("    " + line for line in lines)
    if exact:
        kw |= {"rtol": 0.0, "atol": 0.0}
    KERNELS.append(Kernel(name, text, inputs, reference, tuple(calls.split()), **kw))


# -- element-wise families -------------------------------------------------------------------------


def phi(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


UNARY = {
    "abs": np.abs, "arctan": np.arctan, "ceil": np.ceil, "cos": np.cos, "erf": special.erf,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x), "exp": np.exp, "floor": np.floor,
    "gelu": lambda x: x * special.ndtr(x), "gelu_dx": lambda x: special.ndtr(x) + x * phi(x),
    "gelu_apprx_sigmoid": lambda x: x * special.expit(1.702 * x),
    "gelu_apprx_tanh": lambda x: (
        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "log": np.log, "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)), "negative": np.negative,
    "reciprocal": np.reciprocal, "relu": lambda x: np.maximum(x, 0), "rsqrt": lambda x: x**-0.5,
    "sigmoid": special.expit, "sign": np.sign, "silu": lambda x: x * special.expit(x),
    "silu_dx": lambda x: special.expit(x) * (1 + x * (1 - special.expit(x))), "sin": np.sin,
    "softplus": lambda x: np.logaddexp(x, 0), "sqrt": np.sqrt, "square": np.square, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
POSITIVE = {"log", "rsqrt", "sqrt", "reciprocal"}


def moderate(name):
    def make():
        x = np.clip(rng().standard_normal((64, 48)), -1.5, 1.5) * (2.0 if name[0] in "ctf" else 1.0)
        x = np.clip(x, -1.4, 1.4) if name == "tan" else x
        return [(np.abs(x) + 0.25 if name in POSITIVE else x).astype(F32)]

    return make


for _name, _function in UNARY.items():
    add(
        f"unary_{_name}", f"nl.{_name} nl.load nl.store nl.ndarray",
        f"nl.store(out, nl.{_name}(nl.load(x)))", "x.shape", moderate(_name),
        lambda x, f=_function: f(x.astype(np.float64)), rtol=3e-6, atol=2e-6,
    )  # fmt: skip

BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "power": np.power, "maximum": np.maximum, "minimum": np.minimum, "mod": np.mod,
    "fmod": np.fmod,
}  # fmt: skip
for _name, _function in BINARY.items():
    add(
        f"binary_{_name}", f"nl.{_name}",
        f"""
        a, b = nl.load(x), nl.load(y)
        nl.store(out[0], nl.{_name}(a, b))
        nl.store(out[1], nl.{_name}(a, b[0:1, :]))
        nl.store(out[2], nl.{_name}(a, b[:, 2:3]))
        nl.store(out[3], nl.{_name}(a, 1.75))
        nl.store(out[4], nl.{_name}(1.75, b))
        """,
        "(5, 64, 40)",
        lambda: [np.abs(a) + F32(0.5) for a in normal((64, 40), (64, 40))()],
        lambda x, y, f=_function: np.stack(
            [f(x, y), f(x, y[:1]), f(x, y[:, 2:3]), f(x, F32(1.75)), f(F32(1.75), y)]
        ),
        rtol=4e-6,
    )  # fmt: skip

COMPARE = {
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "less": np.less, "less_equal": np.less_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
for _name, _function in COMPARE.items():
    add(
        f"compare_{_name}", f"nl.{_name} nl.bool_",
        f"nl.store(out, nl.{_name}(nl.load(x), nl.load(y)))", "x.shape",
        integers(0, 3, (64, 40), (64, 40), dtype=F32),
        lambda x, y, f=_function: f(x, y).astype(np.uint8), dtype="nl.bool_", exact=True,
    )  # fmt: skip
add("logical_not", "nl.logical_not", "nl.store(out, nl.logical_not(nl.load(x)))", "x.shape",
    integers(0, 3, (64, 40), dtype=F32), lambda x: (x == 0).astype(np.uint8), dtype="nl.uint8",
    exact=True)  # fmt: skip


def bits_reference(x, y):
    shift = (y & 7).astype(np.uint32)
    unsigned = x.view(np.uint32)
    return np.stack(
        [x & y, x | y, x ^ y, (unsigned << shift).view(np.int32),
         (unsigned >> shift).view(np.int32), ~x, (x & 255) | 3]
    )  # fmt: skip


add(
    "bitwise_int32",
    "nl.bitwise_and nl.bitwise_or nl.bitwise_xor nl.left_shift nl.right_shift nl.invert nl.int32",
    """
    a, b = nl.load(x), nl.load(y)
    shift = nl.bitwise_and(b, 7)
    nl.store(out[0], nl.bitwise_and(a, b))
    nl.store(out[1], nl.bitwise_or(a, b))
    nl.store(out[2], nl.bitwise_xor(a, b))
    nl.store(out[3], nl.left_shift(a, shift))
    nl.store(out[4], nl.right_shift(a, shift))
    nl.store(out[5], nl.invert(a))
    nl.store(out[6], nisa.tensor_scalar(a, np.bitwise_and, 255, op1=np.bitwise_or, operand1=3))
    """,
    "(7, 64, 40)", integers(-(2**31), 2**31, (64, 40), (64, 40)), bits_reference, dtype="nl.int32",
    exact=True,
)  # fmt: skip
add(
    "bitwise_operators_uint8", "nl.bitwise_and nl.bitwise_or nl.bitwise_xor nl.invert nl.uint8",
    """
    a, b = nl.load(x), nl.load(y)
    nl.store(out[0], (a & b) ^ (a | b))
    nl.store(out[1], ~a)
    nl.store(out[2], nisa.tensor_tensor(a, b, nl.right_shift))
    """,
    "(3, 64, 40)", integers(0, 10, (64, 40), (64, 40), dtype=np.uint8),
    lambda x, y: np.stack(
        [x ^ y, ~x, np.where(y < 8, x >> np.minimum(y, 7), 0).astype(np.uint8)]
    ),
    dtype="nl.uint8", exact=True,
)  # fmt: skip
add(
    "bitwise_reduce", "nisa.tensor_reduce nisa.tensor_partition_reduce nl.uint32 nl.all",
    """
    a = nl.load(x)
    nl.store(out, nisa.tensor_reduce(np.bitwise_xor, a, axis=[1]))
    nl.store(out1, nisa.tensor_partition_reduce(np.bitwise_or, a))
    nl.store(out2, nl.all(nl.bitwise_and(a, 3), axis=1))
    """,
    ["(64, 1)", "(1, 9)", "(64, 1)"], integers(0, 2**32, (64, 9), dtype=np.uint32),
    lambda x: (
        np.bitwise_xor.reduce(x, axis=1)[:, None], np.bitwise_or.reduce(x, axis=0)[None],
        ((x & 3) != 0).all(1)[:, None].astype(np.uint8),
    ),
    dtype=["nl.uint32", "nl.uint32", "nl.bool_"], exact=True,
)  # fmt: skip
add(
    "integer_arithmetic_is_exact_on_gpsimd",
    "nl.add nl.subtract nl.multiply nisa.tensor_tensor nisa.gpsimd_engine nisa.engine",
    """
    a, b = nl.load(x), nl.load(y)
    nl.store(out[0], nl.add(a, b))
    nl.store(out[1], nl.subtract(a, 12345))
    nl.store(out[2], nisa.tensor_tensor(a, b, nl.multiply, engine=nisa.gpsimd_engine))
    nl.store(out[3], nisa.tensor_scalar(a, nl.add, 7, op1=nl.multiply, operand1=3,
                                        engine=nisa.engine.gpsimd))
    nl.store(out[4], nl.subtract(5, b))
    """,
    "(5, 64, 40)", integers(-(2**30), 2**30, (64, 40), (64, 40)),
    lambda x, y: np.stack([x + y, x - 12345, x * y, (x + 7) * 3, 5 - y]).astype(np.int32),
    dtype="nl.int32", exact=True,
)  # fmt: skip
add(
    "integer_arithmetic_in_float32_on_vector", "nisa.tensor_tensor nisa.vector_engine",
    "nl.store(out, nisa.tensor_tensor(nl.load(x), nl.load(y), nl.add, engine=nisa.vector_engine))",
    "x.shape", integers(2**24, 2**26, (64, 40), (64, 40)),
    lambda x, y: (x.astype(F32) + y.astype(F32)).astype(np.int32), dtype="nl.int32", exact=True,
)  # fmt: skip
add(
    "tile_operators", "nl.mod nl.floor nl.power",
    """
    a, b = nl.load(x), nl.load(y)
    nl.store(out[0], a % b)
    nl.store(out[1], a // b)
    nl.store(out[2], a ** 2)
    """,
    "(3, 64, 40)", integers(1, 60, (64, 40), (64, 40), dtype=F32),
    lambda x, y: np.stack([np.mod(x, y), np.floor(x * np.reciprocal(y)), x**2]), atol=1e-4,
)  # fmt: skip

# -- reductions and normalizations -----------------------------------------------------------------

add(
    "reductions", "nl.sum nl.max nl.min nl.prod nl.mean",
    """
    a = nl.load(x)
    nl.store(out[0], nl.sum(a, axis=1))
    nl.store(out[1], nl.max(a, axis=1))
    nl.store(out[2], nl.min(a, axis=[1]))
    nl.store(out[3], nl.prod(a, axis=1, keepdims=True))
    nl.store(out[4], nl.mean(a, axis=1))
    """,
    "(5, 64, 1)", lambda: [np.abs(normal((64, 24))()[0]) + F32(0.5)],
    lambda x: np.stack([x.sum(1), x.max(1), x.min(1), x.prod(1), x.mean(1)])[..., None], rtol=1e-5,
)  # fmt: skip
add(
    "all", "nl.all",
    "nl.store(out, nl.all(nl.load(x), axis=[2]))", "(64, 5)",
    integers(0, 6, (64, 5, 7), dtype=F32), lambda x: (x != 0).all(2).astype(np.uint8),
    dtype="nl.bool_", exact=True,
)  # fmt: skip


def soft(x, axis):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


add("softmax", "nl.softmax", "nl.store(out, nl.softmax(nl.load(x), axis=1))", "x.shape",
    normal((128, 96)), lambda x: soft(x, 1))  # fmt: skip
add("softmax_part", "nl.softmax", "nl.store(out, nl.softmax(nl.load(x), axis=[2]))", "x.shape",
    normal((64, 6, 20)), lambda x: soft(x, 2))  # fmt: skip
add(
    "softmax_bf16", "nl.softmax nl.bfloat16", "nl.store(out, nl.softmax(nl.load(x), axis=-1))",
    "x.shape", normal((128, 96), dtype=BF16), lambda x: soft(x.astype(F32), 1), dtype="nl.bfloat16",
    rtol=2**-7,
)  # fmt: skip
add(
    "softmax_masked", "nl.softmax",
    """
    i_p, i_f = nl.arange(64)[:, None], nl.arange(32)[None, :]
    y = nl.zeros((64, 32), dtype=nl.float32)
    y[i_p, i_f] = nl.softmax(nl.load(x), axis=1, mask=(i_f < 20))
    nl.store(out, y)
    """,
    "x.shape", normal((64, 32)),
    lambda x: np.concatenate([soft(x[:, :20], 1), np.zeros((64, 12))], axis=1),
)  # fmt: skip


def rms(x, w, eps):
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


add(
    "rms_norm", "nl.rms_norm nl.broadcast_to",
    """
    a, w = nl.load(x), nl.load(y)
    nl.store(out[0], nl.rms_norm(a, w, 1, 96, 1e-5))
    nl.store(out[1], nl.rms_norm(a, nl.broadcast_to(w, shape=(128, 96)), axis=[1], n=96))
    """,
    "(2, 128, 96)", normal((128, 96), (1, 96)),
    lambda x, w: np.stack([rms(x, w, 1e-5), rms(x, w, 1e-6)]),
)  # fmt: skip
add("rms_norm_part", "nl.rms_norm",
    "nl.store(out, nl.rms_norm(nl.load(x), nl.load(y), axis=[2], n=16, epsilon=1e-5))", "x.shape",
    normal((64, 5, 16), (64, 5, 16)), lambda x, w: rms(x, w, 1e-5))  # fmt: skip
add(
    "var", "nl.var nisa.bn_stats nisa.bn_aggr",
    """
    nl.store(out[0], nl.var(nl.load(x), axis=1))
    nl.store(out[1], nl.var(nl.load(y), axis=[1, 2]))
    nl.store(out[2], nl.var(nl.load(z), axis=[1, 2]))
    nl.store(out1, nl.var(nl.load(y), axis=2))
    """,
    ["(3, 128, 1)", "(128, 3)"],
    lambda: [a + F32(5) for a in normal((128, 700), (128, 3, 33), (128, 3, 200))()],
    lambda x, y, z: (
        np.stack([a.astype(np.float64).reshape(128, -1).var(1) for a in (x, y, z)])[..., None],
        y.astype(np.float64).var(2),
    ),
    rtol=2e-5,
)  # fmt: skip
add(
    "bn_stats_bn_aggr", "nisa.bn_stats nisa.bn_aggr",
    """
    stats = nl.ndarray((128, 12), dtype=nl.float32)
    a = nl.load(x)
    stats[:, 0:6] = nisa.bn_stats(a[:, 0:512])
    stats[:, 6:12] = nisa.bn_stats(a[:, 512:1024])
    nl.store(out, nisa.bn_aggr(stats))
    """,
    "(128, 2)", normal((128, 1024)),
    lambda x: np.stack([x.mean(1, dtype=np.float64), x.var(1, dtype=np.float64)], axis=1),
    rtol=1e-5,
)  # fmt: skip


def halves(x):
    found = []
    for part in (x[:, 0::2], x[:, 1::2]):
        found += [np.full(len(x), part.shape[1]), part.mean(1), part.var(1) * part.shape[1]]
    return np.stack(found, axis=1)


add(
    "bn_stats_masked", "nisa.bn_stats",
    """
    i_f = nl.arange(60)[None, :]
    nl.store(out, nisa.bn_stats(nl.load(x), mask=(i_f < 37)))
    """,
    "(128, 6)", normal((128, 60)), lambda x: halves(x[:, :37].astype(np.float64)), rtol=1e-5,
    atol=1e-5,
)  # fmt: skip

# -- selections, searches, permutations -----------------------------------------------------------

add(
    "where", "nl.where",
    """
    a, b = nl.load(x), nl.load(y)
    nl.store(out[0], nl.where(nl.greater(a, b), a, b))
    nl.store(out[1], nl.where(a, 1.0, b))
    nl.store(out[2], nl.where(nl.less(a, 0.0), b, -7.5))
    """,
    "(3, 64, 40)", lambda: [np.round(a) for a in normal((64, 40), (64, 40))()],
    lambda x, y: np.stack([np.maximum(x, y), np.where(x != 0, 1, y), np.where(x < 0, y, -7.5)]),
    exact=True,
)  # fmt: skip
add(
    "where_masked", "nl.where",
    """
    i_p, i_f = nl.arange(64)[:, None], nl.arange(40)[None, :]
    a = nl.load(x)
    r = nl.full((64, 40), 3.0, dtype=nl.float32)
    r[i_p, i_f] = nl.copy(a, mask=(i_f < 7))
    w = nl.where(nl.less(a, 0.0), r, a, mask=(i_p >= 0))
    nl.store(out, w)
    """,
    "x.shape", normal((64, 40)),
    lambda x: np.where(x < 0, np.where(np.arange(40) < 7, x, F32(3)), x), exact=True,
)  # fmt: skip
add(
    "tensor_copy_predicated", "nisa.tensor_copy_predicated nl.uint8",
    """
    a, b = nl.load(x), nl.load(y)
    p = nl.less(a, b, dtype=nl.uint8)
    first, second = nl.copy(b), nl.copy(b)
    nisa.tensor_copy_predicated(src=a, dst=first, predicate=p)
    nisa.tensor_copy_predicated(src=0.5, dst=second[:, 3:20], predicate=p[:, 3:20],
                                reverse_pred=True)
    nl.store(out[0], first)
    nl.store(out[1], second)
    """,
    "(2, 64, 40)", normal((64, 40), (64, 40)),
    lambda x, y: np.stack(
        [np.minimum(x, y),
         np.where((x >= y) & (np.arange(40) >= 3) & (np.arange(40) < 20), F32(0.5), y)]
    ),
    exact=True,
)  # fmt: skip
add(
    "select_reduce", "nisa.select_reduce nisa.reduce_cmd",
    """
    a = nl.load(x)
    p = nl.greater(a, 0.0, dtype=nl.uint8)
    dst = nl.ndarray((64, 40), dtype=nl.float32)
    top = nl.ndarray((64, 2), dtype=nl.float32)
    nisa.select_reduce(dst=dst, predicate=p, on_true=a, on_false=-1.0, reverse_pred=True,
                       reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=top[:, 0],
                       reduce_op=np.max)
    nl.store(out, dst)
    nisa.select_reduce(dst=dst, predicate=p, on_true=a, on_false=a[:, 0:1],
                       reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=top[:, 1])
    nl.store(out1, dst)
    nl.store(out2, top)
    """,
    ["(64, 40)", "(64, 40)", "(64, 2)"], normal((64, 40)),
    lambda x: (
        np.where(x > 0, F32(-1), x), np.where(x > 0, x, x[:, :1]),
        np.stack(
            [np.where(x > 0, F32(-1), x).max(1),
             np.maximum(np.where(x > 0, F32(-1), x), np.where(x > 0, x, x[:, :1])).max(1)], axis=1
        ),
    ),
    exact=True,
)  # fmt: skip
LOWEST = np.finfo(F32).min
add(
    "range_select", "nisa.range_select nl.fp32 nisa.fp32",
    """
    low, high = nl.load(y[:, 0:1]), nl.load(y[:, 1:2])
    top = nl.ndarray((128, 1), dtype=nl.float32)
    r = nisa.range_select(on_true_tile=nl.load(x), comp_op0=np.greater_equal, comp_op1=np.less,
                          bound0=low, bound1=high, range_start=32, on_false_value=nl.fp32.min,
                          reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=top, reduce_op=np.max)
    nl.store(out, r)
    nl.store(out1, top)
    """,
    ["(128, 512)", "(128, 1)"],
    lambda: [*normal((128, 512))(), np.tile(np.array([[0, 64]], F32), (128, 1))],
    lambda x, y: (np.where(np.arange(512) < 32, x, LOWEST), x[:, :32].max(1, keepdims=True)),
    exact=True, device="trn2",
)  # fmt: skip
add(
    "affine_select", "nisa.affine_select",
    """
    ix, iy = nl.arange(128)[:, None], nl.arange(128)[None, :]
    nl.store(out, nisa.affine_select(pred=(iy < ix), on_true_tile=nl.load(x),
                                     on_false_value=nl.fp32.min))
    """,
    "x.shape", normal((128, 128)),
    lambda x: np.where(np.tri(128, k=-1, dtype=bool), x, LOWEST), exact=True,
)  # fmt: skip
add(
    "affine_select_in_loops", "nisa.affine_select nl.affine_range nl.ds",
    """
    i_p, i_f = nl.arange(64)[:, None], nl.arange(32)[None, :]
    for i in nl.affine_range(2):
        for j in nl.affine_range(4):
            t = nl.load(x[nl.ds(i * 64, 64), nl.ds(j * 32, 32)])
            s = nisa.affine_select(i * 64 + i_p >= j * 32 + i_f, t, -1.0, mask=(i_f < 30))
            d = nl.zeros((64, 32), dtype=nl.float32)
            d[i_p, i_f] = nl.copy(s, mask=(i_f < 30))
            nl.store(out[nl.ds(i * 64, 64), nl.ds(j * 32, 32)], d)
    """,
    "x.shape", normal((128, 128)),
    lambda x: np.where(
        np.arange(128) % 32 >= 30, F32(0), np.where(np.tri(128, dtype=bool), x, F32(-1))
    ),
    exact=True,
)  # fmt: skip
add(
    "iota", "nisa.iota nl.arange nl.sequential_range nl.int32",
    """
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    nl.store(out, nisa.iota(5 + 2 * i_p, dtype=nl.int32))
    nl.store(out1, nisa.iota(i_f + i_p, dtype=nl.float32))
    for i in nl.sequential_range(3):
        nl.store(out2[i], nisa.iota(100 * i - i_f, dtype=nl.int16))
    """,
    ["(128, 1)", "(128, 512)", "(3, 1, 512)"], list,
    lambda: (
        5 + 2 * np.arange(128)[:, None], np.arange(128)[:, None] + np.arange(512)[None],
        100 * np.arange(3)[:, None, None] - np.arange(512)[None, None],
    ),
    dtype=["nl.int32", "nl.float32", "nl.int16"], exact=True,
)  # fmt: skip


def top_eight(x):
    return -np.sort(-x, axis=1)[:, :8]


add(
    "max8_and_find_index8", "nisa.max8 nisa.nc_find_index8 nl.uint32",
    """
    a = nl.load(x)
    best = nisa.max8(src=a)
    nl.store(out, best)
    nl.store(out1, nisa.nc_find_index8(data=a, vals=best))
    """,
    ["(128, 8)", "(128, 8)"], normal((128, 50)),
    lambda x: (top_eight(x), np.argsort(-x, axis=1)[:, :8].astype(np.uint32)),
    dtype=["nl.float32", "nl.uint32"], exact=True,
)  # fmt: skip
add(
    "find_index8_masked", "nisa.max8 nisa.nc_find_index8 nl.uint16",
    """
    i_f = nl.arange(50)[None, :]
    a = nl.load(x)
    best = nisa.max8(src=a, mask=(i_f >= 20))
    nl.store(out, nisa.nc_find_index8(data=a, vals=best, mask=(i_f >= 20), dtype=nl.uint16))
    """,
    "(128, 8)", normal((128, 50)),
    lambda x: 20 + np.argsort(-x[:, 20:], axis=1)[:, :8], dtype="nl.uint16", exact=True,
)  # fmt: skip


def replaced(x):
    row = x.copy()
    order = np.argsort(-x, axis=1)[:, :8]
    np.put_along_axis(row, order, F32(-9), axis=1)
    return row, order, np.where(np.arange(50) < 25, x, 0)


add(
    "match_replace8", "nisa.nc_match_replace8",
    """
    a = nl.load(x)
    best = nisa.max8(src=a)
    idx = nl.ndarray((64, 8), dtype=nl.uint32)
    nl.store(out, nisa.nc_match_replace8(data=a, vals=best, imm=-9.0, dst_idx=idx))
    nl.store(out1, idx)
    """,
    ["(64, 50)", "(64, 8)"], normal((64, 50)), lambda x: replaced(x)[:2],
    dtype=["nl.float32", "nl.uint32"], exact=True,
)  # fmt: skip
add(
    "stream_shuffle_rotates", "nisa.nc_stream_shuffle",
    """
    a = nl.load(x)
    b = nl.zeros((128, 9), dtype=nl.float32)
    nisa.nc_stream_shuffle(src=a, dst=b, shuffle_mask=[(i - 1) % 32 for i in range(32)])
    nl.store(out[0], b)
    nisa.nc_stream_shuffle(src=a, dst=a, shuffle_mask=[255] * 16 + list(range(16)))
    nl.store(out[1], a)
    """,
    "(2, 128, 9)", normal((128, 9)),
    lambda x: np.stack(
        [np.roll(x.reshape(4, 32, 9), 1, axis=1).reshape(128, 9),
         np.concatenate([x.reshape(4, 32, 9)[:, :16]] * 2, axis=1).reshape(128, 9)]
    ),
    exact=True,
)  # fmt: skip
add(
    "stream_shuffle_broadcasts", "nisa.nc_stream_shuffle",
    """
    b = nl.zeros((32, 9), dtype=nl.bfloat16)
    i_p = nl.arange(32)[:, None]
    nisa.nc_stream_shuffle(nl.load(x), b, [0] * 32, mask=(i_p >= 4))
    nl.store(out, b)
    """,
    "(32, 9)", normal((1, 9), dtype=BF16),
    lambda x: np.concatenate([np.zeros((4, 9), BF16), np.repeat(x, 28, axis=0)]),
    dtype="nl.bfloat16", exact=True,
)  # fmt: skip


def gathered(src, index):
    rows, columns = index.shape
    found = np.empty((rows, columns * 16 * 4), src.dtype)
    flat = src.reshape(rows, -1)
    for core in range(rows // 16):
        part = slice(16 * core, 16 * core + 16)
        starts = index[part].T.reshape(-1).astype(int) * 4
        found[part] = flat[part][:, (starts[:, None] + np.arange(4)).ravel()]
    return found.reshape(rows, columns, 16, 4)


add(
    "local_gather", "nisa.local_gather nl.uint16",
    """
    idx = nl.multiply(nl.load(y), 4, dtype=nl.uint16)
    nl.store(out, nisa.local_gather(nl.load(x), idx, 4))
    nl.store(out1, nisa.local_gather(nl.load(x), idx, 4, num_valid_indices=5))
    """,
    ["(128, 4, 16, 4)", "(128, 5, 4)"],
    lambda: [*normal((128, 32, 4))(), *integers(0, 32, (128, 4), dtype=np.uint16)()],
    lambda x, y: (gathered(x, y), gathered(x, y).reshape(128, 64, 4)[:, :5]), exact=True,
)  # fmt: skip
add(
    "gather_flattened", "nl.gather_flattened nl.uint32",
    """
    nl.store(out, nl.gather_flattened(nl.load(x), nl.load(y)))
    """,
    "(64, 5, 3)",
    lambda: [*normal((64, 4, 6))(), *integers(0, 24, (64, 5, 3), dtype=np.uint32)()],
    lambda x, y: np.take_along_axis(
        x.reshape(64, -1), y.reshape(64, -1).astype(int), axis=1
    ).reshape(64, 5, 3),
    exact=True,
)  # fmt: skip
add(
    "partition_reduce", "nisa.tensor_partition_reduce",
    """
    a = nl.load(x)
    i_p, i_f, i_g = nl.mgrid[0:128, 0:5, 0:6]
    nl.store(out[0], nisa.tensor_partition_reduce(np.add, a))
    nl.store(out[1], nisa.tensor_partition_reduce(np.max, a, mask=(i_p < 100)))
    """,
    "(2, 1, 5, 6)", normal((128, 5, 6)),
    lambda x: np.stack([x.sum(0, keepdims=True), x[:100].max(0, keepdims=True)]), rtol=1e-5,
    atol=1e-5,
)  # fmt: skip
add(
    "sequence_bounds", "nisa.sequence_bounds",
    "nl.store(out, nisa.sequence_bounds(segment_ids=nl.load(x)))", "(1, 2, 9)",
    lambda: [np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32)],
    lambda x: np.array([[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]]),
    dtype="nl.int32", exact=True,
)  # fmt: skip

# -- accumulators, matmuls, transposes and the rest ------------------------------------------------

add(
    "activation_accumulates_over_instructions", "nisa.activation nisa.reduce_cmd",
    """
    a = nl.load(x)
    total = nl.ndarray((64, 3), dtype=nl.float32)
    nisa.activation(nl.square, a[:, 0:10], reduce_op=np.add,
                    reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=total[:, 0])
    nisa.activation(nl.square, a[:, 10:20], reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.reduce)
    nisa.activation(nl.square, a[:, 20:40], reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.idle,
                    reduce_res=total[:, 1])
    for i in nl.sequential_range(2):
        nisa.activation(nl.square, a[:, nl.ds(20 + 10 * i, 10)], reduce_op=np.add,
                        reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=total[:, 2])
    nl.store(out, total)
    """,
    "(64, 3)", normal((64, 40)),
    lambda x: np.stack([(x[:, :n].astype(np.float64) ** 2).sum(1) for n in (10, 20, 40)], axis=1),
    rtol=1e-5,
)  # fmt: skip
add(
    "activation_reset_then_reduce", "nisa.activation",
    """
    a = nl.load(x)
    total = nl.ndarray((64, 1), dtype=nl.float32)
    nisa.activation(nl.exp, a, reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.reset)
    nisa.activation(nl.copy, a, scale=2.0, reduce_op=np.add,
                    reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=total)
    nl.store(out, total)
    """,
    "(64, 1)", normal((64, 40)), lambda x: 2 * x.sum(1, keepdims=True, dtype=np.float64), rtol=1e-5,
    atol=1e-5,
)  # fmt: skip
add(
    "activation_reduce", "nisa.activation_reduce",
    """
    total = nl.ndarray((64, 1), dtype=nl.float32)
    nl.store(out, nisa.activation_reduce(nl.exp, nl.load(x), reduce_op=np.add, reduce_res=total))
    nl.store(out1, total)
    """,
    ["(64, 40)", "(64, 1)"], normal((64, 40)),
    lambda x: (np.exp(x), np.exp(x.astype(np.float64)).sum(1, keepdims=True)), rtol=1e-5,
)  # fmt: skip
add(
    "matmul_contraction_mask", "nisa.nc_matmul",
    """
    i_k = nl.arange(128)[:, None]
    acc = nl.zeros((64, 200), dtype=nl.float32, buffer=nl.psum)
    for t in nl.affine_range(2):
        acc += nisa.nc_matmul(nl.load(x[t]), nl.load(y[t]), mask=(t * 128 + i_k < 150))
    nl.store(out, acc)
    """,
    "(64, 200)", normal((2, 128, 64), (2, 128, 200)),
    lambda x, y: np.einsum("km,kn->mn", x.reshape(256, 64)[:150], y.reshape(256, 200)[:150]),
    rtol=1e-4, atol=1e-4,
)  # fmt: skip
add(
    "matmul_operand_masks", "nl.matmul",
    """
    i_m, i_n = nl.arange(64)[None, :], nl.arange(200)[None, :]
    i_k = nl.arange(128)[:, None]
    r = nl.full((64, 200), 5.0, dtype=nl.float32)
    r[...] = nl.matmul(nl.load(x)[i_m <= 40], nl.load(y)[i_n < 90][i_k != 7], transpose_x=True)
    nl.store(out, r)
    """,
    "(64, 200)", normal((128, 64), (128, 200)),
    lambda x, y: np.where(
        (np.arange(64)[:, None] <= 40) & (np.arange(200) < 90),
        np.delete(x, 7, axis=0).T @ np.delete(y, 7, axis=0), F32(5),
    ),
    rtol=1e-4, atol=1e-4,
)  # fmt: skip
add(
    "matmul_row_mask", "nisa.nc_matmul",
    """
    i_m = nl.arange(64)[None, :]
    r = nl.full((64, 200), 5.0, dtype=nl.float32)
    r[...] = nisa.nc_matmul(nl.load(x), nl.load(y), mask=(i_m < 33))
    nl.store(out, r)
    """,
    "(64, 200)", normal((128, 64), (128, 200)),
    lambda x, y: np.where(np.arange(64)[:, None] < 33, x.T @ y, F32(5)), rtol=1e-4, atol=1e-4,
)  # fmt: skip
add(
    "matmul_double_row", "nisa.nc_matmul nl.float8_e4m3",
    """
    r = nisa.nc_matmul(nl.load(x), nl.load(y), perf_mode="double_row_gen3")
    nl.store(out, r)
    """,
    "(8, 512)", normal((128, 2, 8), (128, 2, 512), dtype=FP8),
    lambda x, y: np.einsum("kli,klj->ij", x.astype(F32), y.astype(F32)), rtol=1e-4, atol=1e-4,
    device="trn2",
)  # fmt: skip
add(
    "matmul_pe_tile", "nisa.nc_matmul",
    """
    a, b = nl.load(x), nl.load(y)
    for t in nl.static_range(2):
        r = nisa.nc_matmul(a[nl.ds(64 * t, 64), :], b[nl.ds(64 * t, 64), :],
                           tile_position=(64 * t, 0), tile_size=(64, 64))
        nl.store(out[t], r)
    """,
    "(2, 64, 100)", normal((128, 64), (128, 100)),
    lambda x, y: np.stack([x[:64].T @ y[:64], x[64:].T @ y[64:]]), rtol=1e-4, atol=1e-4,
)  # fmt: skip
add(
    "matmul_bf16", "nl.matmul nl.zeros nl.psum",
    """
    acc = nl.zeros((100, 300), nl.float32, buffer=nl.psum)
    acc += nl.matmul(nl.load(x), nl.load(y))
    nl.store(out, acc)
    """,
    "(100, 300)", normal((100, 96), (96, 300), dtype=BF16),
    lambda x, y: x.astype(F32) @ y.astype(F32), rtol=1e-4, atol=1e-4,
)  # fmt: skip
add(
    "transposes", "nisa.nc_transpose nl.transpose nisa.tensor_engine",
    """
    i_p, i_f = nl.arange(64)[:, None], nl.arange(100)[None, :]
    a = nl.load(x)
    nl.store(out[0], nl.transpose(a))
    r = nl.full((100, 64), 2.0, dtype=nl.float32)
    r[...] = nisa.nc_transpose(a, mask=(i_f < 80) & (i_p < 50), engine=nisa.tensor_engine)
    nl.store(out[1], r)
    """,
    "(2, 100, 64)", normal((64, 100)),
    lambda x: np.stack(
        [x.T, np.where((np.arange(100)[:, None] < 80) & (np.arange(64) < 50), x.T, F32(2))]
    ),
    exact=True,
)  # fmt: skip
add(
    "load_transpose2d", "nl.load_transpose2d nisa.dma_transpose",
    """
    nl.store(out[0], nl.load_transpose2d(x))
    nl.store(out[1], nisa.dma_transpose(nl.load(x)))
    i_n, i_m = nl.arange(40)[:, None], nl.arange(70)[None, :]
    r = nl.zeros((70, 40), dtype=nl.float32)
    r[...] = nl.load_transpose2d(x[0:40, 0:70], mask=(i_n < 33))
    nl.store(out[2], r)
    """,
    "(3, 70, 40)", normal((40, 70)),
    lambda x: np.stack([x.T, x.T, np.where(np.arange(40) < 33, x.T, F32(0))]), exact=True,
)  # fmt: skip
add(
    "dma_transpose_ranks", "nisa.dma_transpose",
    """
    nl.store(out, nisa.dma_transpose(x))
    nl.store(out1, nisa.dma_transpose(y, axes=(3, 1, 2, 0)))
    """,
    ["(9, 5, 40)", "(9, 3, 4, 40)"], normal((40, 5, 9), (40, 3, 4, 9), dtype=BF16),
    lambda x, y: (x.transpose(2, 1, 0), y.transpose(3, 1, 2, 0)), dtype="nl.bfloat16", exact=True,
)  # fmt: skip


def scan(a, b, start=0.0):
    state, found = np.full(len(a), start, F32), np.empty_like(a)
    for i in range(a.shape[1]):
        state = a[:, i] * state + b[:, i]
        found[:, i] = state
    return found


add(
    "tensor_tensor_scan", "nisa.tensor_tensor_scan",
    """
    a, b = nl.load(x), nl.load(y)
    c = nl.ndarray((64, 40), dtype=nl.float32)
    c[:, 0:20] = nisa.tensor_tensor_scan(a[:, 0:20], b[:, 0:20], 0.0, np.multiply, np.add)
    c[:, 20:40] = nisa.tensor_tensor_scan(a[:, 20:40], b[:, 20:40], c[:, 19:20],
                                          np.multiply, np.add)
    nl.store(out[0], c)
    i_f = nl.arange(40)[None, :]
    d = nl.zeros((64, 40), dtype=nl.float32)
    d[...] = nisa.tensor_tensor_scan(a, b, 1.0, np.multiply, np.add, mask=(i_f >= 5))
    nl.store(out[1], d)
    """,
    "(2, 64, 40)", normal((64, 40), (64, 40)),
    lambda x, y: np.stack(
        [scan(x, y), np.concatenate([np.zeros((64, 5)), scan(x[:, 5:], y[:, 5:], 1.0)], axis=1)]
    ),
    rtol=1e-5, atol=1e-5,
)  # fmt: skip
add(
    "tensor_scalar_forms",
    "nisa.tensor_scalar nisa.tensor_scalar_reduce nisa.scalar_tensor_tensor nisa.reciprocal",
    """
    a, c = nl.load(x), nl.load(y)
    total = nl.ndarray((64, 1), dtype=nl.float32)
    nl.store(out[0], nisa.tensor_scalar(a, np.subtract, c, reverse0=True, op1=np.power,
                                        operand1=2.0, reverse1=True))
    nl.store(out[1], nisa.tensor_scalar_reduce(data=a, op0=np.multiply, operand0=3.0,
                                               reduce_op=np.max, reduce_res=total))
    nl.store(out[2], nisa.scalar_tensor_tensor(data=a, op0=nl.add, operand0=c, op1=nl.subtract,
                                               operand1=a, reverse1=True))
    nl.store(out[3], nisa.reciprocal(a))
    nl.store(out1, total)
    """,
    ["(4, 64, 40)", "(64, 1)"], lambda: [np.abs(a) + F32(0.5) for a in normal((64, 40), (64, 1))()],
    lambda x, c: (
        np.stack([2 ** (c - x), 3 * x, x - (x + c), 1 / x]), (3 * x).max(1, keepdims=True)
    ),
    rtol=1e-5,
)  # fmt: skip
add(
    "memset_copy", "nisa.memset nisa.tensor_copy nl.copy nisa.scalar_engine nl.empty_like",
    """
    a = nisa.memset((64, 40), 2.5, nl.bfloat16)
    b = nl.empty_like(a, dtype=nl.float32)
    b[...] = nisa.tensor_copy(a, engine=nisa.scalar_engine)
    nl.store(out[0], nl.copy(b, dtype=nl.float32))
    nl.store(out[1], nl.zeros_like(b))
    nl.store(out[2], nl.add(nl.ones((64, 40), dtype=nl.float32), nl.full((64, 40), 3, nl.float32)))
    """,
    "(3, 64, 40)", list,
    lambda: np.stack([np.full((64, 40), v, F32) for v in (2.5, 0, 4)]), exact=True,
)  # fmt: skip
KERNELS[-1] = Kernel(
    **{**KERNELS[-1].__dict__, "calls": (*KERNELS[-1].calls, "nl.zeros_like", "nl.ones", "nl.full")}
)
add(
    "dma_copy", "nisa.dma_copy nisa.get_nc_version nisa.nc_version nisa.dge_mode",
    """
    assert nisa.get_nc_version() >= nisa.nc_version.gen2
    t = nl.ndarray((64, 40), dtype=nl.bfloat16)
    nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.none)
    nisa.dma_copy(dst=out, src=t)
    """,
    "x.shape", normal((64, 40)), lambda x: x.astype(BF16), dtype="nl.bfloat16", exact=True,
)  # fmt: skip
add(
    "views", "nl.expand_dims nl.broadcast_to nl.mgrid nl.par_dim nl.tile_size nl.gemm_grid "
    "nl.gemm_stationary_grid nl.sbuf nl.hbm nl.private_hbm nl.shared_hbm",
    """
    a = nl.load(x, dtype=nl.float32)
    b = nl.ndarray((2, nl.par_dim(nl.tile_size.pmax), 40), dtype=nl.float32, buffer=nl.sbuf)
    i_p, i_f = nl.mgrid[0:128, 0:40]
    b[0, i_p, i_f] = nl.copy(a)
    b[1] = nl.broadcast_to(a[0:1, :], shape=(128, 40))
    scratch = nl.ndarray((128, 40), dtype=nl.float32, buffer=nl.private_hbm)
    nl.store(scratch, nl.add(b[0], b[1]))
    g = nl.gemm_stationary_grid()
    assert nl.gemm_grid().x.shape[-1] == 512 and g.x.shape[-1] == 128
    nl.store(out, nl.expand_dims(nl.load(scratch), 2))
    """,
    "(128, 40, 1)", normal((128, 40)), lambda x: (x + x[:1])[..., None], exact=True,
)  # fmt: skip
add(
    "constants", "nl.shared_constant nl.shared_identity_matrix nl.static_cast nl.finfo nl.bfp16",
    """
    c = nl.load(nl.shared_constant(np.arange(12.0, dtype=np.float32).reshape(3, 4)))
    e = nl.load(nl.shared_identity_matrix(4, dtype=nl.float32))
    assert nl.finfo(nl.bfloat16).bits == 16 and nl.bfp16.min == -np.inf
    assert nl.static_cast(np.float32(1.5), nl.int32) == 1
    nl.store(out, c)
    nl.store(out1, e)
    """,
    ["(3, 4)", "(4, 4)"], list,
    lambda: (np.arange(12.0).reshape(3, 4), np.eye(4)), exact=True,
)  # fmt: skip
add(
    "spmd_names", "nl.program_ndim nl.num_programs nl.nc nl.spmd_dim nl.all_reduce nl.device_print",
    """
    assert nl.program_ndim() == 0 and nl.num_programs() == 1
    assert nl.nc(2) * 2 == 4 and nl.spmd_dim(2, nl.nc(2)).core_of(1) == 1
    a = nl.load(x)
    nl.device_print("a", a)
    nl.store(out, nl.all_reduce(a, np.add, program_axes=[]))
    """,
    "x.shape", normal((64, 40)), lambda x: x, exact=True,
)  # fmt: skip
add(
    "loop_kinds", "nl.affine_range nl.sequential_range nl.static_range nl.loop_reduce",
    """
    acc = nl.zeros((64, 10), dtype=nl.float32)
    for i in nl.sequential_range(4):
        acc[...] = nl.add(acc, nl.load(x[:, nl.ds(10 * i, 10)]))
    total = nl.zeros((64, 1), dtype=nl.float32)
    for j in nl.affine_range(2):
        part = nl.sum(nl.load(x[:, nl.ds(20 * j, 20)]), axis=1)
        total[...] = nl.loop_reduce(part, op=np.add, loop_indices=[j])
    nl.store(out, acc)
    nl.store(out1, total)
    """,
    ["(64, 10)", "(64, 1)"], normal((64, 40)),
    lambda x: (x.reshape(64, 4, 10).sum(1), x.sum(1, keepdims=True)), rtol=1e-5, atol=1e-5,
)  # fmt: skip
add(
    "gather_flattened_of_the_documentation", "nl.gather_flattened",
    "nl.store(out, nl.gather_flattened(data=nl.load(x), indices=nl.load(y)))", "(2, 2, 2)",
    lambda: [
        np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], F32),
        np.array([[[0, 1], [1, 3]], [[3, 3], [1, 0]]], np.uint32),
    ],
    lambda x, y: np.array([[[1, 2], [2, 4]], [[8, 8], [6, 5]]]), exact=True,
)  # fmt: skip
add(
    "atomic_rmw", "nl.atomic_rmw",
    """
    nl.store(out, 1.0)
    idx = nl.load(y)
    i_f = nl.arange(9)[None, :]
    nl.atomic_rmw(out[idx, i_f], nl.load(x), np.add)
    """,
    "(64, 9)",
    lambda: [*normal((32, 9))(), (np.arange(32, dtype=np.int32)[:, None] // 2 * 3)],
    lambda x, y: 1 + np.stack([x[y[:, 0] == row].sum(0) for row in range(64)]), rtol=1e-5,
)  # fmt: skip
