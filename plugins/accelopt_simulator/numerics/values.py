"""What numeric rules are made of: operands as float32, casts, and masked delivery.

Vector and scalar engines compute in float32 and cast to the destination's type at no cost
(spec 1.14).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.numerics.functions import (
    BINARY_FUNCTIONS,
    REDUCE_FUNCTIONS,
    REDUCE_IDENTITY,
    UNARY_FUNCTIONS,
)

Array = NDArray[Any]
Operands = dict[str, Any]
Apply = Callable[[Operands, Array | None], str | None]
"""Runs one instance; returns the name of a numeric hazard it met, or None."""

F32 = np.dtype(np.float32)


def as_f32(value: Any) -> Any:
    """An operand as float32: a view when it already is, a converted copy when not."""
    if isinstance(value, np.ndarray):
        return value if value.dtype == F32 else value.astype(F32)
    return np.float32(value)


def cast(result: Array, dtype: np.dtype[Any]) -> Array:
    """A result in another type: floats round to nearest even; integers also saturate, NaN is 0."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        # In float64, which states every integer limit exactly.
        clipped = np.clip(np.rint(result.astype(np.float64)), info.min, info.max)
        whole: Array = np.nan_to_num(clipped, nan=0.0).astype(dtype)
        return whole
    return result if result.dtype == dtype else result.astype(dtype)


def column(value: Any, rank: int) -> Any:
    """A `(P, 1)` operand as float32, shaped to broadcast over the free axes of a grid."""
    number = as_f32(value)
    if isinstance(number, np.ndarray):
        return number.reshape(number.shape[0], *(1,) * (rank - 1))
    return number


def deliver(result: Array, dst: Array, where: Array | None) -> None:
    """Write a float32 result to its destination: cast, and merge under a mask."""
    result = cast(result, dst.dtype)
    if where is None:
        dst[...] = result
    else:
        np.copyto(dst, result, where=where)


def target_for(dst: Array, where: Array | None) -> tuple[Array, bool]:
    """Where to compute: the destination itself when nothing stands in between."""
    if where is None and dst.dtype == F32:
        return dst, True
    return np.empty(dst.shape, F32), False


def elementwise(function: Callable[[Operands, Array], str | None]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> str | None:
        dst = operands["dst"]
        out, direct = target_for(dst, where)
        hazard = function(operands, out)
        if not direct:
            deliver(out, dst, where)
        return hazard

    return apply


def chain(attrs: dict[str, Any], index: int) -> Callable[[Any, Any, Array], None]:
    """`data op operand` of a tensor_scalar stage, operand order and unary operators included."""
    name = attrs[f"op{index}"]
    if name in UNARY_FUNCTIONS:
        unary = UNARY_FUNCTIONS[name]
        return lambda data, operand, out: unary(data, out)
    function = BINARY_FUNCTIONS[name]
    if attrs.get(f"reverse{index}"):
        return lambda data, operand, out: function(operand, data, out)
    return lambda data, operand, out: function(data, operand, out)


def reduce_into(result: Array, name: str, target: Array, where: Array | None) -> None:
    """Reduce all free axes of `result` into a `(P, 1)` target; masked-out lanes do not count."""
    if where is not None:
        result = np.where(where, result, np.float32(REDUCE_IDENTITY[name]))
    axes = tuple(range(1, result.ndim))
    total = REDUCE_FUNCTIONS[name].reduce(result, axis=axes, dtype=F32)
    rows = None if where is None else np.asarray(where.any(axis=axes)).reshape(target.shape)
    deliver(total.reshape(target.shape), target, rows)


def accumulate(
    operands: Operands, attrs: dict[str, Any], values: Array, where: Array | None
) -> None:
    """The accumulator registers behind `reduce_cmd` (spec 3.2, 3.3): one per partition, float32.

    `reset` sets them to the identity first, `reduce` then takes the row's values in; `reduce_res`
    receives their contents. Without a command in the attributes an instruction resets and reduces.
    """
    name, command = attrs.get("reduce_op", "add"), attrs.get("reduce_cmd", "reset_reduce")
    targets = [operands[role] for role in ("reduce_res", "reduce_res_acc") if role in operands]
    if not targets:
        return
    axes = tuple(range(1, values.ndim))
    if where is not None:
        values = np.where(where, values, np.float32(REDUCE_IDENTITY[name]))
    total = np.full(values.shape[0], REDUCE_IDENTITY[name], F32)
    if "acc" in operands and not command.startswith("reset"):
        total[:] = as_f32(operands["acc"]).reshape(-1)
    if command.endswith("reduce"):
        row = REDUCE_FUNCTIONS[name].reduce(values, axis=axes, dtype=F32)
        BINARY_FUNCTIONS[name](total, row, total)
    rows = None if where is None else np.asarray(where.any(axis=axes)).reshape(-1, 1)
    for target in targets:
        deliver(total.reshape(target.shape), target, rows)
