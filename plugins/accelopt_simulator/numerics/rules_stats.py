"""Statistics of the vector engine: `bn_stats`, `bn_aggr` (spec 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics.values import F32, Apply, Array, Operands, as_f32, deliver


def _bn_stats(attrs: dict[str, Any]) -> Apply:
    """(count, mean, count x variance) of the even and of the odd elements of each partition."""

    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = as_f32(operands["data"]), operands["dst"]
        rows = data.shape[0]
        values = data.reshape(rows, -1)
        keep = np.broadcast_to(True if where is None else where, data.shape).reshape(rows, -1)
        stats = np.zeros((rows, 6), F32)
        for parity in (0, 1):
            kept, part = keep[:, parity::2], values[:, parity::2]
            number = kept.sum(axis=1).astype(F32)
            mean = np.where(kept, part, 0).sum(axis=1, dtype=F32) / np.maximum(number, 1)
            spread = np.where(kept, part - mean[:, None], 0)
            stats[:, 3 * parity] = number
            stats[:, 3 * parity + 1] = mean
            stats[:, 3 * parity + 2] = np.square(spread).sum(axis=1, dtype=F32)
        deliver(stats.reshape(dst.shape), dst, _rows(where, keep, dst))

    return apply


def _rows(where: Array | None, keep: Array, dst: Array) -> Array | None:
    """Partitions that have any element; all when nothing is masked."""
    if where is None:
        return None
    return np.broadcast_to(keep.any(axis=1).reshape(-1, *(1,) * (dst.ndim - 1)), dst.shape)


def _bn_aggr(attrs: dict[str, Any]) -> Apply:
    """Mean and variance of a population from the statistics of its parts.

    The documented formula subtracts the squared mean of all; the spread of the parts' means is the
    same and does not cancel.
    """

    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = as_f32(operands["data"]), operands["dst"]
        rows = data.shape[0]
        keep = np.broadcast_to(True if where is None else where, data.shape).reshape(rows, -1)
        triples = np.where(keep, data.reshape(rows, -1), 0).reshape(rows, -1, 3)
        count, mean, scatter = triples[..., 0], triples[..., 1], triples[..., 2]
        total = count.sum(axis=1, dtype=F32)
        center = (count * mean).sum(axis=1, dtype=F32) / total
        between = (count * np.square(mean - center[:, None])).sum(axis=1, dtype=F32)
        variance = (scatter.sum(axis=1, dtype=F32) + between) / total
        result = np.stack([center, variance], axis=1)
        deliver(result.reshape(dst.shape), dst, _rows(where, keep, dst))

    return apply


RULES: MappingProxyType[str, Callable[[dict[str, Any]], Apply]] = MappingProxyType(
    {"bn_stats": _bn_stats, "bn_aggr": _bn_aggr}
)
