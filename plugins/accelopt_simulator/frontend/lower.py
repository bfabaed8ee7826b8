"""From calls to instructions: operands, results, placement, broadcasting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelopt_simulator.dtypes import DTYPES, FLOAT32, INT32, UINT8, UINT32, promote
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import Mask, as_mask, unused_axes, without_axes
from accelopt_simulator.frontend.loop_reduce import LoopReduction
from accelopt_simulator.frontend.matmul_masks import matmul_mask, without_mask
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile, new_tensor
from accelopt_simulator.frontend.types import code_of_type, scalar_value
from accelopt_simulator.isa import (
    ACTIVATIONS,
    BITWISE_ALU,
    LANEWISE_DATA_OPS,
    ONE_TYPE_OPS,
    OPS,
)
from accelopt_simulator.trace.builder import Access, Affine, Operand, Predicate, VarKey
from accelopt_simulator.trace.schema import Engine, Space

PSUM_FMAX = 512


def require_tile(value: Any, role: str) -> Tile:
    """`value` as a tile whose partition dimension is dimension 0.

    Raises:
        KernelFault: it is something else.
    """
    if not isinstance(value, Tile):
        raise KernelFault(
            "operand_not_a_tile",
            f"operand {role!r} is {type(value).__name__}, not a tile",
            hint="load it with nl.load first",
        )
    if value.space is not Space.HBM and value.par != 0:
        raise KernelFault(
            "err_failed_to_infer_tile_from_local_tensor",
            f"operand {role!r} has its partition dimension at {value.par}, not 0",
            hint="index the block dimensions first",
        )
    return value


def _squeezed(mask: Mask, rank: int) -> Mask:
    """A mask over a grid with fewer axes: those of size 1 that it does not use are dropped."""
    surplus = len(mask.shape) - rank
    if surplus <= 0:
        return mask
    dropped = unused_axes(list(mask.affines()), mask.shape)[:surplus]
    reduced = without_axes(len(mask.shape), dropped)
    predicate = tuple(tuple((a.substitute(reduced), c) for a, c in cl) for cl in mask.predicate)
    return Mask(predicate, tuple(n for a, n in enumerate(mask.shape) if a not in dropped))


def mask_predicate(mask: Any, grid: tuple[int, ...]) -> Predicate:
    """The predicate of a `mask=` argument over an instruction's grid."""
    if mask is None:
        return ()
    as_predicate = as_mask(mask)
    if as_predicate is None:
        raise KernelFault(
            "err_unsupported_expression_in_mask",
            f"a mask is {type(mask).__name__}, not a comparison of indices",
            hint="build masks from nl.arange and loop indices, combined with &",
        )
    refuse_non_affine(as_predicate)
    as_predicate = _squeezed(as_predicate, len(grid))
    if len(as_predicate.shape) > len(grid):
        raise KernelFault(
            "mask_shape_mismatch",
            f"a mask of shape {as_predicate.shape} on a tile of shape {grid}",
        )
    for extent, size in zip(reversed(as_predicate.shape), reversed(grid), strict=False):
        if extent not in (1, size):
            raise KernelFault(
                "mask_shape_mismatch",
                f"a mask of shape {as_predicate.shape} on a tile of shape {grid}",
            )
    return as_predicate.aligned(len(grid))


def refuse_non_affine(mask: Mask) -> None:
    """Only affine comparisons of static indices make a mask.

    Raises:
        KernelFault: it holds a quotient, a remainder or a tensor element.
    """
    kinds = {key[0] for a in mask.affines() for key, _ in a.terms}
    if kinds & {"floordiv", "mod"}:
        raise KernelFault(
            "err_unsupported_expression_in_mask",
            "a mask holds // or % of an index, which is not affine",
            hint="write it as an `if` statement on the loop index",
        )
    if "dynamic" in kinds:
        raise KernelFault(
            "err_unsupported_expression_in_mask",
            "a mask holds a tensor element, which is known at run time only",
            hint="compute both sides and select with nl.where or a multiplication",
        )


