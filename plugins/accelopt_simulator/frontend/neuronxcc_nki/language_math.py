"""`nl` functions beyond the element-wise ones. Semantics: spec section 2; lowering: section 2.9."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.frontend import draws, lower, lower_math
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import MGridMaker
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.spmd import CoreCount, spmd_dim
from accelopt_simulator.frontend.tile import Tile, normalize_shape
from accelopt_simulator.frontend.types import OpFunction, TileSize, code_of_type, op_name
from accelopt_simulator.trace.builder import Affine
from accelopt_simulator.trace.schema import Space


class Bfp16:
    """`nl.bfp16`. The documented bit pattern of its least value, 0xff80, is minus infinity."""

    min = -math.inf


def softmax(
    x: Any, axis: Any, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None, **kw: Any
) -> Tile:
    """e**(x - max) / sum(e**(x - max)) over free axes."""
    return lower_math.softmax(x, axis, dtype, compute_dtype, mask)


def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: Any,
    epsilon: Any = 1e-06,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tile:
    """x / sqrt(sum(x**2) / n + epsilon) * w."""
    return lower_math.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype, mask)


def var(x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """Population variance over free axes."""
    return lower_math.variance(x, axis, dtype, mask)


def all_(x: Any, axis: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tile:
    """Whether every element over free axes is other than zero."""
    return lower.reduce("logical_and", x, axis, dtype=dtype, mask=mask)


def cos(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """cos x, by the scalar engine's sine."""
    return lower_math.cosine(x, dtype, mask)


