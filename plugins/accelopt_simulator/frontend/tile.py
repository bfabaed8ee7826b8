"""Tensors and tiles as kernel code sees them: regions of storage, subscripted and assigned to.

A `Tile` is a view: a grid of extents and, for every dimension of its tensor, an affine expression
over the grid's axes and the loop variables. The result of an instruction is a tile over fresh
storage whose placement is still open: when it is assigned at once, unnamed, the instruction writes
straight to the target (spec section 1.12).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.frontend.entry_points import plain
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import (
    DynamicSlice,
    Index,
    Mask,
    MGrid,
    as_index,
    as_int,
    broadcast_shapes,
    unused_axes,
    without_axes,
)
from accelopt_simulator.frontend.session import current
from accelopt_simulator.trace.builder import (
    Access,
    Affine,
    Instruction,
    Predicate,
    TensorRow,
    VarKey,
)
from accelopt_simulator.trace.schema import Init, Space, TensorRole
from accelopt_simulator.trace.validate import MAX_EXTENT


class Shape(tuple[int, ...]):
    """A shape that also equals a list with the same extents."""

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (list, tuple)) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class Tile:
    """A region of a tensor.

    Attributes:
        tensor: tensor id in the trace builder.
        space: memory it lies in.
        dtype_code: element type.
        shape: extents of the grid.
        index: one expression per dimension of the tensor, over `("axis", a)` of this grid.
        par: which grid axis is the partition axis; None in HBM.
        scope: innermost loop the storage was made in; -1 at the top.
        branch: innermost symbolic branch it was made in; -1 for none.
        mask: operand mask over this grid.
        fresh: the instruction whose unplaced result this is, or None.
    """

    __slots__ = (
        "branch", "dtype_code", "fresh", "index", "mask", "par", "scope", "shape", "space",
        "tensor",
    )  # fmt: skip

    def __init__(
        self,
        tensor: int,
        space: Space,
        dtype_code: int,
        shape: tuple[int, ...],
        index: tuple[Affine, ...],
        par: int | None,
        scope: int,
        branch: int,
        mask: Predicate = (),
    ) -> None:
        self.tensor = tensor
        self.space = space
        self.dtype_code = dtype_code
        self.shape = Shape(shape)
        self.index = index
        self.par = par
        self.scope = scope
        self.branch = branch
        self.mask = mask
        self.fresh: Instruction | None = None

    # -- plain properties -------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Rank of the grid."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """Element type; compares equal to the NumPy type and to NKI's name for it."""
        from accelopt_simulator.frontend.types import TYPE_BY_CODE

        return TYPE_BY_CODE[self.dtype_code]

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return DTYPES[self.dtype_code].itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def buffer(self) -> Space:
        """Memory it lies in."""
        return self.space

    def with_grid(
        self, shape: tuple[int, ...], mapping: dict[VarKey, Affine], par: int | None
    ) -> Tile:
        """A view with another grid; `mapping` gives each old axis over the new ones."""
        index = tuple(affine.substitute(mapping) for affine in self.index)
        mask = tuple(tuple((a.substitute(mapping), c) for a, c in cl) for cl in self.mask)
        return Tile(
            self.tensor,
            self.space,
            self.dtype_code,
            shape,
            index,
            par,
            self.scope,
            self.branch,
            mask,
        )

    def access(self, grid: tuple[int, ...] | None = None) -> Access:
        """This region as an operand; checks that its storage is still in scope."""
        if self.mask:
            raise unsupported("an operand mask, as in tile[mask],")
        if not current().in_scope(self.scope):
            name = current().builder.tensors[self.tensor].name
            raise KernelFault(
                "err_local_variable_used_out_of_scope",
                f"tile {name or 'of this expression'} was made inside a loop that has ended",
                hint="declare the tensor before the loop and write to it with tensor[...] = value",
            )
        if not current().branch_open(self.branch):
            raise KernelFault(
                "err_local_variable_used_out_of_scope",
                "a tile made under an `if` on a loop index is used after it",
                hint="declare the tensor before the `if` and write to it with tensor[...] = value",
            )
        return Access(self.tensor, grid if grid is not None else tuple(self.shape), self.index)

    # -- subscripts -------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tile:
        key = plain(key)
        if isinstance(key, Mask):
            mask = self.mask + key.aligned(self.ndim)
            view = self.with_grid(tuple(self.shape), {}, self.par)
            view.mask = mask
            return view
        keys = tuple(key) if isinstance(key, (tuple, MGrid)) else (key,)
        if any(isinstance(k, Tile) for k in keys):
            from accelopt_simulator.frontend.indirect import dynamic_index

            keys = tuple(dynamic_index(k) if isinstance(k, Tile) else k for k in keys)
        if any(isinstance(k, Index) and k.ndim for k in keys):
            return self._advanced(keys)
        return self._basic(keys)

    def _advanced(self, keys: tuple[Any, ...]) -> Tile:
        if any(isinstance(k, (slice, DynamicSlice)) or k is Ellipsis or k is None for k in keys):
            raise KernelFault(
                "err_unsupported_mixing_basic_advanced_tensor_indexing",
                "slices and arange indices are mixed in one subscript",
                hint="use nl.arange for every dimension, or slices for every dimension",
            )
        if len(keys) != self.ndim:
            raise KernelFault(
                "wrong_number_of_indices",
                f"{len(keys)} indices for a tensor of {self.ndim} dimensions",
                hint="advanced indexing gives one index per dimension",
            )
        indices = [_index_or_fault(k) for k in keys]
        if self.space is not Space.HBM and any(k.ndim == 1 for k in indices):
            raise KernelFault(
                "err_1d_arange_not_supported",
                "a 1-D arange indexes an on-chip tensor",
                hint="add an axis: nl.arange(n)[:, None] or nl.arange(n)[None, :]",
            )
        shape = broadcast_shapes(*(k.shape for k in indices))
        mapping: dict[VarKey, Affine] = {
            ("axis", axis): k.aligned(len(shape)) for axis, k in enumerate(indices)
        }
        par = None if self.space is Space.HBM else 0
        dropped = unused_axes(list(mapping.values()), shape) if len(shape) > 2 else []
        if dropped and any(k.dense for k in indices):
            rank = len(shape)
            dropped = dropped[: rank - 2]
            reduced = without_axes(rank, dropped)
            mapping = {key: affine.substitute(reduced) for key, affine in mapping.items()}
            shape = tuple(n for a, n in enumerate(shape) if a not in dropped)
        return self.with_grid(shape, mapping, par)

    def _basic(self, keys: tuple[Any, ...]) -> Tile:
        if sum(k is Ellipsis for k in keys) > 1:
            raise KernelFault("bad_subscript", "more than one ellipsis in a subscript")
        given = sum(k is not None and k is not Ellipsis for k in keys)
        if given > self.ndim:
            raise KernelFault(
                "wrong_number_of_indices",
                f"{given} indices for a tensor of {self.ndim} dimensions",
            )
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        keys = keys[:at] + (slice(None),) * (self.ndim - given) + keys[at + 1 :]
        shape: list[int] = []
        mapping: dict[VarKey, Affine] = {}
        par: int | None = None
        axis = 0
        for item in keys:
            if item is None:
                shape.append(1)
                continue
            extent = self.shape[axis]
            if isinstance(item, (slice, DynamicSlice)):
                start, size, step = _slice_bounds(item, extent)
                mapping["axis", axis] = Affine.var(("axis", len(shape))) * step + start
                keep = True
            else:
                mapping["axis", axis] = _basic_index(item, extent)
                size, keep = 1, axis == self.par
            if axis == self.par:
                par = len(shape)
            if keep:
                shape.append(size)
            axis += 1
        if self.space is not Space.HBM and par is not None and par == len(shape) - 1:
            shape.append(1)
        return self.with_grid(tuple(shape), mapping, par)

    def __setitem__(self, key: Any, value: Any) -> None:
        from accelopt_simulator.frontend.lower import assign

        assign(self[key], plain(value))

    def __iter__(self) -> Iterator[Any]:
        raise KernelFault("tile_not_iterable", "a tensor can't be iterated over in Python")

    def __len__(self) -> int:
        return self.shape[0]

    # -- views ------------------------------------------------------------------------------------

    def reshape(self, *args: Any, shape: Any = None) -> Tile:
        """A view with another shape: HBM tensors, or the free axes of a whole on-chip tensor."""
        wanted = shape if shape is not None else args[0] if len(args) == 1 else args
        target = normalize_shape(wanted if isinstance(wanted, (list, tuple)) else (wanted,))
        row = current().builder.tensors[self.tensor]
        if target == tuple(self.shape):
            return self
        if math.prod(target) != self.size:
            raise KernelFault(
                "bad_reshape", f"can't reshape {tuple(self.shape)} to {target}: sizes differ"
            )
        whole = self.index == whole_index(row.shape) and tuple(self.shape) == row.shape
        if not whole or (
            self.space is not Space.HBM and (self.par != 0 or target[0] != row.shape[0])
        ):
            raise unsupported("reshape of a part of a tensor or across the partition dimension")
        base = row.alias if row.alias >= 0 else self.tensor
        alias = current().builder.tensor(
            TensorRow(
                space=self.space, dtype=row.dtype, shape=target, par_dim=row.par_dim,
                role=row.role if row.role is TensorRole.INPUT else TensorRole.LOCAL,
                index=row.index, alias=base, name=row.name, line=current().line(),
            )
        )  # fmt: skip
        current().builder.tensors[alias].scope = self.scope
        return Tile(
            alias, self.space, self.dtype_code, target, whole_index(target), self.par, self.scope,
            self.branch,
        )  # fmt: skip

    def broadcast_to(self, shape: Any) -> Tile:
        """NumPy broadcast; growing the partition axis takes the tensor engine."""
        from accelopt_simulator.frontend.lower import broadcast_tile

        return broadcast_tile(self, normalize_shape(shape))

    def astype(self, dtype: Any) -> Tile:
        """A copy with another element type."""
        from accelopt_simulator.frontend.lower import copy_tile
        from accelopt_simulator.frontend.types import code_of_type

        return copy_tile(self, code_of_type(dtype))

    def expand_dims(self, axis: int | tuple[int, ...]) -> Tile:
        """A view with size-1 axes inserted."""
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        rank = self.ndim + len(axes)
        where = {a % rank for a in axes}
        shape, mapping, old = [], {}, 0
        for new in range(rank):
            if new in where:
                shape.append(1)
            else:
                mapping["axis", old] = Affine.var(("axis", new))
                shape.append(self.shape[old])
                old += 1
        return self.with_grid(tuple(shape), mapping, self.par)

    def assert_shape(self, shape: Any) -> Tile:
        """Returns itself, or faults when the shape differs."""
        if tuple(self.shape) != normalize_shape(shape):
            raise KernelFault(
                "err_annotation_shape_mismatch",
                f"shape is {tuple(self.shape)}, asserted {normalize_shape(shape)}",
            )
        return self

    # -- truth ------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        if self.size == 1:
            raise KernelFault(
                "err_dynamic_control_flow_not_supported",
                "a condition on tensor contents can't steer a kernel",
                hint="compute both sides and select with a mask or nl.where",
            )
        raise KernelFault(
            "err_ambiguous_tensor_truth_value",
            "the truth value of a tensor is ambiguous",
            hint="use ~, & and | on tensors, and `is None` to test for absence",
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"tile({self.dtype_code_name} {tuple(self.shape)} in {self.space.name.lower()})"

    @property
    def dtype_code_name(self) -> str:
        """Name of the element type."""
        return DTYPES[self.dtype_code].name


def whole_index(shape: tuple[int, ...]) -> tuple[Affine, ...]:
    """The index of a whole tensor: axis d along dimension d."""
    return tuple(Affine.var(("axis", axis)) for axis in range(len(shape)))


def normalize_shape(shape: Any) -> tuple[int, ...]:
    """A shape as plain integers; accepts lists, NumPy integers and `nl.par_dim` values."""
    extents = []
    for item in shape if isinstance(shape, (list, tuple)) else (shape,):
        value = as_int(item)
        if value is None:
            raise KernelFault(
                "shape_not_constant",
                f"a shape entry is {type(item).__name__}, not an integer",
                hint="shapes must be compile-time integers",
            )
        if value <= 0:
            raise KernelFault("shape_not_positive", f"a shape entry is {value}")
        if value >= MAX_EXTENT:
            raise KernelFault(
                "shape_too_large",
                "a shape entry is too large",
                required=value,
                limit=MAX_EXTENT - 1,
            )
        extents.append(value)
    return tuple(extents)


def new_tensor(
    shape: tuple[int, ...],
    dtype_code: int,
    space: Space,
    *,
    par_dim: int = 0,
    role: TensorRole = TensorRole.LOCAL,
    init: Init = Init.UNDEFINED,
    index: int = -1,
    name: str = "",
) -> Tile:
    """A tile over the whole of a fresh tensor."""
    session = current()
    par = None if space is Space.HBM else par_dim
    row = TensorRow(
        space=space, dtype=dtype_code, shape=shape, par_dim=-1 if par is None else par, role=role,
        init=init, index=index, name=name, line=session.line(),
    )  # fmt: skip
    tensor = session.builder.tensor(row)
    # HBM outlives every block.
    branch = -1 if space is Space.HBM else session.branch
    return Tile(tensor, space, dtype_code, shape, whole_index(shape), par, row.scope, branch)


def _index_or_fault(key: Any) -> Index:
    index = as_index(key)
    if index is None:
        raise KernelFault("bad_subscript", f"can't index a tensor with {type(key).__name__}")
    return index


def _basic_index(item: Any, extent: int) -> Affine:
    index = _index_or_fault(item)
    if index.affine.is_constant and index.affine.const < 0:
        return Affine(index.affine.const + extent)
    return index.affine


def _slice_bounds(item: slice | DynamicSlice, extent: int) -> tuple[Affine, int, int]:
    """(start, size, step) of a slice; the size must be a constant."""
    if isinstance(item, DynamicSlice):
        size = as_int(item.size)
        if size is None or size <= 0:
            raise KernelFault("bad_slice", "the size of nl.ds must be a positive constant")
        return _index_or_fault(item.start).affine, size, 1
    step = 1 if item.step is None else as_int(item.step)
    if step is None or step <= 0:
        raise KernelFault("bad_slice", "the step of a slice must be a positive constant")
    start = Affine(0) if item.start is None else _basic_index(item.start, extent)
    stop = Affine(extent) if item.stop is None else _basic_index(item.stop, extent)
    span = stop - start
    if not span.is_constant:
        raise KernelFault(
            "variable_slice_size",
            "a slice has a size that is not constant",
            hint="use nl.ds(start, size) with a constant size, and a mask",
        )
    if span.const <= 0:
        raise KernelFault("bad_slice", f"a slice is empty: {span.const} elements")
    return start, -(-span.const // step), step