def fit(tile: Tile, shape: tuple[int, ...], role: str) -> Access:
    """`tile` as an operand over a grid: equal extents up to size-1 axes, or free-axis broadcast.

    Raises:
        KernelFault: it does not fit.
    """
    view = tuple(tile.shape)
    if view == shape:
        return tile.access()
    if len(view) == len(shape) and all(v in (1, s) for v, s in zip(view, shape, strict=True)):
        if view[0] != shape[0] and tile.space is not Space.HBM:
            raise KernelFault(
                "err_num_partition_mismatch",
                f"operand {role!r} has {view[0]} partitions, the others {shape[0]}",
                required=view[0],
                limit=shape[0],
                hint="broadcast it with .broadcast_to first",
            )
        mapping = {("axis", a): Affine(0) for a, v in enumerate(view) if v == 1 != shape[a]}
        return tile.with_grid(shape, mapping, tile.par).access(shape)
    squeezed = [a for a, v in enumerate(view) if v != 1]
    wanted = [a for a, s in enumerate(shape) if s != 1]
    if [view[a] for a in squeezed] != [shape[a] for a in wanted]:
        raise KernelFault(
            "shape_mismatch", f"operand {role!r} has shape {view} where {shape} is needed"
        )
    mapping = {("axis", a): Affine(0) for a in range(len(view))}
    mapping |= {("axis", a): Affine.var(("axis", b)) for a, b in zip(squeezed, wanted, strict=True)}
    return tile.with_grid(shape, mapping, tile.par).access(shape)


def two_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """An HBM shape as a grid: at least a partition and a free axis (spec 1.18)."""
    return shape if len(shape) >= 2 else (*shape, 1) if shape else (1, 1)


def compute(
    op: str,
    operands: list[tuple[str, Access | float]],
    *,
    shape: tuple[int, ...],
    dtype: int,
    space: Space = Space.SBUF,
    engine: Engine = Engine.UNKNOWN,
    attrs: dict[str, Any] | None = None,
    predicate: Predicate = (),
    extra: list[Operand] | None = None,
) -> Tile:
    """Emit an instruction with a fresh result tile."""
    result = new_tensor(shape, dtype, space)
    all_operands: list[Operand] = [("dst", result.access()), *(extra or []), *operands]
    result.fresh = current().emit(op, all_operands, engine=engine, attrs=attrs, predicate=predicate)
    return result


def named(value: Any) -> Any:
    """A value that has a name in the kernel: its storage is settled, assigning it is a copy."""
    if isinstance(value, Tile):
        value.fresh = None
    return value


# -- assignment ----------------------------------------------------------------------------------


def assign(target: Tile, value: Any) -> None:
    """`target[...] = value`: redirect a fresh result, else copy; a scalar fills."""
    if isinstance(value, LoopReduction):
        _not_hbm(target)
        shape = tuple(value.data.shape)
        value.into(target, value.data.access(), fit(target, shape, "loop_reduce target"))
        return
    if not isinstance(value, Tile):
        number = scalar_value(value)
        if number is None:
            raise KernelFault("bad_assignment", f"can't assign {type(value).__name__} to a tile")
        _not_hbm(target)
        fill(target, number)
        return
    if value.tensor == target.tensor and value.index == target.index:
        return  # the result of an in-place operator
    _not_hbm(target)
    _check_assignable(target, value)
    if not _redirect(target, value):
        src = fit(value, tuple(target.shape), "value")
        current().emit(
            "tensor_copy",
            [("dst", target.access()), ("src", src)],
            predicate=_validity(value, tuple(target.shape)),
        )
    value.fresh = None


def _not_hbm(target: Tile) -> None:
    if target.space is Space.HBM:
        raise KernelFault(
            "err_unsupported_memory",
            "an HBM tensor can't be assigned to with =",
            hint="write to it with nl.store",
        )


def _check_assignable(target: Tile, value: Tile) -> None:
    if value.size > target.size:
        raise KernelFault(
            "err_store_dst_shape_smaller_than_other_shape",
            f"a value of shape {tuple(value.shape)} is assigned to {tuple(target.shape)}",
            required=tuple(value.shape),
            limit=tuple(target.shape),
        )


