"""Instructions of the GpSimd engine and the transposing DMA (spec 3.4, 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics.functions import REDUCE_FUNCTIONS, REDUCE_IDENTITY
from accelopt_simulator.numerics.rules_integer import (
    BITWISE_REDUCE,
    bitwise_reduce,
    deliver_integers,
)
from accelopt_simulator.numerics.values import F32, Apply, Array, Operands, as_f32, cast, deliver

PARTITIONS_PER_CORE = 16


def _iota(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> None:
        deliver_integers(operands["expr"], operands["dst"], where)

    return apply


def _affine_select(attrs: dict[str, Any]) -> Apply:
    compare = {"ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}[attrs["compare"]]

    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = operands["data"], operands["dst"]
        other = cast(np.asarray(operands["on_false"], F32), dst.dtype)
        data = data if data.dtype == dst.dtype else cast(as_f32(data), dst.dtype)
        result = np.where(compare(operands["expr"], 0), data, other)
        np.copyto(dst, result, where=True if where is None else where)

    return apply


def _tensor_partition_reduce(attrs: dict[str, Any]) -> Apply:
    name = attrs["op"]

    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = operands["data"], operands["dst"]
        lanes = None if where is None else np.asarray(where.any(axis=0))[None]
        if name in BITWISE_REDUCE:
            result = bitwise_reduce(name, data, (0,), where)[None]
            deliver_integers(result, dst, lanes)
            return
        values = as_f32(data)
        if where is not None:
            values = np.where(where, values, np.float32(REDUCE_IDENTITY[name]))
        result = REDUCE_FUNCTIONS[name].reduce(values, axis=0, dtype=F32)[None]
        deliver(result, dst, lanes)

    return apply


def _sequence_bounds(attrs: dict[str, Any]) -> Apply:
    """Start and exclusive end of the run that each element belongs to; (n, -1) for padding."""

    def apply(operands: Operands, where: Array | None) -> None:
        ids, dst = operands["data"], operands["dst"]
        row = ids.reshape(-1)
        n = len(row)
        changes = np.flatnonzero(row[1:] != row[:-1]) + 1
        starts, ends = np.append(0, changes), np.append(changes, n)
        run = np.repeat(np.arange(len(starts)), ends - starts)
        padding = row == 0
        bounds = np.stack(
            [np.where(padding, n, starts[run]), np.where(padding, -1, ends[run])]
        ).astype(np.int32)
        deliver_integers(bounds.reshape(dst.shape), dst, where)

    return apply


def _undefined(dtype: np.dtype[Any]) -> Any:
    return 0 if dtype.kind in "iu" else np.nan


def _local_gather(attrs: dict[str, Any]) -> Apply:
    """Each core gathers for its 16 partitions, with the indices of all of them in column order."""
    elements, valid = attrs["elements"], attrs["valid"]

    def apply(operands: Operands, where: Array | None) -> str | None:
        src, indices, dst = operands["src"], operands["indices"], operands["dst"]
        rows = src.shape[0]
        flat, numbers = src.reshape(rows, -1), indices.reshape(rows, -1)
        out = np.empty((rows, valid * elements), dst.dtype)
        outside = False
        for low in range(0, rows, PARTITIONS_PER_CORE):
            core = slice(low, low + PARTITIONS_PER_CORE)
            starts = numbers[core].reshape(PARTITIONS_PER_CORE, -1).ravel(order="F")[:valid]
            places = (starts.astype(np.int64)[:, None] + np.arange(elements)).ravel()
            bad = places >= flat.shape[1]
            out[core] = flat[core][:, np.where(bad, 0, places)]
            out[core][:, bad] = _undefined(dst.dtype)
            outside |= bool(bad.any())
        dst[...] = out.reshape(dst.shape)
        return "gather_out_of_range" if outside else None

    return apply


def _gather_flattened(attrs: dict[str, Any]) -> Apply:
    def apply(operands: Operands, where: Array | None) -> str | None:
        data, indices, dst = operands["data"], operands["indices"], operands["dst"]
        rows = data.shape[0]
        flat = data.reshape(rows, -1)
        numbers = indices.reshape(rows, -1).astype(np.int64)
        bad = (numbers < 0) | (numbers >= flat.shape[1])
        out = np.take_along_axis(flat, np.where(bad, 0, numbers), axis=1)
        out[bad] = _undefined(flat.dtype)
        out = out if out.dtype == dst.dtype else cast(as_f32(out), dst.dtype)
        np.copyto(dst, out.reshape(dst.shape), where=True if where is None else where)
        counted = bad.reshape(dst.shape) if where is None else bad.reshape(dst.shape) & where
        return "gather_out_of_range" if counted.any() else None

    return apply


def _dma_transpose(attrs: dict[str, Any]) -> Apply:
    axes = tuple(attrs["axes"])

    def apply(operands: Operands, where: Array | None) -> None:
        src, dst = operands["src"].transpose(axes), operands["dst"]
        src = src if src.dtype == dst.dtype else cast(as_f32(src), dst.dtype)
        np.copyto(dst, src, where=True if where is None else where)

    return apply


RULES: MappingProxyType[str, Callable[[dict[str, Any]], Apply]] = MappingProxyType(
    {
        "iota": _iota,
        "affine_select": _affine_select,
        "tensor_partition_reduce": _tensor_partition_reduce,
        "sequence_bounds": _sequence_bounds,
        "local_gather": _local_gather,
        "gather_flattened": _gather_flattened,
        "dma_transpose": _dma_transpose,
    }
)
