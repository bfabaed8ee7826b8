"""Selections and permutations of the vector engine (spec 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics.functions import BINARY_FUNCTIONS
from accelopt_simulator.numerics.values import (
    F32,
    Apply,
    Array,
    Operands,
    accumulate,
    as_f32,
    cast,
    column,
    deliver,
)

KEEP = 255
"""Entry of a shuffle mask that leaves the destination's row alone."""


def _chosen(operands: Operands, attrs: dict[str, Any]) -> Array:
    predicate: Array = operands["predicate"] != 0
    return ~predicate if attrs.get("reverse_pred") else predicate


def _tensor_copy_predicated(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        src, dst, old = operands["src"], operands["dst"], operands["old"]
        chosen = _chosen(operands, attrs)
        if not isinstance(src, np.ndarray):
            src = cast(np.asarray(src, dtype=np.float64), dst.dtype)
        elif src.dtype != dst.dtype:
            src = cast(as_f32(src), dst.dtype)
        result = np.where(chosen, src, old)
        np.copyto(dst, result, where=True if where is None else where)

    return apply


def _select_reduce(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        chosen = _chosen(operands, attrs)
        on_false = column(operands["on_false"], dst.ndim)
        result = np.where(chosen, as_f32(operands["on_true"]), on_false)
        accumulate(operands, attrs, result, where)
        deliver(result, dst, where)

    return apply


def _range_select(attrs: dict[str, Any]) -> Apply:
    first, second = BINARY_FUNCTIONS[attrs["comp_op0"]], BINARY_FUNCTIONS[attrs["comp_op1"]]
    lowest = np.finfo(F32).min

    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        position = as_f32(operands["expr"])
        inside, also = np.empty(dst.shape, F32), np.empty(dst.shape, F32)
        first(position, column(operands["bound0"], dst.ndim), inside)
        second(position, column(operands["bound1"], dst.ndim), also)
        result = np.where((inside != 0) & (also != 0), as_f32(operands["data"]), lowest)
        accumulate(operands, attrs, result, where)
        deliver(result, dst, where)

    return apply


def _nc_stream_shuffle(attrs: dict[str, Any]) -> Apply:
    """Rows change places inside each quadrant of 32 partitions."""
    shuffle = np.array(attrs["shuffle"])

    def apply(operands: Operands, where: Array | None) -> None:
        src, dst, old = operands["src"], operands["dst"], operands["old"]
        if "expr" in operands:  # absolute row numbers, when a mask cuts a window
            rows = operands["expr"].reshape(dst.shape[0], -1)[:, 0]
        else:
            rows = np.arange(dst.shape[0])
        picked = shuffle[rows % 32]
        moves = picked != KEEP
        source = np.where(moves, rows // 32 * 32 + picked, 0)
        moves = moves.reshape(-1, *(1,) * (dst.ndim - 1))
        result = np.where(moves, src[source], old)
        np.copyto(dst, result, where=True if where is None else where)

    return apply


RULES: MappingProxyType[str, Callable[[dict[str, Any]], Apply]] = MappingProxyType(
    {
        "tensor_copy_predicated": _tensor_copy_predicated,
        "select_reduce": _select_reduce,
        "range_select": _range_select,
        "nc_stream_shuffle": _nc_stream_shuffle,
    }
)