def _validity(value: Tile, shape: tuple[int, ...]) -> Predicate:
    """Where a fresh result of a masked instruction is defined: only that is assigned (spec 1.8)."""
    instruction = value.fresh
    if instruction is None or tuple(value.shape) != shape:
        return ()
    around = {clause for outer in current().predicates for clause in outer}
    own = tuple(clause for clause in instruction.predicate if clause not in around)
    if instruction.op == "nc_transpose":
        swap: dict[VarKey, Affine] = {
            ("axis", 0): Affine.var(("axis", 1)), ("axis", 1): Affine.var(("axis", 0)),
        }  # fmt: skip
        return tuple(tuple((a.substitute(swap), c) for a, c in clause) for clause in own)
    data_like = OPS[instruction.op].grid == "data" and instruction.op not in LANEWISE_DATA_OPS
    return () if data_like else own


def _redirect(target: Tile, value: Tile) -> bool:
    """Make a fresh result's instruction write to `target`; False when it must be copied."""
    instruction = value.fresh
    session = current()
    if instruction is None or not session.builder.instructions:
        return False
    # Anything recorded in between might read the target's old contents.
    if session.builder.instructions[-1] is not instruction or target.mask:
        return False
    if value.size != target.size or value.dtype_code not in (target.dtype_code, FLOAT32):
        return False
    if target.space not in OPS[instruction.op].allowed_spaces("dst"):
        return False
    if instruction.engine is Engine.GPSIMD and target.space is Space.PSUM:
        return False
    if instruction.op in ONE_TYPE_OPS and value.dtype_code != target.dtype_code:
        return False
    if instruction.op == "nc_transpose" and value.space is not target.space:
        return False
    placed = fit(target, tuple(value.shape), "value")
    instruction.operands[0] = ("dst", placed)
    value.tensor, value.index, value.space = placed.tensor, placed.index, target.space
    value.dtype_code, value.scope, value.branch = target.dtype_code, target.scope, target.branch
    return True


def fill(target: Tile, number: float, mask: Any = None) -> None:
    """Set a region to a constant."""
    current().emit(
        "memset",
        [("dst", target.access()), ("value", number)],
        predicate=mask_predicate(mask, tuple(target.shape)),
    )


# -- element-wise --------------------------------------------------------------------------------

# NumPy's 64-bit scalars, which NKI has no types for, count as Python's.
_WEAK_TYPES = {bool: UINT8, int: INT32, float: FLOAT32, np.int64: INT32}


def operand_type(value: Any) -> int:
    """Type an operand takes part in promotion with (spec 1.14: weak Python scalars)."""
    if isinstance(value, Tile):
        return value.dtype_code
    for kind, code in _WEAK_TYPES.items():
        if isinstance(value, kind):
            return code
    return code_of_type(value.dtype)


def binary(
    op: str,
    x: Any,
    y: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    partition_broadcast: bool = True,
) -> Tile:
    """An `nl` binary function: tile or scalar on each side, NumPy broadcasting."""
    x_scalar, y_scalar = scalar_value(x), scalar_value(y)
    if x_scalar is not None and y_scalar is not None:
        raise KernelFault("operand_not_a_tile", f"nl.{op} of two scalars", hint="use Python")
    for value, number in ((x, x_scalar), (y, y_scalar)):
        if number is None:
            require_tile(value, "x" if value is x else "y")
    if op == "divide":
        return _divide(x, y, dtype, mask)
    out = promote(operand_type(x), operand_type(y)) if dtype is None else code_of_type(dtype)
    if op in BITWISE_ALU:
        out = bitwise_type(op, x, y, out)
    whole = integer_arithmetic(op, x, y)
    engine = Engine.GPSIMD if op == "power" or whole else Engine.UNKNOWN
    if x_scalar is not None:
        return tensor_scalar(
            y, op, x_scalar, reverse0=True, dtype=out, mask=mask, engine=engine, integer=whole
        )
    if y_scalar is not None:
        return tensor_scalar(x, op, y_scalar, dtype=out, mask=mask, engine=engine, integer=whole)
    x, y = _broadcast_partitions(x, y, allowed=partition_broadcast)
    if engine is Engine.GPSIMD:  # it can't reach PSUM, where a broadcast leaves its result
        x, y = in_sbuf(x), in_sbuf(y)
    if y.size == y.shape[0] != x.size and y.ndim <= x.ndim:
        return tensor_scalar(x, op, y, dtype=out, mask=mask, engine=engine, integer=whole)
    if x.size == x.shape[0] != y.size and x.ndim <= y.ndim:
        return tensor_scalar(
            y, op, x, reverse0=True, dtype=out, mask=mask, engine=engine, integer=whole
        )
    shape = _result_shape(x, y)
    return compute(
        "tensor_tensor",
        [("data1", fit(x, shape, "x")), ("data2", fit(y, shape, "y"))],
        shape=shape,
        dtype=out,
        engine=engine,
        attrs={"op": op} | ({"integer": True} if whole else {}),
        predicate=mask_predicate(mask, shape),
    )


