"""`neuronxcc.nki.isa` (`nisa`). Semantics: spec section 3."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Any

from accelopt_simulator.dtypes import promote
from accelopt_simulator.frontend import lower
from accelopt_simulator.frontend.accumulators import use_register
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.index import as_int
from accelopt_simulator.frontend.neuronxcc_nki import isa_gpsimd, isa_vector
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile, normalize_shape
from accelopt_simulator.frontend.types import Fp32, code_of_type, op_name, scalar_value
from accelopt_simulator.isa import (
    BINARY_ALU,
    BITWISE_ALU,
    BITWISE_REDUCTIONS,
    REDUCTIONS,
    UNARY_ALU,
)
from accelopt_simulator.trace.schema import Engine


class engine(IntEnum):  # noqa: N801 - NKI's name
    """Engines."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(IntEnum):  # noqa: N801 - NKI's name
    """What an activation does with its accumulator."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3


class oob_mode(IntEnum):  # noqa: N801 - NKI's name
    """What an out-of-bounds run-time index does."""

    error = 0
    skip = 1


class dge_mode(IntEnum):  # noqa: N801 - NKI's name
    """Who makes DMA descriptors."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


class nc_version(IntEnum):  # noqa: N801 - NKI's name
    """NeuronCore generations."""

    gen2 = 2
    gen3 = 3


def _engine(value: Any, call: str, allowed: tuple[Engine, ...]) -> Engine:
    chosen = Engine(int(value)) if int(value) != engine.sync else Engine.UNKNOWN
    if chosen is not Engine.UNKNOWN and chosen not in allowed:
        raise KernelFault(
            "unsupported_engine",
            f"{call} can't run on the {chosen.name.lower()} engine",
            limit=", ".join(e.name.lower() for e in allowed),
        )
    return chosen


def _alu(op: Any, call: str, *, unary: bool = False) -> str:
    name = op_name(op)
    if name in BITWISE_ALU and call in BITWISE_CALLS and (unary or name != "invert"):
        return name
    if name not in BINARY_ALU and not (unary and name in UNARY_ALU):
        raise KernelFault(
            "unsupported_operator",
            f"{name!r} is not an operator of {call}",
            limit=", ".join(sorted(BINARY_ALU)),
        )
    return name


BITWISE_CALLS = ("tensor_tensor", "tensor_scalar")


def _reduction(op: Any, call: str) -> str:
    name = op_name(op)
    if name in BITWISE_REDUCTIONS and call == "tensor_reduce":
        return name
    if name not in REDUCTIONS:
        raise KernelFault(
            "unsupported_operator",
            f"{call} can't reduce with {name!r}",
            limit=", ".join(REDUCTIONS),
        )
    return name


def _dtype(dtype: Any) -> int | None:
    return None if dtype is None else code_of_type(dtype)


def _column(value: Any, data: Tile, role: str) -> Tile:
    tile = lower.require_tile(value, role)
    if tuple(tile.shape) != (data.shape[0], 1):
        raise KernelFault(
            "operand_not_a_column",
            f"operand {role!r} has shape {tuple(tile.shape)}, not ({data.shape[0]}, 1)",
        )
    return tile


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Any = (),
    tile_size: Any = (),
    mask: Any = None,
    **kwargs: Any,
) -> Tile:
    """stationary[K, M]^T x moving[K, N] into PSUM, float32."""
    flags = {
        "stationary_onezero": is_stationary_onezero,
        "moving_onezero": is_moving_onezero,
        "is_transpose": is_transpose,
    }
    attrs: dict[str, Any] = {k: True for k, v in flags.items() if v}
    attrs |= _pe_tile(tile_position, tile_size)
    if kwargs.get("perf_mode"):
        attrs["perf_mode"] = str(kwargs["perf_mode"])
    return lower.matmul(stationary, moving, mask=mask, attrs=attrs)


