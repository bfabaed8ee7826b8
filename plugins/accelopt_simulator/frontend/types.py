"""Element types as kernel code sees them, and the other small value objects of `nki.language`."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelopt_simulator.dtypes import DTYPES, code_of
from accelopt_simulator.frontend.entry_points import plain
from accelopt_simulator.frontend.faults import KernelFault


class NkiType:
    """An element type; compares equal to its NumPy counterpart and is accepted by `np.dtype`."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.name = DTYPES[code].name
        self.itemsize = DTYPES[code].itemsize

    @property
    def dtype(self) -> Any:
        """The NumPy type; its presence lets `np.dtype` accept this object."""
        return DTYPES[self.code].storage

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NkiType):
            return self.code == other.code
        try:
            return code_of(other) == self.code
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


TYPE_BY_CODE = tuple(NkiType(code) for code in range(len(DTYPES)))
TYPE_BY_NAME = {t.name: t for t in TYPE_BY_CODE}


def code_of_type(dtype: Any) -> int:
    """Type code of whatever a kernel passes as `dtype=`.

    Raises:
        KernelFault: NKI has no such type.
    """
    if isinstance(dtype, NkiType):
        return dtype.code
    try:
        return code_of(dtype)
    except TypeError:
        raise KernelFault(
            "unsupported_dtype",
            f"NKI has no element type {dtype!r}",
            hint="64-bit types do not exist; use nl.float32 or nl.int32",
        ) from None


def scalar_value(value: Any) -> float | None:
    """A compile-time number, or None when `value` is not one."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return float(value)
    return None


class ParDim(int):
    """`nl.par_dim(n)`: the integer n, marked as the partition dimension."""


class TileSize:
    """`nl.tile_size`; NeuronCore-v2 limits (spec 1.6)."""

    pmax = 128
    psum_fmax = 512
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1
    total_available_sbuf_size = (192 - 16) * 1024


class Fp32:
    """`nl.fp32`."""

    min = float(np.finfo(np.float32).min)


class OpFunction:
    """An NKI function that is both callable and a token for `op=` arguments."""

    def __init__(self, name: str, function: Any) -> None:
        self.op_name = name
        self._function = function
        self.__name__ = name
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})

    def __repr__(self) -> str:
        return f"nl.{self.op_name}"


_NUMPY_OPS: dict[Any, str] = {
    np.add: "add", np.sum: "add", np.subtract: "subtract", np.multiply: "multiply",
    np.prod: "multiply", np.power: "power", np.maximum: "maximum", np.max: "maximum",
    np.amax: "maximum", np.minimum: "minimum", np.min: "minimum", np.amin: "minimum",
    np.equal: "equal", np.not_equal: "not_equal", np.greater: "greater",
    np.greater_equal: "greater_equal", np.less: "less", np.less_equal: "less_equal",
    np.logical_and: "logical_and", np.logical_or: "logical_or", np.logical_xor: "logical_xor",
    np.logical_not: "logical_not", np.bitwise_and: "bitwise_and", np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor", np.invert: "invert", np.left_shift: "left_shift",
    np.right_shift: "right_shift", np.exp: "exp", np.log: "log", np.sqrt: "sqrt",
    np.square: "square", np.tanh: "tanh", np.sin: "sin", np.arctan: "arctan", np.sign: "sign",
    np.absolute: "abs", np.reciprocal: "reciprocal", np.copy: "copy",
}  # fmt: skip

# Reduction spellings of nl functions (spec 5.3).
_ALIASES = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}


def op_name(op: Any) -> str:
    """Canonical name of an operator token (an `nl` function or the NumPy function of that name).

    Raises:
        KernelFault: it is neither.
    """
    if isinstance(op, OpFunction):
        return _ALIASES.get(op.op_name, op.op_name)
    try:
        return _NUMPY_OPS[op]
    except (KeyError, TypeError):
        raise KernelFault(
            "unsupported_operator",
            f"{getattr(op, '__name__', op)!r} is not an operator of NKI",
            hint="pass an nl function such as nl.add, or the NumPy function of the same name",
        ) from None