def bitwise_type(op: str, x: Any, y: Any, out: int) -> int:
    """Result type of a bit-wise operator: an integer one.

    Raises:
        KernelFault: an operand is not an integer.
    """
    tiles = [v for v in (x, y) if isinstance(v, Tile)]
    if any(DTYPES[t.dtype_code].is_float for t in tiles):
        raise KernelFault(
            "bitwise_dtype",
            f"{op} of {' and '.join(t.dtype_code_name for t in tiles)}",
            limit="integers",
            hint="cast to an integer type, or reinterpret the bits",
        )
    # uint32 and a Python integer have no common integer type.
    return tiles[0].dtype_code if DTYPES[out].is_float else out


def integer_arithmetic(op: str, x: Any, y: Any) -> bool:
    """Whether the GpSimd engine computes this in native 32-bit integers (spec 5.2)."""
    if op not in ("add", "subtract", "multiply"):
        return False
    codes = {v.dtype_code for v in (x, y) if isinstance(v, Tile)}
    in_psum = any(isinstance(v, Tile) and v.space is Space.PSUM for v in (x, y))
    scalars = [v for v in (x, y) if not isinstance(v, Tile)]
    return (
        codes in ({INT32}, {UINT32})
        and not in_psum
        and all(isinstance(v, (int, np.integer)) and abs(int(v)) < 2**32 for v in scalars)
    )


def _result_shape(x: Tile, y: Tile) -> tuple[int, ...]:
    if x.ndim == y.ndim:
        if all(a == b or 1 in (a, b) for a, b in zip(x.shape, y.shape, strict=True)):
            return tuple(max(a, b) for a, b in zip(x.shape, y.shape, strict=True))
    elif x.size == y.size:
        return tuple(x.shape) if x.ndim > y.ndim else tuple(y.shape)
    raise KernelFault(
        "shape_mismatch", f"shapes {tuple(x.shape)} and {tuple(y.shape)} do not broadcast"
    )


def _broadcast_partitions(x: Tile, y: Tile, *, allowed: bool) -> tuple[Tile, Tile]:
    if x.shape[0] == y.shape[0] or x.ndim != y.ndim:
        return x, y
    if not allowed or 1 not in (x.shape[0], y.shape[0]):
        raise KernelFault(
            "err_num_partition_mismatch",
            f"operands have {x.shape[0]} and {y.shape[0]} partitions",
            hint="broadcast explicitly with .broadcast_to",
        )
    if x.shape[0] == 1:
        return broadcast_tile(x, (y.shape[0], *x.shape[1:])), y
    return x, broadcast_tile(y, (x.shape[0], *y.shape[1:]))


def _divide(x: Any, y: Any, dtype: Any, mask: Any) -> Tile:
    """No divide in the instruction set: multiply by the reciprocal (spec 2.9)."""
    divisor = scalar_value(y)
    if divisor is not None:
        inverse = 1.0 / divisor if divisor else math.copysign(math.inf, divisor)
        out = promote(operand_type(x), operand_type(y)) if dtype is None else code_of_type(dtype)
        return tensor_scalar(x, "multiply", inverse, dtype=out, mask=mask)
    inverse_tile = compute(
        "reciprocal",
        [("data", y.access())],
        shape=tuple(y.shape),
        dtype=FLOAT32,
        # A divisor that is broadcast has another grid than the mask.
        predicate=mask_predicate(mask, tuple(y.shape)) if _same_shape(x, y) else (),
    )
    inverse_tile.fresh = None
    return binary("multiply", x, inverse_tile, dtype=dtype, mask=mask)


def _same_shape(x: Any, y: Tile) -> bool:
    return not isinstance(x, Tile) or tuple(x.shape) == tuple(y.shape)