def tan(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """tan x = sin x / cos x."""
    return lower_math.tangent(x, dtype, mask)


def where(
    condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tile:
    """x where the condition holds, else y."""
    return lower_math.where(condition, x, y, dtype, mask)


def logical_not(x: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tile:
    """x == 0."""
    return lower.tensor_scalar(x, "logical_not", 0.0, dtype=code_of_type(dtype), mask=mask)


def invert(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """All bits of an integer tile flipped."""
    tile = lower.require_tile(x, "x")
    out = lower_math.result_type(tile, dtype)
    if DTYPES[tile.dtype_code].is_float or DTYPES[out].is_float:
        raise KernelFault(
            "bitwise_dtype",
            f"nl.invert of {tile.dtype_code_name} to {DTYPES[out].name}",
            limit="integers",
        )
    return lower.tensor_scalar(tile, "invert", 0.0, dtype=out, mask=mask)


def _rounding(name: str) -> Callable[..., Tile]:
    def function(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        tile = lower.require_tile(x, "x")
        out = lower_math.result_type(tile, dtype)
        return lower.tensor_scalar(tile, name, 0.0, dtype=out, mask=mask)

    function.__doc__ = f"Element-wise {name}."
    return function


def _remainder(name: str, rule: str) -> Callable[..., Tile]:
    def function(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        return lower.binary(name, x, y, dtype=dtype, mask=mask)

    function.__doc__ = f"Remainder of a division that rounds by {rule}."
    return function


def _bitwise(name: str) -> Callable[..., Tile]:
    def function(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        return lower.binary(name, x, y, dtype=dtype, mask=mask)

    function.__doc__ = f"Element-wise {name} on the bits of integers."
    return function


def rand(shape: Any, dtype: Any = np.float32, **kwargs: Any) -> Tile:
    """Uniform numbers in [0, 1)."""
    extents = normalize_shape(shape)
    if len(extents) < 2:
        raise KernelFault("insufficient_rank", f"a tile of shape {extents} has no free dimension")
    result = lower.compute("rand", [], shape=extents, dtype=code_of_type(dtype))
    draws.number_draw(result)
    return result


def random_seed(seed: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Seed the random draws that follow."""
    if mask is not None:
        raise unsupported("a mask on nl.random_seed")
    draws.seed(seed)


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """Zero each element with probability `rate`; what stays is not rescaled."""
    return draws.dropout(x, rate, dtype=None if dtype is None else code_of_type(dtype), mask=mask)


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """(N, M) in HBM to (M, N) in SBUF, by a transposing DMA; a mask is over the source's axes."""
    if not isinstance(src, Tile) or src.space is not Space.HBM:
        raise KernelFault(
            "err_unsupported_memory",
            "nl.load_transpose2d reads hbm",
            limit="hbm",
            hint="transpose a tile on chip with nl.transpose",
        )
    if src.ndim != 2:
        raise KernelFault(
            "err_exceed_max_supported_dimension",
            f"nl.load_transpose2d of {src.ndim} axes",
            required=src.ndim,
            limit=2,
        )
    return transposed_by_dma(src, (1, 0), dtype, mask)


def transposed_by_dma(src: Tile, axes: tuple[int, ...], dtype: Any, mask: Any) -> Tile:
    """One `dma_transpose` into a fresh SBUF tile."""
    shape = tuple(src.shape[a] for a in axes)
    at = {("axis", old): Affine.var(("axis", axes.index(old))) for old in range(len(axes))}
    predicate = lower.mask_predicate(mask, tuple(src.shape))
    return lower.compute(
        "dma_transpose",
        [("src", src.access())],
        shape=shape,
        dtype=lower_math.result_type(src, dtype),
        attrs={"axes": list(axes)},
        predicate=tuple(tuple((a.substitute(at), c) for a, c in clause) for clause in predicate),
    )


def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """dst[index tile] += value in HBM; every occurrence of an index counts."""
    if op_name(op) != "add":
        raise KernelFault("unsupported_operator", "nl.atomic_rmw can only add", limit="add")
    target = lower.require_tile(dst, "dst")
    tile = lower.in_sbuf(lower.require_tile(value, "value"))
    if target.space is not Space.HBM:
        raise KernelFault("err_unsupported_memory", "nl.atomic_rmw writes hbm", limit="hbm")
    if not any(key[0] == "dynamic" for affine in target.index for key, _ in affine.terms):
        raise KernelFault(
            "atomic_rmw_without_index",
            "the destination of nl.atomic_rmw is not indexed by a tile",
            hint="index it with an integer tile of shape (P, 1), or use nl.store",
        )
    shape = tuple(tile.shape)
    current().emit(
        "dma_copy",
        [("dst", lower.fit(target, shape, "dst")), ("src", tile.access())],
        attrs={"rmw": "add"},
        predicate=lower.mask_predicate(mask, shape),
    )


def gather_flattened(
    data: Any, indices: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tile:
    """Per partition: data, flattened, at the given positions."""
    source = lower.in_sbuf(lower.require_tile(data, "data"))
    positions = lower.in_sbuf(lower.require_tile(indices, "indices"))
    shape = tuple(positions.shape)
    return lower.compute(
        "gather_flattened",
        [("data", source.access()), ("indices", positions.access())],
        shape=shape,
        dtype=lower_math.result_type(source, dtype),
        predicate=lower.mask_predicate(mask, shape),
    )


def device_print(prefix: Any, x: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Prints nothing here: a trace has no values yet. Costs nothing on the device either."""
    lower.require_tile(x, "x")


def gemm_grid() -> Any:
    """Indices of a matmul's moving or result tile."""
    return MGridMaker()[0 : TileSize.pmax, 0 : TileSize.gemm_moving_fmax]


def gemm_stationary_grid() -> Any:
    """Indices of a matmul's stationary tile."""
    return MGridMaker()[0 : TileSize.pmax, 0 : TileSize.gemm_stationary_fmax]


def all_reduce(
    x: Any, op: Any, program_axes: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tile:
    """Reduction over program instances; only where there is one instance to reduce over.

    Raises:
        KernelFault: there are several: instances run one after the other here, and none may wait
            for what a later one computes.
    """
    tile, grid = lower.require_tile(x, "x"), current().grid
    axes = program_axes if isinstance(program_axes, (list, tuple)) else [program_axes]
    if math.prod(grid[a] for a in axes if 0 <= a < len(grid)) != 1:
        raise unsupported(
            "nl.all_reduce over several program instances, which run one after the other,"
        )
    return lower.copy_tile(tile, None if dtype is None else code_of_type(dtype), mask)


_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
NAMES: MappingProxyType[str, Any] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            softmax, rms_norm, var, cos, tan, where, rand, random_seed, dropout, load_transpose2d,
            gather_flattened, atomic_rmw, device_print, gemm_grid, gemm_stationary_grid,
            all_reduce, spmd_dim,
        )
    }
    | {name: OpFunction(name, _bitwise(name)) for name in _BITWISE}
    | {name: OpFunction(name, _rounding(name)) for name in ("floor", "ceil", "trunc")}
    | {
        "mod": OpFunction("mod", _remainder("mod", "floor")),
        "fmod": OpFunction("fmod", _remainder("fmod", "truncation")),
        "invert": OpFunction("invert", invert),
        "logical_not": OpFunction("logical_not", logical_not),
        "all": all_,
        "nc": CoreCount,
        "bfp16": Bfp16,
    }
)  # fmt: skip
"""Name -> what a kernel finds in `nl`."""
