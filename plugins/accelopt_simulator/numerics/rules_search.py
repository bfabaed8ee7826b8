"""Searches along the free axes on the vector engine: eight values at a time (spec 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics.values import Apply, Array, Operands, as_f32, deliver


def _rows(operands: Operands, where: Array | None) -> tuple[Array, Array, Array]:
    """Data, which of it counts, and its flattened position, one row per partition."""
    data = as_f32(operands["data"])
    rows = data.shape[0]
    keep = np.broadcast_to(True if where is None else where, data.shape).reshape(rows, -1)
    flat = data.reshape(rows, -1)
    position = operands.get("expr")
    where_in_tile = (
        np.broadcast_to(np.arange(flat.shape[1]), flat.shape)
        if position is None
        else position.reshape(rows, -1)
    )
    return flat, keep, where_in_tile


def _max8(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        data, keep, _ = _rows(operands, where)
        ranked = np.sort(np.where(keep, data, -np.inf), axis=1)[:, ::-1]
        best = np.full((len(data), 8), -np.inf, np.float32)
        best[:, : ranked.shape[1]] = ranked[:, :8]
        deliver(best.reshape(operands["dst"].shape), operands["dst"], None)

    return apply


def _nc_find_index8(attrs: dict[str, Any]) -> Apply:
    """First position of each value. The result for an absent value is undefined: all ones here."""

    def apply(operands: Operands, where: Array | None) -> None:
        data, keep, position = _rows(operands, where)
        dst = operands["dst"]
        vals = as_f32(operands["vals"]).reshape(len(data), -1)
        found = np.empty(vals.shape, dst.dtype)
        for j in range(vals.shape[1]):
            equal = (data == vals[:, j, None]) & keep
            first = np.take_along_axis(position, equal.argmax(axis=1)[:, None], axis=1)[:, 0]
            found[:, j] = np.where(equal.any(axis=1), first, np.iinfo(dst.dtype).max)
        dst[...] = found.reshape(dst.shape)

    return apply


def _nc_match_replace8(attrs: dict[str, Any]) -> Apply:
    """In turn, the first match of each value, in the row as it is by then, is replaced."""

    def apply(operands: Operands, where: Array | None) -> None:
        data, keep, position = _rows(operands, where)
        dst = operands["dst"]
        row, every = data.copy(), np.arange(len(data))
        imm = np.float32(operands["imm"])
        vals = as_f32(operands["vals"]).reshape(len(data), -1)
        found = np.zeros(vals.shape, np.int64)
        for j in range(vals.shape[1]):
            equal = (row == vals[:, j, None]) & keep
            any_match, first = equal.any(axis=1), equal.argmax(axis=1)
            row[every[any_match], first[any_match]] = imm
            found[:, j] = np.where(any_match, position[every, first], 0)
        deliver(row.reshape(dst.shape), dst, where)
        if "reduce_res_idx" in operands:
            target = operands["reduce_res_idx"]
            target[...] = found.reshape(target.shape)

    return apply


RULES: MappingProxyType[str, Callable[[dict[str, Any]], Apply]] = MappingProxyType(
    {"max8": _max8, "nc_find_index8": _nc_find_index8, "nc_match_replace8": _nc_match_replace8}
)