def _pe_tile(position: Any, size: Any) -> dict[str, Any]:
    """PE tiling, where it is known while tracing; a position may follow a loop index."""
    pairs = {"tile_position": tuple(position), "tile_size": tuple(size)}
    if not any(pairs.values()):
        return {}
    if not all(len(pair) == 2 for pair in pairs.values()):
        raise KernelFault("pe_tile", "tile_position and tile_size are given together, as pairs")
    found = {key: [as_int(v) for v in pair] for key, pair in pairs.items()}
    if any(v is None for v in found["tile_size"]):
        raise KernelFault("pe_tile", "tile_size of nc_matmul is not a compile-time constant")
    # What follows a loop index is checked as the first tile.
    return found | {"tile_position": [0 if v is None else v for v in found["tile_position"]]}


def nc_transpose(
    data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tile:
    """(P, F) to (F, P)."""
    chosen = _engine(engine, "nc_transpose", (Engine.TENSOR, Engine.VECTOR))
    return lower.transpose(data, dtype=dtype, mask=mask, engine=chosen)


def activation(
    op: Any,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tile:
    """op(data * scale + bias) on the scalar engine, with an optional running sum over free axes."""
    tile = lower.require_tile(data, "data")
    attrs: dict[str, Any] = {}
    command = int(reduce_cmd)
    if command or reduce_res is not None:
        if reduce_op is not None and op_name(reduce_op) != "add":
            raise KernelFault("unsupported_operator", "an activation can only accumulate with add")
        attrs["reduce_op"] = "add"
    result = lower.activation(
        op_name(op), tile, bias=bias, scale=scale, dtype=_dtype(dtype), mask=mask, attrs=attrs,
        reduce_res=None if reduce_res is None else _column(reduce_res, tile, "reduce_res"),
    )  # fmt: skip
    if attrs and result.fresh is not None:
        use_register(Engine.SCALAR, result.fresh, command, tile.shape[0])
    return result


def activation_reduce(
    op: Any, data: Any, *, reduce_op: Any, reduce_res: Any, **kwargs: Any
) -> Tile:
    """An activation that also writes the sum of its results over the free axes to `reduce_res`."""
    return activation(op, data, reduce_op=reduce_op, reduce_res=reduce_res, reduce_cmd=3, **kwargs)


def tensor_tensor(
    data1: Any,
    data2: Any,
    op: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tile:
    """data1 op data2, equal partitions; a (P, 1) operand broadcasts along the free axes."""
    x, y = lower.require_tile(data1, "data1"), lower.require_tile(data2, "data2")
    if x.shape[0] != y.shape[0]:
        raise KernelFault(
            "err_num_partition_mismatch",
            f"data1 has {x.shape[0]} partitions, data2 {y.shape[0]}",
            required=y.shape[0],
            limit=x.shape[0],
            hint="broadcast explicitly with .broadcast_to",
        )
    name = _alu(op, "tensor_tensor")
    chosen = _engine(engine, "tensor_tensor", (Engine.VECTOR, Engine.GPSIMD))
    shape = tuple(x.shape) if x.size >= y.size else tuple(y.shape)
    out = promote(x.dtype_code, y.dtype_code) if dtype is None else code_of_type(dtype)
    if name in BITWISE_ALU:
        out = lower.bitwise_type(name, x, y, out)
    # 32-bit integers: exact on the GpSimd engine, which is the default for them.
    whole = chosen is not Engine.VECTOR and lower.integer_arithmetic(name, x, y)
    return lower.compute(
        "tensor_tensor",
        [("data1", lower.fit(x, shape, "data1")), ("data2", lower.fit(y, shape, "data2"))],
        shape=shape,
        dtype=out,
        engine=Engine.GPSIMD if name == "power" or whole else chosen,
        attrs={"op": name} | ({"integer": True} if whole else {}),
        predicate=lower.mask_predicate(mask, shape),
    )


def tensor_scalar(
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = engine.unknown,
    **kwargs: Any,
) -> Tile:
    """(data op0 operand0) op1 operand1, operands scalars or (P, 1) tiles."""
    first = _alu(op0, "tensor_scalar", unary=True)
    second = None if op1 is None else _alu(op1, "tensor_scalar", unary=True)
    names = [name for name in (first, second) if name is not None]
    operands = [operand0, operand1][: len(names)]
    tile = lower.require_tile(data, "data")
    if any(name in BITWISE_ALU for name in names):
        if not all(name in BITWISE_ALU for name in names):
            raise KernelFault(
                "mixed_operators", "tensor_scalar mixes bit-wise and arithmetic operators"
            )
        for name, operand in zip(names, operands, strict=True):
            lower.bitwise_type(name, tile, operand, tile.dtype_code)
    chosen = _engine(engine, "tensor_scalar", (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD))
    whole = chosen is Engine.GPSIMD and all(
        lower.integer_arithmetic(name, tile, operand)
        for name, operand in zip(names, operands, strict=True)
    )
    return lower.tensor_scalar(
        tile, first, operand0, reverse0=bool(reverse0), op1=second, operand1=operand1,
        reverse1=bool(reverse1), dtype=_dtype(dtype), mask=mask, engine=chosen, integer=whole,
    )  # fmt: skip


def tensor_scalar_reduce(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tile:
    """data op0 operand0, and its reduction over the free axes in `reduce_res`."""
    tile = lower.require_tile(data, "data")
    return lower.tensor_scalar(
        tile, _alu(op0, "tensor_scalar_reduce"), operand0, reverse0=bool(reverse0),
        dtype=_dtype(dtype), mask=mask, reduce_op=_reduction(reduce_op, "tensor_scalar_reduce"),
        reduce_res=_column(reduce_res, tile, "reduce_res"),
    )  # fmt: skip


def _two_ops(call: str, op0: Any, op1: Any, reverse0: bool, reverse1: bool) -> dict[str, Any]:
    attrs: dict[str, Any] = {"op0": _alu(op0, call), "op1": _alu(op1, call)}
    return attrs | {k: True for k, v in (("reverse0", reverse0), ("reverse1", reverse1)) if v}


def scalar_tensor_tensor(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tile:
    """(data op0 operand0) op1 operand1: operand0 scalar or (P, 1), operand1 a tile like data."""
    tile, other = lower.require_tile(data, "data"), lower.require_tile(operand1, "operand1")
    shape = tuple(tile.shape)
    return lower.compute(
        "scalar_tensor_tensor",
        [
            ("data", tile.access()),
            ("operand0", lower.column_or_scalar(operand0, tile, "operand0")),
            ("operand1", lower.fit(other, shape, "operand1")),
        ],
        shape=shape,
        dtype=tile.dtype_code if dtype is None else code_of_type(dtype),
        attrs=_two_ops("scalar_tensor_tensor", op0, op1, reverse0, reverse1),
        predicate=lower.mask_predicate(mask, shape),
    )


def tensor_tensor_scan(
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> Tile:
    """Per partition: s = op1(op0(data0[i], s), data1[i]), starting from `initial`."""
    x, y = lower.require_tile(data0, "data0"), lower.require_tile(data1, "data1")
    shape = tuple(x.shape)
    return lower.compute(
        "tensor_tensor_scan",
        [
            ("data0", x.access()),
            ("data1", lower.fit(y, shape, "data1")),
            ("initial", lower.column_or_scalar(initial, x, "initial")),
        ],
        shape=shape,
        dtype=promote(x.dtype_code, y.dtype_code) if dtype is None else code_of_type(dtype),
        attrs=_two_ops("tensor_tensor_scan", op0, op1, reverse0, reverse1),
        predicate=lower.mask_predicate(mask, shape),
    )


def tensor_reduce(
    op: Any,
    data: Any,
    axis: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
    **kwargs: Any,
) -> Tile:
    """Reduction over free axes, optionally negated."""
    return lower.reduce(
        _reduction(op, "tensor_reduce"), data, axis, dtype=dtype, mask=mask, keepdims=keepdims,
        negate=negate,
    )  # fmt: skip


def tensor_copy(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tile:
    """A copy in a fresh SBUF tile."""
    allowed = (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)
    chosen = _engine(engine, "tensor_copy", allowed)
    return lower.copy_tile(lower.require_tile(src, "src"), _dtype(dtype), mask, engine=chosen)


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """1 / data on the vector engine."""
    tile = lower.require_tile(data, "data")
    shape = tuple(tile.shape)
    return lower.compute(
        "reciprocal",
        [("data", tile.access())],
        shape=shape,
        dtype=tile.dtype_code if dtype is None else code_of_type(dtype),
        predicate=lower.mask_predicate(mask, shape),
    )


def memset(
    shape: Any, value: Any, dtype: Any, *, mask: Any = None, engine: Any = engine.unknown, **kw: Any
) -> Tile:
    """A fresh tile of one value; dimension 0 is the partition dimension."""
    number = scalar_value(value)
    if number is None:
        raise KernelFault("bad_fill_value", "nisa.memset takes a number")
    extents = normalize_shape(shape)
    if len(extents) < 2:
        raise KernelFault("insufficient_rank", f"a tile of shape {extents} has no free dimension")
    return lower.compute(
        "memset",
        [("value", number)],
        shape=extents,
        dtype=code_of_type(dtype),
        engine=_engine(engine, "memset", (Engine.VECTOR, Engine.GPSIMD)),
        predicate=lower.mask_predicate(mask, extents),
    )


def dma_copy(
    *, dst: Any, src: Any, mask: Any = None, dst_rmw_op: Any = None, **kwargs: Any
) -> None:
    """Copy between HBM and SBUF, either way."""
    attrs: dict[str, Any] = {}
    if dst_rmw_op is not None:
        if op_name(dst_rmw_op) != "add":
            raise KernelFault("unsupported_operator", "dma_copy can only add to its destination")
        attrs["rmw"] = "add"
    if int(kwargs.get("oob_mode", oob_mode.error)) == oob_mode.skip:
        attrs["oob"] = "skip"
    source, target = lower.require_tile(src, "src"), lower.require_tile(dst, "dst")
    shape = lower.two_axes(tuple(source.shape))
    current().emit(
        "dma_copy",
        [("dst", lower.fit(target, shape, "dst")), ("src", lower.fit(source, shape, "src"))],
        attrs=attrs,
        predicate=lower.mask_predicate(mask, shape),
    )


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tile:
    """A copy whose source starts at an offset known at run time."""
    tile = lower.require_tile(src, "src")
    shape = tuple(tile.shape)
    return lower.compute(
        "tensor_copy_dynamic",
        [("src", tile.access())],
        shape=shape,
        dtype=tile.dtype_code if dtype is None else code_of_type(dtype),
        engine=_engine(engine, "tensor_copy_dynamic_src", COPY_ENGINES),
        predicate=lower.mask_predicate(mask, shape),
    )


def tensor_copy_dynamic_dst(
    *, dst: Any, src: Any, mask: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> None:
    """A copy whose destination starts at an offset known at run time; in place."""
    source, target = lower.require_tile(src, "src"), lower.require_tile(dst, "dst")
    shape = tuple(source.shape)
    current().emit(
        "tensor_copy_dynamic",
        [("dst", lower.fit(target, shape, "dst")), ("src", source.access())],
        engine=_engine(engine, "tensor_copy_dynamic_dst", COPY_ENGINES),
        predicate=lower.mask_predicate(mask, shape),
    )


COPY_ENGINES = (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)


def get_nc_version() -> nc_version:
    """The generation compiled for."""
    return nc_version.gen2


NOT_MODELLED = frozenset(["builtin_custom_op"])
"""Names of the dialect that fault with `unsupported_op` when used."""

NAMESPACE = MappingProxyType(
    {
        f.__name__: f
        for f in (
            nc_matmul, nc_transpose, activation, activation_reduce, tensor_tensor, tensor_scalar,
            tensor_scalar_reduce, scalar_tensor_tensor, tensor_tensor_scan, tensor_reduce,
            tensor_copy, reciprocal, memset, dma_copy, tensor_copy_dynamic_src,
            tensor_copy_dynamic_dst, get_nc_version, engine, reduce_cmd,
            oob_mode, dge_mode, nc_version,
        )
    }
    | {
        f"{name}_engine": engine[name]
        for name in ("tensor", "vector", "scalar", "gpsimd", "dma", "unknown")
    }
    | {"fp32": Fp32}
    | isa_vector.NAMES
    | isa_gpsimd.NAMES
)  # fmt: skip
