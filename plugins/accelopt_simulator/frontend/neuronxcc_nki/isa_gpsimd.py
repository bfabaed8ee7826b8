"""`nisa` calls of the GpSimd engine, and the transposing DMA (spec 3.4, 3.5)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from accelopt_simulator.frontend import lower
from accelopt_simulator.frontend.expressions import expression
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import as_index, as_mask
from accelopt_simulator.frontend.lower_math import result_type
from accelopt_simulator.frontend.neuronxcc_nki.language_math import transposed_by_dma
from accelopt_simulator.frontend.tile import Tile
from accelopt_simulator.frontend.types import code_of_type, op_name, scalar_value
from accelopt_simulator.isa import PARTITION_REDUCTIONS
from accelopt_simulator.trace.schema import Compare, Space

_COMPARE_NAMES = {Compare.GE: "ge", Compare.EQ: "eq", Compare.NE: "ne"}
_TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> Tile:
    """An index expression as a tile; a loop index gives (1, 1)."""
    index = as_index(expr)
    if index is None:
        raise KernelFault("bad_subscript", f"nisa.iota of {type(expr).__name__}, not of an index")
    shape = index.shape or (1, 1)
    if len(shape) < 2:
        raise KernelFault(
            "err_1d_arange_not_supported",
            "a 1-D arange makes no tile",
            hint="add an axis: nl.arange(n)[:, None] or nl.arange(n)[None, :]",
        )
    return lower.compute(
        "iota",
        [("expr", expression(index.affine, shape))],
        shape=shape,
        dtype=code_of_type(dtype),
        predicate=lower.mask_predicate(mask, shape),
    )


def affine_select(
    pred: Any,
    on_true_tile: Any,
    on_false_value: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tile:
    """Elements where one comparison of indices holds; the others become a number."""
    tile = lower.in_sbuf(lower.require_tile(on_true_tile, "on_true_tile"))
    shape, number = tuple(tile.shape), scalar_value(on_false_value)
    comparison = as_mask(pred)
    if comparison is None or len(comparison.predicate) != 1 or len(comparison.predicate[0]) != 1:
        raise KernelFault(
            "err_unsupported_expression_in_mask",
            "the predicate of affine_select is a single comparison of indices",
            hint="use one affine_select per comparison",
        )
    if number is None:
        raise KernelFault("bad_fill_value", "on_false_value of affine_select is a number")
    # The same rules as for a mask, which it is not.
    ((affine, compare),) = lower.mask_predicate(pred, shape)[0]
    return lower.compute(
        "affine_select",
        [("data", tile.access()), ("expr", expression(affine, shape)), ("on_false", number)],
        shape=shape,
        dtype=result_type(tile, dtype),
        attrs={"compare": _COMPARE_NAMES[compare]},
        predicate=lower.mask_predicate(mask, shape),
    )


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tile:
    """Reduction over the partitions: (P, F...) to (1, F...)."""
    tile, name = lower.in_sbuf(lower.require_tile(data, "data")), op_name(op)
    if name not in PARTITION_REDUCTIONS:
        raise KernelFault(
            "unsupported_operator",
            f"tensor_partition_reduce can't reduce with {name!r}",
            limit=", ".join(sorted(PARTITION_REDUCTIONS)),
        )
    return lower.compute(
        "tensor_partition_reduce",
        [("data", tile.access())],
        shape=(1, *tile.shape[1:]),
        dtype=result_type(tile, dtype),
        attrs={"op": name},
        predicate=lower.mask_predicate(mask, tuple(tile.shape)),
    )


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, **kwargs: Any) -> Tile:
    """Start and end of the run of equal ids that each element belongs to: (1, n) to (1, 2, n)."""
    tile = lower.in_sbuf(lower.require_tile(segment_ids, "segment_ids"))
    if tile.ndim != 2 or tile.shape[0] != 1:
        raise KernelFault(
            "shape_mismatch", f"segment_ids has shape {tuple(tile.shape)}, not (1, n)"
        )
    return lower.compute(
        "sequence_bounds",
        [("data", tile.access())],
        shape=(1, 2, tile.shape[1]),
        dtype=result_type(tile, dtype),
    )


def local_gather(
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: Any = None,
    *,
    mask: Any = None,
    **kwargs: Any,
) -> Tile:
    """Each GpSimd core gathers elements for its 16 partitions."""
    if mask is not None:
        raise unsupported("a mask on local_gather")
    source = lower.in_sbuf(lower.require_tile(src_buffer, "src_buffer"))
    indices = lower.in_sbuf(lower.require_tile(index, "index"))
    rows, columns = indices.shape[0], indices.size // indices.shape[0]
    every = columns * 16
    valid = every if num_valid_indices is None else int(num_valid_indices)
    shape = (rows, columns, 16, num_elem_per_idx)
    if valid != every:
        shape = (rows, valid, num_elem_per_idx)  # type: ignore[assignment]
    if min(shape) < 1:
        raise KernelFault("bad_operands", "num_valid_indices and num_elem_per_idx are positive")
    return lower.compute(
        "local_gather",
        [("src", source.access()), ("indices", indices.access())],
        shape=shape,
        dtype=source.dtype_code,
        attrs={"elements": int(num_elem_per_idx), "valid": valid},
    )


def dma_transpose(
    src: Any, *, axes: Any = None, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tile:
    """Transposed copy into SBUF by DMA, from HBM or SBUF."""
    tile = lower.require_tile(src, "src")
    if tile.space is Space.PSUM:
        tile = lower.in_sbuf(tile)
    wanted = _TRANSPOSES.get(tile.ndim)
    if wanted is None or (axes is not None and tuple(axes) != wanted):
        raise KernelFault(
            "bad_transpose_axes",
            f"dma_transpose of {tile.ndim} axes by {axes}",
            limit="(1, 0), (2, 1, 0) or (3, 1, 2, 0)",
        )
    return transposed_by_dma(tile, wanted, dtype, mask)


NAMES: MappingProxyType[str, Any] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            iota, affine_select, tensor_partition_reduce, sequence_bounds, local_gather,
            dma_transpose,
        )
    }
)  # fmt: skip
"""Name -> what a kernel finds in `nisa`."""
