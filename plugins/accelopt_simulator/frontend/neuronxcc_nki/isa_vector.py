"""`nisa` statistics, selections, searches and random draws of the vector engine (spec 3.3)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from accelopt_simulator.dtypes import CODE_BY_NAME
from accelopt_simulator.frontend import accumulators, draws, lower
from accelopt_simulator.frontend.expressions import expression, flat_position
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.index import as_index, as_int
from accelopt_simulator.frontend.lower_math import result_type
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile
from accelopt_simulator.frontend.types import Fp32, code_of_type, op_name, scalar_value
from accelopt_simulator.isa import RANGE_COMPARISONS
from accelopt_simulator.trace.builder import Affine, Operand
from accelopt_simulator.trace.schema import Engine


def _dtype(dtype: Any) -> int | None:
    return None if dtype is None else code_of_type(dtype)


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """Count, mean and count x variance of the even and the odd elements: (P, 6)."""
    tile = lower.require_tile(data, "data")
    return lower.compute(
        "bn_stats",
        [("data", tile.access())],
        shape=(tile.shape[0], 6),
        dtype=result_type(tile, dtype),
        predicate=lower.mask_predicate(mask, tuple(tile.shape)),
    )


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """Mean and variance from such triples: (P, 2)."""
    tile = lower.require_tile(data, "data")
    return lower.compute(
        "bn_aggr",
        [("data", tile.access())],
        shape=(tile.shape[0], 2),
        dtype=result_type(tile, dtype),
        predicate=lower.mask_predicate(mask, tuple(tile.shape)),
    )


def tensor_copy_predicated(
    *,
    src: Any,
    dst: Any,
    predicate: Any,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """In place: dst becomes src where the predicate is not zero."""
    target, chosen = lower.require_tile(dst, "dst"), lower.require_tile(predicate, "predicate")
    shape, number = tuple(target.shape), scalar_value(src)
    source = lower.fit(lower.require_tile(src, "src"), shape, "src") if number is None else number
    current().emit(
        "tensor_copy_predicated",
        [
            ("dst", target.access()),
            ("src", source),
            ("predicate", lower.fit(chosen, shape, "predicate")),
            ("old", target.access()),
        ],
        attrs={"reverse_pred": True} if reverse_pred else None,
        predicate=lower.mask_predicate(mask, shape),
    )


def _maximum(reduce_op: Any, call: str) -> None:
    if op_name(reduce_op) != "maximum":
        raise KernelFault("unsupported_operator", f"{call} can only accumulate with max")


def _result(reduce_res: Any, rows: int) -> list[Operand]:
    if reduce_res is None:
        return []
    tile = lower.require_tile(reduce_res, "reduce_res")
    if tuple(tile.shape) != (rows, 1):
        raise KernelFault(
            "operand_not_a_column",
            f"operand 'reduce_res' has shape {tuple(tile.shape)}, not ({rows}, 1)",
        )
    return [("reduce_res", tile.access())]


def select_reduce(
    *,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = accumulators.IDLE,
    reduce_op: Any = max,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> None:
    """In place: dst becomes on_true or on_false; optionally the running maximum of each row."""
    target = lower.require_tile(dst, "dst")
    shape, command = tuple(target.shape), int(reduce_cmd)
    if reduce_op is not max:
        _maximum(reduce_op, "select_reduce")
    attrs: dict[str, Any] = {"reverse_pred": True} if reverse_pred else {}
    accumulates = command != accumulators.IDLE or reduce_res is not None
    chosen = lower.require_tile(predicate, "predicate")
    source = lower.require_tile(on_true, "on_true")
    instruction = current().emit(
        "select_reduce",
        [
            ("dst", target.access()),
            ("predicate", lower.fit(chosen, shape, "predicate")),
            ("on_true", lower.fit(source, shape, "on_true")),
            ("on_false", lower.column_or_scalar(on_false, target, "on_false")),
            *_result(reduce_res, shape[0]),
        ],
        attrs=attrs | ({"reduce_op": "maximum"} if accumulates else {}),
        predicate=lower.mask_predicate(mask, shape),
    )
    if accumulates:
        accumulators.use_register(Engine.VECTOR, instruction, command, shape[0])


def range_select(
    *,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = accumulators.IDLE,
    reduce_res: Any = None,
    reduce_op: Any = max,
    range_start: Any = 0,
    on_false_value: Any = Fp32.min,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tile:
    """Elements whose position lies between two bounds; the others become the least float32."""
    tile = lower.require_tile(on_true_tile, "on_true_tile")
    shape, command = tuple(tile.shape), int(reduce_cmd)
    if reduce_op is not max:
        _maximum(reduce_op, "range_select")
    comparisons = [op_name(op) for op in (comp_op0, comp_op1)]
    for name in comparisons:
        if name not in RANGE_COMPARISONS:
            raise KernelFault(
                "unsupported_operator",
                f"range_select can't compare with {name!r}",
                limit=", ".join(sorted(RANGE_COMPARISONS)),
            )
    if scalar_value(on_false_value) != Fp32.min:
        raise KernelFault("bad_fill_value", "on_false_value of range_select is nl.fp32.min")
    start = as_index(range_start)
    if start is None or start.ndim:
        raise KernelFault("bad_subscript", "range_start of range_select is an integer")
    accumulates = command != accumulators.IDLE or reduce_res is not None
    attrs: dict[str, Any] = {"comp_op0": comparisons[0], "comp_op1": comparisons[1]}
    result = lower.compute(
        "range_select",
        [
            ("data", tile.access()),
            ("expr", expression(start.affine + flat_position(shape), shape)),
            ("bound0", _bound(bound0, tile, "bound0")),
            ("bound1", _bound(bound1, tile, "bound1")),
            *_result(reduce_res, shape[0]),
        ],
        shape=shape,
        dtype=result_type(tile, dtype),
        attrs=attrs | ({"reduce_op": "maximum"} if accumulates else {}),
        predicate=lower.mask_predicate(mask, shape),
    )
    if accumulates and result.fresh is not None:
        accumulators.use_register(Engine.VECTOR, result.fresh, command, shape[0])
    return result


def _bound(value: Any, data: Tile, role: str) -> Any:
    return lower.column_or_scalar(lower.require_tile(value, role), data, role)


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> None:
    """In place: rows of each 32-partition quadrant change places; 255 leaves a row alone."""
    source, target = lower.require_tile(src, "src"), lower.require_tile(dst, "dst")
    entries = [as_int(e) for e in shuffle_mask]
    if any(e is None for e in entries):
        raise KernelFault("bad_shuffle_mask", "entries of a shuffle mask are compile-time integers")
    shape = tuple(target.shape)
    operands: list[Operand] = [
        ("dst", target.access()), ("src", source.access()), ("old", target.access()),
    ]  # fmt: skip
    predicate = lower.mask_predicate(mask, shape)
    if predicate:
        operands.append(("expr", expression(Affine.var(("axis", 0)), shape)))
    current().emit("nc_stream_shuffle", operands, attrs={"shuffle": entries}, predicate=predicate)


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """The eight greatest values of each partition, in descending order."""
    tile = lower.require_tile(src, "src")
    return lower.compute(
        "max8",
        [("data", tile.access())],
        shape=(tile.shape[0], 8),
        dtype=result_type(tile, dtype),
        predicate=lower.mask_predicate(mask, tuple(tile.shape)),
    )


def _positions(mask: Any, shape: tuple[int, ...]) -> list[Operand]:
    """Positions in the whole tile, which a window of it has lost."""
    return [("expr", expression(flat_position(shape), shape))] if mask is not None else []


def nc_find_index8(
    *, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tile:
    """First flattened position of each of eight values."""
    tile, values = lower.require_tile(data, "data"), lower.require_tile(vals, "vals")
    shape = tuple(tile.shape)
    code = _dtype(dtype)
    return lower.compute(
        "nc_find_index8",
        [("data", tile.access()), ("vals", values.access()), *_positions(mask, shape)],
        shape=(shape[0], 8),
        dtype=CODE_BY_NAME["uint32"] if code is None else code,
        predicate=lower.mask_predicate(mask, shape),
    )


def nc_match_replace8(
    *,
    data: Any,
    vals: Any,
    imm: Any,
    dst_idx: Any = None,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tile:
    """The data with the first match of each of eight values replaced, one after the other."""
    tile, values = lower.require_tile(data, "data"), lower.require_tile(vals, "vals")
    shape, number = tuple(tile.shape), scalar_value(imm)
    if number is None:
        raise KernelFault("bad_fill_value", "imm of nc_match_replace8 is a number")
    found: list[Operand] = []
    if dst_idx is not None:
        found = [("reduce_res_idx", lower.require_tile(dst_idx, "dst_idx").access())]
    return lower.compute(
        "nc_match_replace8",
        [
            ("data", tile.access()),
            ("vals", values.access()),
            ("imm", number),
            *_positions(mask, shape),
            *found,
        ],
        shape=shape,
        dtype=result_type(tile, dtype),
        predicate=lower.mask_predicate(mask, shape),
    )


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """Zero each element with probability `prob`."""
    return draws.dropout(data, prob, dtype=_dtype(dtype), mask=mask)


NAMES: MappingProxyType[str, Any] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            bn_stats, bn_aggr, tensor_copy_predicated, select_reduce, range_select,
            nc_stream_shuffle, max8, nc_find_index8, nc_match_replace8, dropout,
        )
    }
)  # fmt: skip
"""Name -> what a kernel finds in `nisa`."""