def tensor_scalar(
    data: Any,
    op0: str,
    operand0: Any,
    *,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: Any = None,
    reverse1: bool = False,
    dtype: int | None = None,
    mask: Any = None,
    engine: Engine = Engine.UNKNOWN,
    reduce_op: str | None = None,
    reduce_res: Tile | None = None,
    integer: bool = False,
) -> Tile:
    """One `tensor_scalar` instruction."""
    tile = require_tile(data, "data")
    shape = tuple(tile.shape)
    attrs: dict[str, Any] = {"op0": op0}
    if integer:
        attrs["integer"] = True
    if reverse0:
        attrs["reverse0"] = True
    operands: list[Operand] = [
        ("data", tile.access()),
        ("operand0", column_or_scalar(operand0, tile, "operand0")),
    ]
    if op1 is not None:
        attrs["op1"] = op1
        if reverse1:
            attrs["reverse1"] = True
        operands.append(("operand1", column_or_scalar(operand1, tile, "operand1")))
    if reduce_res is not None:
        attrs["reduce_op"] = reduce_op
        operands.append(("reduce_res", reduce_res.access()))
    return compute(
        "tensor_scalar",
        operands,
        shape=shape,
        dtype=tile.dtype_code if dtype is None else dtype,
        engine=engine,
        attrs=attrs,
        predicate=mask_predicate(mask, shape),
    )


def column_or_scalar(value: Any, data: Tile, role: str) -> Access | float:
    """A scalar, or a `(P, 1)` tile that is broadcast along the free axes."""
    number = scalar_value(value)
    if number is not None:
        return number
    tile = require_tile(value, role)
    if tile.size != tile.shape[0]:
        raise KernelFault(
            "operand_not_a_column",
            f"operand {role!r} has shape {tuple(tile.shape)}, not ({data.shape[0]}, 1)",
            hint="a tensor operand here is one value per partition",
        )
    if tile.shape[0] != data.shape[0]:
        raise KernelFault(
            "err_num_partition_mismatch",
            f"operand {role!r} has {tile.shape[0]} partitions, data has {data.shape[0]}",
            required=tile.shape[0],
            limit=data.shape[0],
        )
    return fit(tile, (data.shape[0], 1), role)


def activation(
    op: str,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    dtype: int | None = None,
    mask: Any = None,
    attrs: dict[str, Any] | None = None,
    reduce_res: Tile | None = None,
) -> Tile:
    """One `activation` instruction: `op(data * scale + bias)`."""
    tile = require_tile(data, "data")
    if op not in ACTIVATIONS:
        raise KernelFault(
            "unsupported_operator",
            f"{op!r} is not a function of the scalar engine",
            hint=f"one of {', '.join(sorted(ACTIVATIONS))}",
        )
    shape = tuple(tile.shape)
    operands: list[Operand] = [("data", tile.access())]
    operands += _activation_column("scale", scale, tile, allow_scalar=True)
    if bias is not None:
        operands += _activation_column("bias", bias, tile, allow_scalar=False)
    if reduce_res is not None:
        operands.append(("reduce_res", reduce_res.access()))
    return compute(
        "activation",
        operands,
        shape=shape,
        dtype=tile.dtype_code if dtype is None else dtype,
        attrs={"op": op} | (attrs or {}),
        predicate=mask_predicate(mask, shape),
    )


def _activation_column(role: str, value: Any, data: Tile, *, allow_scalar: bool) -> list[Operand]:
    number = scalar_value(value)
    if number is not None and allow_scalar:
        return [(role, number)] if number != 1.0 else []
    allowed = ("float32",) if role == "scale" else ("float32", "float16", "bfloat16")
    if not isinstance(value, Tile) or DTYPES[value.dtype_code].name not in allowed:
        kind = value.dtype_code_name if isinstance(value, Tile) else type(value).__name__
        raise KernelFault(
            f"err_activation_{role}_invalid_type",
            f"activation {role} is {kind}",
            limit=" or ".join(allowed) + " vector" + (" or a number" if allow_scalar else ""),
            hint="pass a (P, 1) tile" + ("" if allow_scalar else ", for example of zeros"),
        )
    if value.size != value.shape[0]:
        raise KernelFault(
            "err_activation_scale_scalar_or_vector",
            f"activation {role} has shape {tuple(value.shape)}, not ({data.shape[0]}, 1)",
        )
    return [(role, column_or_scalar(value, data, role))]


