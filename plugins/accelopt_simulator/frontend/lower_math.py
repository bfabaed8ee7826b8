"""`nl` functions that expand to several instructions (lowering: spec 2.9)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelopt_simulator.dtypes import DTYPES, FLOAT32, UINT8, promote
from accelopt_simulator.frontend import lower
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile, new_tensor
from accelopt_simulator.frontend.types import code_of_type, scalar_value
from accelopt_simulator.trace.builder import Access, Operand
from accelopt_simulator.trace.schema import Space

BN_STATS_FMAX = 512
PREDICATE_TYPES = frozenset({"bool", "uint8", "uint16", "uint32"})


def result_type(tile: Tile, *dtypes: Any) -> int:
    """The first type that is given, else the tile's."""
    for dtype in dtypes:
        if dtype is not None:
            return code_of_type(dtype)
    return tile.dtype_code


def _column(rows: int) -> Tile:
    return new_tensor((rows, 1), FLOAT32, Space.SBUF)


def _constant(rows: int, value: float) -> Tile:
    tile = _column(rows)
    lower.fill(tile, value)
    return tile


def _reciprocal(tile: Tile) -> Tile:
    shape = tuple(tile.shape)
    result = lower.compute("reciprocal", [("data", tile.access())], shape=shape, dtype=FLOAT32)
    result.fresh = None
    return result


def _reduced(op: str, tile: Tile, axis: Any, mask: Any, **options: Any) -> Tile:
    result = lower.reduce(op, tile, axis, dtype=np.float32, mask=mask, **options)
    result.fresh = None
    return result


def _all_free(axes: tuple[int, ...], tile: Tile) -> bool:
    return len(axes) == tile.ndim - 1


def softmax(x: Any, axis: Any, dtype: Any, compute_dtype: Any, mask: Any) -> Tile:
    """e**(x - max) / sum, over free axes; computed in float32."""
    tile = lower.require_tile(x, "x")
    out, axes = result_type(tile, dtype, compute_dtype), lower.reduce_axes(axis, tile.ndim)
    if _all_free(axes, tile):
        negative_max = _reduced("maximum", tile, axis, mask, negate=True)
        total = _column(tile.shape[0])
        powers = lower.activation(
            "exp", tile, bias=negative_max, dtype=FLOAT32, mask=mask, attrs={"reduce_op": "add"},
            reduce_res=total,
        )  # fmt: skip
        lower.named(powers)
        return lower.tensor_scalar(powers, "multiply", _reciprocal(total), dtype=out, mask=mask)
    top = _reduced("maximum", tile, axis, mask, keepdims=True)
    shifted = lower.named(lower.binary("subtract", tile, top, dtype=np.float32, mask=mask))
    powers = lower.named(lower.activation("exp", shifted, mask=mask))
    share = _reciprocal(_reduced("add", powers, axis, mask, keepdims=True))
    return lower.binary("multiply", powers, share, dtype=_type(out), mask=mask)


def rms_norm(
    x: Any, w: Any, axis: Any, n: Any, epsilon: Any, dtype: Any, compute_dtype: Any, mask: Any
) -> Tile:
    """x / sqrt(sum(x**2) / n + epsilon) * w."""
    tile = lower.require_tile(x, "x")
    count, eps = scalar_value(n), scalar_value(epsilon)
    if not count or eps is None:
        raise KernelFault("operand_not_a_number", "n and epsilon of nl.rms_norm are numbers")
    out, axes = result_type(tile, dtype, compute_dtype), lower.reduce_axes(axis, tile.ndim)
    if _all_free(axes, tile):
        total = _column(tile.shape[0])
        lower.activation(
            "square", tile, dtype=FLOAT32, mask=mask, attrs={"reduce_op": "add"}, reduce_res=total
        )
        bias = _constant(tile.shape[0], eps)
        factor = lower.named(lower.activation("rsqrt", total, scale=1.0 / count, bias=bias))
        scaled = lower.tensor_scalar(tile, "multiply", factor, dtype=FLOAT32, mask=mask)
    else:
        squares = lower.named(lower.activation("square", tile, dtype=FLOAT32, mask=mask))
        total = _reduced("add", squares, axis, mask, keepdims=True)
        mean = lower.named(
            lower.tensor_scalar(
                total, "multiply", 1.0 / count, op1="add", operand1=eps, dtype=FLOAT32
            )
        )
        factor = lower.named(lower.activation("rsqrt", mean))
        scaled = lower.binary("multiply", tile, factor, dtype=np.float32, mask=mask)
    return lower.binary("multiply", lower.named(scaled), w, dtype=_type(out), mask=mask)


