"""Integer arithmetic of the GpSimd engine and bit-wise operators of the vector engine.

Spec 1.14 and 5.2: VectorE and ScalarE compute in float32 whatever the element type; only GpSimdE
adds, subtracts and multiplies 32-bit integers natively (modulo 2**32), and bit-wise operators work
on raw bits. Shifts are logical.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics.values import Apply, Array, Operands, cast

IntegerFunction = Callable[[Array, Array], Array]


def _unsigned(x: Array) -> Array:
    return np.asarray(x).view(np.dtype(f"u{x.dtype.itemsize}"))


def _shift(function: Any) -> IntegerFunction:
    def apply(x: Array, amount: Array) -> Array:
        bits, by = _unsigned(x), _unsigned(amount)
        width = 8 * x.dtype.itemsize
        inside = by < width
        moved = function(bits, np.where(inside, by, 0).astype(bits.dtype))
        shifted: Array = np.where(inside, moved, 0).astype(bits.dtype).view(x.dtype)
        return shifted

    return apply


BITWISE_FUNCTIONS: MappingProxyType[str, IntegerFunction] = MappingProxyType(
    {
        "bitwise_and": np.bitwise_and,
        "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor,
        "left_shift": _shift(np.left_shift),
        "right_shift": _shift(np.right_shift),
        "invert": lambda x, _: np.invert(x),
    }
)
INTEGER_FUNCTIONS: MappingProxyType[str, IntegerFunction] = MappingProxyType(
    dict(BITWISE_FUNCTIONS) | {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
)
BITWISE_REDUCE: MappingProxyType[str, tuple[Any, int]] = MappingProxyType(
    {
        "bitwise_and": (np.bitwise_and, -1),
        "bitwise_or": (np.bitwise_or, 0),
        "bitwise_xor": (np.bitwise_xor, 0),
    }
)
"""Operator -> ufunc and identity, whose bits are repeated to the width of the type."""


def is_integer(attrs: dict[str, Any]) -> bool:
    """Whether an arithmetic instruction works on integers rather than on float32."""
    name = attrs.get("op", attrs.get("op0"))
    return attrs.get("integer") is True or name in BITWISE_FUNCTIONS


def _work_type(attrs: dict[str, Any], operands: Operands) -> np.dtype[Any]:
    """Bit-wise operators work in the result's type, integer arithmetic in that of the operands."""
    if attrs.get("integer") is not True:
        result: np.dtype[Any] = operands["dst"].dtype
        return result
    arrays = [v for role, v in operands.items() if role.startswith("data")]
    unsigned = all(a.dtype.kind == "u" for a in arrays)
    word: np.dtype[Any] = np.dtype(np.uint32 if unsigned else np.int32)
    return word


def _operand(value: Any, dtype: np.dtype[Any], rank: int, *, column: bool) -> Array:
    if not isinstance(value, np.ndarray):
        bits = int(value) & ((1 << (8 * dtype.itemsize)) - 1)
        return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)
    array = value.astype(dtype)
    return array.reshape(array.shape[0], *(1,) * (rank - 1)) if column else array


def deliver_integers(result: Array, dst: Array, where: Array | None) -> None:
    """Write an integer result: saturated to a narrower integer type, rounded to a float one."""
    if result.dtype != dst.dtype:
        result = cast(result, dst.dtype) if dst.dtype.kind in "iu" else result.astype(dst.dtype)
    np.copyto(dst, result, where=True if where is None else where)


def integer_tensor_tensor(attrs: dict[str, Any]) -> Apply:
    """`tensor_tensor` on integers."""
    function = INTEGER_FUNCTIONS[attrs["op"]]

    def apply(operands: Operands, where: Array | None) -> None:
        dst, dtype = operands["dst"], _work_type(attrs, operands)
        x = _operand(operands["data1"], dtype, dst.ndim, column=False)
        y = _operand(operands["data2"], dtype, dst.ndim, column=False)
        deliver_integers(function(x, y), dst, where)

    return apply


def integer_tensor_scalar(attrs: dict[str, Any]) -> Apply:
    """`tensor_scalar` on integers, with one or two operators."""

    def apply(operands: Operands, where: Array | None) -> None:
        dst, dtype = operands["dst"], _work_type(attrs, operands)
        value = _operand(operands["data"], dtype, dst.ndim, column=False)
        for stage in (0, 1):
            if f"op{stage}" not in attrs:
                continue
            function = INTEGER_FUNCTIONS[attrs[f"op{stage}"]]
            other = _operand(operands[f"operand{stage}"], dtype, dst.ndim, column=True)
            other = np.broadcast_to(other, value.shape)
            reverse = attrs.get(f"reverse{stage}")
            value = function(other, value) if reverse else function(value, other)
        deliver_integers(value, dst, where)

    return apply


def bitwise_reduce(name: str, data: Array, axes: tuple[int, ...], where: Array | None) -> Array:
    """Bit-wise reduction over some axes; masked-out lanes do not count."""
    function, identity = BITWISE_REDUCE[name]
    if where is not None:
        neutral = np.array(identity, dtype=f"i{data.dtype.itemsize}").view(data.dtype)
        data = np.where(where, data, neutral)
    for axis in sorted(axes, reverse=True):
        data = function.reduce(data, axis=axis)
    return data
