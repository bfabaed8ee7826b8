"""One numeric rule per instruction: what it computes on NumPy views.

A rule is `rule(attrs) -> function(**operands)`. Operands are views by role, in their storage type;
`where` is a Boolean grid of lanes to write, or None for all. The rules here are those of the
arithmetic instructions; `rules_*` hold the other families.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics import (
    rules_gpsimd,
    rules_random,
    rules_search,
    rules_select,
    rules_stats,
)
from accelopt_simulator.numerics.functions import (
    ACTIVATION_FUNCTIONS,
    BINARY_FUNCTIONS,
    REDUCE_FUNCTIONS,
    REDUCE_IDENTITY,
    outside_range,
)
from accelopt_simulator.numerics.rules_integer import (
    BITWISE_REDUCE,
    bitwise_reduce,
    deliver_integers,
    integer_tensor_scalar,
    integer_tensor_tensor,
    is_integer,
)
from accelopt_simulator.numerics.scan import scan
from accelopt_simulator.numerics.values import (
    F32,
    Apply,
    Array,
    Operands,
    accumulate,
    as_f32,
    cast,
    chain,
    column,
    deliver,
    elementwise,
    reduce_into,
    target_for,
)

__all__ = ["RULES", "as_f32", "cast", "column", "deliver", "rounded"]


def rounded(apply: Apply, roles: tuple[str, ...]) -> Apply:
    """Round results to tfloat32 afterwards: float32 with 10 mantissa bits, to nearest even."""

    def run(operands: Operands, where: Array | None) -> str | None:
        hazard = apply(operands, where)
        for role in roles:
            value = operands[role]
            bits = np.ascontiguousarray(value).view(np.uint32)
            even = bits + (np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)))
            kept = (even & np.uint32(0xFFFFE000)).view(np.float32)
            np.copyto(value, kept, where=np.isfinite(value))
        return hazard

    return run


def _tensor_tensor(attrs: dict[str, Any]) -> Apply:
    if is_integer(attrs):
        return integer_tensor_tensor(attrs)
    function = BINARY_FUNCTIONS[attrs["op"]]

    def compute(operands: Operands, out: Array) -> None:
        function(as_f32(operands["data1"]), as_f32(operands["data2"]), out)

    return elementwise(compute)


def _tensor_scalar(attrs: dict[str, Any]) -> Apply:
    if is_integer(attrs):
        return integer_tensor_scalar(attrs)
    first = chain(attrs, 0)
    second = chain(attrs, 1) if "op1" in attrs else None
    reduce_op = attrs.get("reduce_op", "add")

    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        out, direct = target_for(dst, where)
        # `out` may be an input of the second stage's operand: read it before it is overwritten.
        operand1 = column(operands.get("operand1", 0.0), dst.ndim)
        if second is not None and isinstance(operand1, np.ndarray):
            operand1 = operand1.copy()
        first(as_f32(operands["data"]), column(operands["operand0"], dst.ndim), out)
        if second is not None:
            second(out, operand1, out)
        if "reduce_res" in operands:
            reduce_into(out, reduce_op, operands["reduce_res"], where)
        if not direct:
            deliver(out, dst, where)

    return apply


def _scalar_tensor_tensor(attrs: dict[str, Any]) -> Apply:
    first, second = chain(attrs, 0), chain(attrs, 1)

    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        middle = np.empty(dst.shape, F32)
        first(as_f32(operands["data"]), column(operands["operand0"], dst.ndim), middle)
        out, direct = target_for(dst, where)
        second(middle, as_f32(operands["operand1"]), out)
        if not direct:
            deliver(out, dst, where)

    return apply


def _activation(attrs: dict[str, Any]) -> Apply:
    name = attrs["op"]
    function = ACTIVATION_FUNCTIONS[name]

    def apply(operands: Operands, where: Array | None) -> str | None:
        data, dst = as_f32(operands["data"]), operands["dst"]
        scale, bias = operands.get("scale"), operands.get("bias")
        x = data
        if scale is not None:
            x = np.multiply(data, column(scale, data.ndim))
        if bias is not None:
            x = np.add(x, column(bias, data.ndim))
        bad = outside_range(name, x)
        out, direct = target_for(dst, where)
        if np.may_share_memory(out, x):
            out, direct = np.empty(dst.shape, F32), False
        function(x, out)
        hazard = None
        if bad is not None:
            out[bad] = np.nan
            if where is None or bool((bad & where).any()):
                hazard = f"activation_range:{name}"
        accumulate(operands, attrs, out, where)
        if not direct:
            deliver(out, dst, where)
        return hazard

    return apply


def _reciprocal(attrs: dict[str, Any]) -> Apply:
    def compute(operands: Operands, out: Array) -> None:
        np.reciprocal(as_f32(operands["data"]), out=out)

    return elementwise(compute)


def _copy(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        src, dst = operands["src"], operands["dst"]
        if src.dtype == dst.dtype:
            if where is None:
                dst[...] = src
            else:
                np.copyto(dst, src, where=where)
        else:
            deliver(as_f32(src), dst, where)

    return apply


def _memset(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        value = cast(np.asarray(operands["value"], dtype=np.float64), dst.dtype)
        np.copyto(dst, value, where=True if where is None else where)

    return apply


def _tensor_reduce(attrs: dict[str, Any]) -> Apply:
    name, axes = attrs["op"], tuple(attrs["axes"])
    if name in BITWISE_REDUCE:
        return _bitwise_tensor_reduce(name, axes)
    function, negate = REDUCE_FUNCTIONS[name], attrs.get("negate", False)

    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = as_f32(operands["data"]), operands["dst"]
        if where is not None:
            data = np.where(where, data, np.float32(REDUCE_IDENTITY[name]))
        result = function.reduce(data, axis=axes, dtype=F32)
        if negate:
            result = np.negative(result)
        rows = None if where is None else np.asarray(where.any(axis=axes)).reshape(dst.shape)
        deliver(result.reshape(dst.shape), dst, rows)

    return apply


def _bitwise_tensor_reduce(name: str, axes: tuple[int, ...]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = operands["data"], operands["dst"]
        result = bitwise_reduce(name, data, axes, where).reshape(dst.shape)
        rows = None if where is None else np.asarray(where.any(axis=axes)).reshape(dst.shape)
        deliver_integers(result, dst, rows)

    return apply


def _contracted(operands: Operands) -> Array | None:
    """Which contraction rows a masked matmul takes; None for all."""
    keep: Array | None = None
    for role, value in operands.items():
        if role.startswith("keep_"):
            compare = _KEEP_COMPARE[role[5:7]]
            holds = compare(value.reshape(-1), 0)
            keep = holds if keep is None else keep & holds
    return keep


_KEEP_COMPARE = {"ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}


def _matmul(attrs: dict[str, Any]) -> Apply:
    adds = attrs.get("accumulate") is True
    depth = 2 if "perf_mode" in attrs else 1

    def apply(operands: Operands, where: Array | None) -> None:
        stationary, moving = as_f32(operands["stationary"]), as_f32(operands["moving"])
        dst = operands["dst"]
        keep = _contracted(operands)
        if keep is not None:
            stationary, moving = stationary[keep], moving[keep]
        contracted = depth * stationary.shape[0]
        rows = stationary.reshape(contracted, -1).T if contracted else stationary.T
        columns = moving.reshape(contracted, -1) if contracted else moving
        product = np.matmul(rows, columns).reshape(dst.shape) if contracted else np.zeros_like(dst)
        if adds:
            np.add(dst, product, out=product)
        deliver(product, dst, where)

    return apply


def _transpose(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = operands["data"], operands["dst"]
        where = None if where is None else where.T
        if data.dtype == dst.dtype:
            np.copyto(dst, data.T, where=True if where is None else where)
        else:
            deliver(as_f32(data).T, dst, where)

    return apply


def _partition_broadcast(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        deliver(as_f32(operands["data"]), operands["dst"], where)

    return apply


def _scan(attrs: dict[str, Any]) -> Apply:
    first, second = chain(attrs, 0), chain(attrs, 1)

    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        rows = dst.shape[0]
        data0 = np.ascontiguousarray(as_f32(operands["data0"]).reshape(rows, -1).T)
        data1 = np.ascontiguousarray(as_f32(operands["data1"]).reshape(rows, -1).T)
        initial = np.broadcast_to(as_f32(operands["initial"]), (rows, 1)).reshape(rows)
        keep = None if where is None else np.broadcast_to(where, dst.shape).reshape(rows, -1).T
        out = scan(data0, data1, initial, first, second, attrs, keep)
        deliver(out.T.reshape(dst.shape), dst, where)

    return apply


RULES: MappingProxyType[str, Callable[[dict[str, Any]], Apply]] = MappingProxyType(
    {
        "dma_copy": _copy,
        "nc_matmul": _matmul,
        "nc_transpose": _transpose,
        "partition_broadcast": _partition_broadcast,
        "activation": _activation,
        "tensor_tensor": _tensor_tensor,
        "tensor_scalar": _tensor_scalar,
        "scalar_tensor_tensor": _scalar_tensor_tensor,
        "tensor_tensor_scan": _scan,
        "tensor_reduce": _tensor_reduce,
        "tensor_copy": _copy,
        "tensor_copy_dynamic": _copy,
        "reciprocal": _reciprocal,
        "memset": _memset,
        **rules_stats.RULES,
        **rules_select.RULES,
        **rules_search.RULES,
        **rules_gpsimd.RULES,
        **rules_random.RULES,
    }
)
"""Opcode -> rule. An opcode of the instruction table without a row here is `unsupported_op`."""
