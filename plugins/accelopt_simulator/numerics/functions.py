"""Numeric definitions of activation functions and ALU operators, in float32 (spec 5.1, 5.2).

Each function takes float32 arrays and an output array and writes its result there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Unary = Callable[[Floats, Floats], None]
Binary = Callable[[Any, Any, Floats], None]

_SQRT_HALF = np.float32(0.7071067811865476)
_INV_SQRT_2PI = np.float32(0.3989422804014327)
_TWO_OVER_SQRT_PI = np.float32(1.1283791670955126)


def _sigmoid(x: Floats, out: Floats) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += np.float32(1)
    np.reciprocal(out, out=out)


def _silu(x: Floats, out: Floats) -> None:
    gate = np.empty_like(out)
    _sigmoid(x, gate)
    np.multiply(x, gate, out=out)


def _silu_dx(x: Floats, out: Floats) -> None:
    s = np.empty_like(out)
    _sigmoid(x, s)
    np.subtract(np.float32(1), s, out=out)
    out *= x
    out += np.float32(1)
    out *= s


def _softplus(x: Floats, out: Floats) -> None:
    np.logaddexp(x, np.float32(0), out=out)


def _mish(x: Floats, out: Floats) -> None:
    gate = np.empty_like(out)
    _softplus(x, gate)
    np.tanh(gate, out=gate)
    np.multiply(x, gate, out=out)


def _erf(x: Floats, out: Floats) -> None:
    # Here, as few kernels need it and every judge would wait for it: a quarter of its start.
    from scipy.special import erf

    erf(x, out=out)


def _gelu(x: Floats, out: Floats) -> None:
    half = np.multiply(x, np.float32(0.5))
    np.multiply(x, _SQRT_HALF, out=out)
    _erf(out, out)
    out += np.float32(1)
    out *= half


def _gelu_dx(x: Floats, out: Floats) -> None:
    density = np.exp(np.square(x) * np.float32(-0.5)) * _INV_SQRT_2PI
    cumulative = np.empty_like(out)
    _erf(x * _SQRT_HALF, cumulative)
    cumulative += np.float32(1)
    cumulative *= np.float32(0.5)
    np.add(cumulative, x * density, out=out)


def _gelu_tanh(x: Floats, out: Floats) -> None:
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    np.multiply(np.float32(0.5) * x, np.float32(1) + np.tanh(inner), out=out)


def _gelu_sigmoid(x: Floats, out: Floats) -> None:
    gate = np.empty_like(out)
    _sigmoid(x * np.float32(1.702), gate)
    np.multiply(x, gate, out=out)


def _erf_dx(x: Floats, out: Floats) -> None:
    np.multiply(np.exp(-np.square(x)), _TWO_OVER_SQRT_PI, out=out)


def _rsqrt(x: Floats, out: Floats) -> None:
    np.sqrt(x, out=out)
    np.reciprocal(out, out=out)


def _copy(x: Floats, out: Floats) -> None:
    np.copyto(out, x)


def _relu(x: Floats, out: Floats) -> None:
    np.maximum(x, np.float32(0), out=out)


def _ufunc(function: Any) -> Unary:
    def apply(x: Floats, out: Floats) -> None:
        function(x, out=out)

    return apply


ACTIVATION_FUNCTIONS: MappingProxyType[str, Unary] = MappingProxyType(
    {
        "copy": _copy,
        "square": _ufunc(np.square),
        "sigmoid": _sigmoid,
        "relu": _relu,
        "gelu": _gelu,
        "gelu_dx": _gelu_dx,
        "gelu_apprx_tanh": _gelu_tanh,
        "gelu_apprx_sigmoid": _gelu_sigmoid,
        "silu": _silu,
        "silu_dx": _silu_dx,
        "tanh": _ufunc(np.tanh),
        "softplus": _softplus,
        "mish": _mish,
        "erf": _erf,
        "erf_dx": _erf_dx,
        "exp": _ufunc(np.exp),
        "log": _ufunc(np.log),
        "sin": _ufunc(np.sin),
        "arctan": _ufunc(np.arctan),
        "sqrt": _ufunc(np.sqrt),
        "rsqrt": _rsqrt,
        "reciprocal": _ufunc(np.reciprocal),
        "sign": _ufunc(np.sign),
        "abs": _ufunc(np.abs),
    }
)

VALID_RANGE: MappingProxyType[str, tuple[float, float]] = MappingProxyType(
    {
        "log": (2.0**-64, 2.0**64),
        "sin": (-float(np.float32(np.pi)), float(np.float32(np.pi))),
        "arctan": (-float(np.float32(np.pi / 2)), float(np.float32(np.pi / 2))),
        "sqrt": (2.0**-116, 2.0**118),
        "rsqrt": (2.0**-87, 2.0**97),
    }
)
"""Input range of an activation after scale and bias; results outside of it are invalid."""

RECIPROCAL_MAGNITUDE = (2.0**-42, 2.0**42)


def outside_range(op: str, x: Floats) -> NDArray[np.bool_] | None:
    """Where an activation's input is out of its valid range; None when it nowhere is."""
    if op == "reciprocal":
        magnitude = np.abs(x)
        low, high = RECIPROCAL_MAGNITUDE
        bad = ~((magnitude >= low) & (magnitude <= high))
    elif op in VALID_RANGE:
        low, high = VALID_RANGE[op]
        if x.size and x.min() >= low and x.max() <= high:
            return None
        bad = ~((x >= low) & (x <= high))
    else:
        return None
    return bad if bad.any() else None