def copy_tile(tile: Tile, dtype: int | None = None, mask: Any = None, **options: Any) -> Tile:
    """One `tensor_copy` into a fresh SBUF tile."""
    shape = tuple(tile.shape)
    return compute(
        "tensor_copy",
        [("src", tile.access())],
        shape=shape,
        dtype=tile.dtype_code if dtype is None else dtype,
        predicate=mask_predicate(mask, shape),
        **options,
    )


def in_sbuf(tile: Tile) -> Tile:
    """The tile itself, or a copy when it lies in PSUM (the compiler inserts it too)."""
    if tile.space is not Space.PSUM:
        return tile
    copy = copy_tile(tile)
    copy.fresh = None
    return copy


# -- reductions, broadcasting, matmul -------------------------------------------------------------


def reduce_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Free axes of a reduction, sorted.

    Raises:
        KernelFault: an axis is the partition axis or does not exist.
    """
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    result = sorted({a + rank if a < 0 else a for a in axes})
    if not result or result[0] < 1 or result[-1] >= rank:
        raise KernelFault(
            "bad_reduction_axis",
            f"can't reduce axes {list(axes)} of a tile with {rank} axes",
            limit=f"free axes 1 to {rank - 1}",
            hint="the partition axis can't be reduced here",
        )
    return tuple(result)


def reduce(
    op: str,
    data: Any,
    axis: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    keepdims: bool = False,
    negate: bool = False,
) -> Tile:
    """One `tensor_reduce` over free axes; the result has at least two axes."""
    tile = require_tile(data, "data")
    axes = reduce_axes(axis, tile.ndim)
    kept = tuple(1 if a in axes else n for a, n in enumerate(tile.shape))
    shape = kept if keepdims else tuple(n for a, n in enumerate(kept) if a not in axes)
    if len(shape) < 2:
        shape = (*shape, 1)
    attrs: dict[str, Any] = {"op": op, "axes": list(axes)}
    if negate:
        attrs["negate"] = True
    return compute(
        "tensor_reduce",
        [("data", tile.access())],
        shape=shape,
        dtype=tile.dtype_code if dtype is None else code_of_type(dtype),
        attrs=attrs,
        predicate=mask_predicate(mask, tuple(tile.shape)),
    )


def broadcast_tile(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """NumPy broadcast of a tile. Free axes cost nothing; partitions take ones-matmuls."""
    require_tile(tile, "src")
    if len(shape) < tile.ndim:
        units = [a for a in range(1, tile.ndim) if tile.shape[a] == 1][: tile.ndim - len(shape)]
        reduced = without_axes(tile.ndim, units)
        kept = tuple(n for a, n in enumerate(tile.shape) if a not in units)
        tile = tile.with_grid(kept, reduced, tile.par)
    if len(shape) < tile.ndim or any(
        n not in (1, s) for n, s in zip(reversed(tile.shape), reversed(shape), strict=False)
    ):
        raise KernelFault("shape_mismatch", f"can't broadcast {tuple(tile.shape)} to {shape}")
    if tuple(tile.shape) == shape:
        return tile
    if len(shape) != tile.ndim:
        raise unsupported("broadcast_to that adds axes")
    if tile.space is Space.HBM or tile.shape[0] == shape[0]:
        mapping: dict[VarKey, Affine] = {
            ("axis", a): Affine(0) for a, n in enumerate(tile.shape) if n == 1 != shape[a]
        }
        return tile.with_grid(shape, mapping, tile.par)
    source = in_sbuf(tile)
    if len(shape) != 2 or source.shape[1] != shape[1]:
        raise unsupported("a broadcast of partition and free axes at once")
    columns = shape[1]
    if columns <= PSUM_FMAX:
        result = compute(
            "partition_broadcast",
            [("data", fit_row(source, shape))],
            shape=shape,
            dtype=tile.dtype_code,
            space=Space.PSUM,
        )
        result.fresh = None
        return result
    whole = new_tensor(shape, tile.dtype_code, Space.SBUF)
    for start in range(0, columns, PSUM_FMAX):
        width = min(PSUM_FMAX, columns - start)
        chunk = compute(
            "partition_broadcast",
            [("data", fit_row(source[:, start : start + width], (shape[0], width)))],
            shape=(shape[0], width),
            dtype=tile.dtype_code,
            space=Space.PSUM,
        )
        target = whole[:, start : start + width]
        current().emit("tensor_copy", [("dst", target.access()), ("src", chunk.access())])
    return whole


def fit_row(tile: Tile, shape: tuple[int, ...]) -> Access:
    """A `(1, F)` tile read by every partition of a `(P, F)` grid."""
    return tile.with_grid(shape, {("axis", 0): Affine(0)}, 0).access(shape)


def matmul(
    stationary: Any,
    moving: Any,
    *,
    mask: Any = None,
    attrs: dict[str, Any] | None = None,
) -> Tile:
    """One `nc_matmul`: stationary[K, M]^T x moving[K, N] into a fresh PSUM tile, float32."""
    given, streamed = require_tile(stationary, "stationary"), require_tile(moving, "moving")
    left, right = in_sbuf(without_mask(given)), in_sbuf(without_mask(streamed))
    if left.shape[0] != right.shape[0]:
        raise KernelFault(
            "err_num_partition_mismatch",
            f"stationary has {left.shape[0]} partitions, moving {right.shape[0]}",
            required=left.shape[0],
            limit=right.shape[0],
        )
    paired = 1 if attrs and "perf_mode" in attrs else 0
    if left.ndim != 2 + paired or right.ndim < 2 + paired:
        raise unsupported("a stationary operand with more than two axes")
    shape = (left.shape[1 + paired], *right.shape[1 + paired :])
    masks = matmul_mask(mask, given, streamed, paired)
    switch = mask_predicate(mask, shape) if isinstance(mask, (bool, np.bool_)) else ()
    if isinstance(mask, Mask):
        refuse_non_affine(mask)
    elif mask is not None and not switch:
        mask_predicate(mask, shape)  # faults
    return compute(
        "nc_matmul",
        [
            ("stationary", left.access()),
            ("moving", right.access()),
            *masks.operands(left.shape[0]),
        ],
        shape=shape,
        dtype=FLOAT32,
        space=Space.PSUM,
        attrs=attrs,
        predicate=masks.predicate + switch,
    )


def transpose(
    data: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Engine = Engine.UNKNOWN,
    implied: bool = False,
) -> Tile:
    """One `nc_transpose`: (P, F) to (F, P); tensor engine into PSUM, vector engine into SBUF.

    `implied` marks one that no line of the kernel asks for (the compiler repeats those).
    """
    tile = require_tile(data, "data")
    if tile.ndim != 2:
        raise KernelFault(
            "err_exceed_max_supported_dimension",
            f"transpose of a tile with {tile.ndim} axes",
            required=tile.ndim,
            limit=2,
        )
    rows, columns = tile.shape
    if engine is Engine.UNKNOWN:
        engine = Engine.VECTOR if rows <= 32 and columns <= 32 else Engine.TENSOR
    if engine is Engine.TENSOR:
        tile = in_sbuf(tile)
    out = tile.dtype_code if dtype is None else code_of_type(dtype)
    return compute(
        "nc_transpose",
        [("data", tile.access())],
        shape=(columns, rows),
        dtype=out,
        space=Space.PSUM if engine is Engine.TENSOR else Space.SBUF,
        engine=engine,
        attrs={"implied": True} if implied else {},
        predicate=mask_predicate(mask, (rows, columns)),
    )


def in_place(target: Tile, op: str, value: Any) -> Tile:
    """`target op= value`; a fresh matmul accumulates into PSUM at no extra cost."""
    if target.space is Space.HBM:
        _not_hbm(target)
    if isinstance(value, Tile) and op == "add" and target.space is Space.PSUM:
        instruction = value.fresh
        if (
            instruction is not None
            and instruction.op == "nc_matmul"
            and current().builder.instructions[-1] is instruction
            and not target.mask
        ):
            instruction.attrs = instruction.attrs | {"accumulate": True}
            instruction.operands[0] = ("dst", fit(target, tuple(value.shape), "value"))
            value.fresh = None
            return target
    named(value)
    result = binary(op, target, value, dtype=target.dtype, partition_broadcast=False)
    if result.fresh is not None:
        result.fresh.attrs = result.fresh.attrs | {"accumulate": True}
        result.fresh.operands[0] = ("dst", fit(target, tuple(result.shape), "value"))
    return target