def variance(x: Any, axis: Any, dtype: Any, mask: Any) -> Tile:
    """Population variance: by `bn_stats` and `bn_aggr` over whole rows, else by two sums."""
    tile = lower.require_tile(x, "x")
    axes = lower.reduce_axes(axis, tile.ndim)
    floating = DTYPES[tile.dtype_code].is_float
    out = code_of_type(dtype) if dtype is not None else tile.dtype_code if floating else FLOAT32
    width = math.prod(tile.shape[1:])
    if (
        _all_free(axes, tile)
        and (tile.ndim == 2 or width <= BN_STATS_FMAX)
        and (mask is None or width <= BN_STATS_FMAX)
    ):
        return _by_statistics(tile, width, out, mask)
    if mask is not None:
        raise unsupported("a mask on nl.var over many elements or some free axes")
    count = math.prod(tile.shape[a] for a in axes)
    total = _reduced("add", tile, axis, None, keepdims=True)
    mean = lower.named(lower.tensor_scalar(total, "multiply", 1.0 / count, dtype=FLOAT32))
    centered = lower.named(lower.binary("subtract", tile, mean, dtype=np.float32))
    squares = lower.named(lower.activation("square", centered))
    scatter = _reduced("add", squares, axis, None)
    return lower.tensor_scalar(scatter, "multiply", 1.0 / count, dtype=out)


def _by_statistics(tile: Tile, width: int, out: int, mask: Any) -> Tile:
    rows = tile.shape[0]
    chunks = range(0, width, BN_STATS_FMAX)
    stats = new_tensor((rows, 6 * len(chunks)), FLOAT32, Space.SBUF)
    for number, start in enumerate(chunks):
        whole = len(chunks) == 1
        part = tile if whole else tile[:, start : min(width, start + BN_STATS_FMAX)]
        current().emit(
            "bn_stats",
            [("dst", stats[:, 6 * number : 6 * number + 6].access()), ("data", part.access())],
            predicate=lower.mask_predicate(mask, tuple(part.shape)),
        )
    moments = new_tensor((rows, 2), FLOAT32, Space.SBUF)
    current().emit("bn_aggr", [("dst", moments.access()), ("data", stats.access())])
    found = moments[:, 1:2]
    return found if out == FLOAT32 else lower.copy_tile(found, out)


def cosine(x: Any, dtype: Any, mask: Any) -> Tile:
    """cos x = sin(pi/2 - |x|): the argument stays in the sine's range for |x| up to 3 pi / 2."""
    tile = lower.require_tile(x, "x")
    magnitude = lower.named(lower.tensor_scalar(tile, "abs", 0.0, dtype=FLOAT32, mask=mask))
    quarter = _constant(tile.shape[0], math.pi / 2)
    out = result_type(tile, dtype)
    return lower.activation("sin", magnitude, scale=-1.0, bias=quarter, dtype=out, mask=mask)


def tangent(x: Any, dtype: Any, mask: Any) -> Tile:
    """tan x = sin x / cos x, |x| up to pi."""
    tile = lower.require_tile(x, "x")
    lower_part = lower.named(cosine(tile, np.float32, mask))
    sine = lower.named(lower.activation("sin", tile, dtype=FLOAT32, mask=mask))
    inverse = lower.named(
        lower.compute(
            "reciprocal", [("data", lower_part.access())], shape=tuple(tile.shape), dtype=FLOAT32,
            predicate=lower.mask_predicate(mask, tuple(tile.shape)),
        )
    )  # fmt: skip
    return lower.binary("multiply", sine, inverse, dtype=_type(result_type(tile, dtype)), mask=mask)


def where(condition: Any, x: Any, y: Any, dtype: Any, mask: Any) -> Tile:
    """`condition ? x : y`: a copy of y, then a predicated copy of x."""
    chosen = lower.require_tile(condition, "condition")
    tiles = [chosen, *(t for t in (x, y) if isinstance(t, Tile))]
    rank = max(t.ndim for t in tiles)
    if any(t.ndim != rank for t in tiles):
        raise KernelFault("shape_mismatch", "the operands of nl.where differ in their axes")
    shape = tuple(max(t.shape[a] for t in tiles) for a in range(rank))
    out = promote(lower.operand_type(x), lower.operand_type(y))
    out = out if dtype is None else code_of_type(dtype)
    predicate = lower.mask_predicate(mask, shape)
    if DTYPES[chosen.dtype_code].name not in PREDICATE_TYPES:
        chosen = lower.named(lower.tensor_scalar(chosen, "not_equal", 0.0, dtype=UINT8))
    result = new_tensor(shape, out, Space.SBUF)
    other = _value(y, shape, "y")
    if isinstance(other, Access):
        operands: list[Operand] = [("dst", result.access()), ("src", other)]
        current().emit("tensor_copy", operands, predicate=predicate)
    else:
        lower.fill(result, other, mask)
    if isinstance(x, Tile) and x.dtype_code != out:
        x = lower.named(lower.copy_tile(x, out))
    current().emit(
        "tensor_copy_predicated",
        [
            ("dst", result.access()),
            ("src", _value(x, shape, "x")),
            ("predicate", _fitted(lower.in_sbuf(chosen), shape, "condition")),
            ("old", result.access()),
        ],
        predicate=predicate,
    )
    return result


def _value(value: Any, shape: tuple[int, ...], role: str) -> Access | float:
    number = scalar_value(value)
    return _fitted(lower.require_tile(value, role), shape, role) if number is None else number


def _fitted(tile: Tile, shape: tuple[int, ...], role: str) -> Access:
    if tile.shape[0] == 1 != shape[0]:
        tile = lower.named(lower.broadcast_tile(tile, (shape[0], *tile.shape[1:])))
    return lower.fit(tile, shape, role)


def _type(code: int) -> Any:
    from accelopt_simulator.frontend.types import TYPE_BY_CODE

    return TYPE_BY_CODE[code]