def _logical(function: Any) -> Binary:
    def apply(x: Any, y: Any, out: Floats) -> None:
        out[...] = function(np.not_equal(x, 0), np.not_equal(y, 0))

    return apply


def _compare(function: Any) -> Binary:
    def apply(x: Any, y: Any, out: Floats) -> None:
        out[...] = function(x, y)

    return apply


def _arithmetic(function: Any) -> Binary:
    def apply(x: Any, y: Any, out: Floats) -> None:
        function(x, y, out=out)

    return apply


BINARY_FUNCTIONS: MappingProxyType[str, Binary] = MappingProxyType(
    {
        "add": _arithmetic(np.add),
        "subtract": _arithmetic(np.subtract),
        "multiply": _arithmetic(np.multiply),
        "maximum": _arithmetic(np.maximum),
        "minimum": _arithmetic(np.minimum),
        "power": _arithmetic(np.power),
        "mod": _arithmetic(np.mod),
        "fmod": _arithmetic(np.fmod),
        "equal": _compare(np.equal),
        "not_equal": _compare(np.not_equal),
        "greater_equal": _compare(np.greater_equal),
        "greater": _compare(np.greater),
        "less_equal": _compare(np.less_equal),
        "less": _compare(np.less),
        "logical_and": _logical(np.logical_and),
        "logical_or": _logical(np.logical_or),
        "logical_xor": _logical(np.logical_xor),
    }
)


def _logical_not(x: Floats, out: Floats) -> None:
    out[...] = np.equal(x, 0)


UNARY_FUNCTIONS: MappingProxyType[str, Unary] = MappingProxyType(
    {
        "rsqrt": _rsqrt,
        "reciprocal": _ufunc(np.reciprocal),
        "abs": _ufunc(np.abs),
        "logical_not": _logical_not,
        "floor": _ufunc(np.floor),
        "ceil": _ufunc(np.ceil),
        "trunc": _ufunc(np.trunc),
    }
)


class _LogicalReduce:
    """A logical operator as a reduction: 1.0 or 0.0 over elements that are zero or not."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def reduce(self, x: Floats, axis: Any, dtype: Any) -> Any:
        """Reduce over axes."""
        truth = np.not_equal(x, 0)
        for one in sorted(np.atleast_1d(axis), reverse=True):
            truth = self._function.reduce(truth, axis=int(one))
        return truth.astype(dtype)


REDUCE_FUNCTIONS: MappingProxyType[str, Any] = MappingProxyType(
    {
        "add": np.add,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "logical_and": _LogicalReduce(np.logical_and),
        "logical_or": _LogicalReduce(np.logical_or),
        "logical_xor": _LogicalReduce(np.logical_xor),
    }
)
REDUCE_IDENTITY: MappingProxyType[str, float] = MappingProxyType(
    {
        "add": 0.0,
        "multiply": 1.0,
        "maximum": -np.inf,
        "minimum": np.inf,
        "logical_and": 1.0,
        "logical_or": 0.0,
        "logical_xor": 0.0,
    }
)
