"""`neuronxcc.nki.language` (`nl`). Semantics: spec sections 1 and 2; lowering: section 2.9."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.dtypes import DTYPES, FLOAT32
from accelopt_simulator.frontend import lower
from accelopt_simulator.frontend.buffers import Buffer, PlacedBuffer
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import DynamicSlice, Index, MGridMaker
from accelopt_simulator.frontend.index import arange as make_arange
from accelopt_simulator.frontend.loop_reduce import LoopReduction
from accelopt_simulator.frontend.matmul_masks import without_mask
from accelopt_simulator.frontend.neuronxcc_nki import language_math
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile, new_tensor, normalize_shape
from accelopt_simulator.frontend.types import (
    TYPE_BY_CODE,
    TYPE_BY_NAME,
    Fp32,
    OpFunction,
    ParDim,
    TileSize,
    code_of_type,
    scalar_value,
)
from accelopt_simulator.isa import ACTIVATIONS
from accelopt_simulator.trace.builder import Affine
from accelopt_simulator.trace.schema import Init, LoopKind, Space, TensorRole

# -- memories and creation -------------------------------------------------------------------------


sbuf = Buffer("sbuf", Space.SBUF)
psum = Buffer("psum", Space.PSUM)
hbm = Buffer("hbm", Space.HBM)
private_hbm = Buffer("private_hbm", Space.HBM)
shared_hbm = Buffer("shared_hbm", Space.HBM)


def _space_of(buffer: Any) -> Space:
    if buffer is None:
        return Space.SBUF
    if not isinstance(buffer, Buffer):
        raise KernelFault(
            "bad_buffer",
            f"buffer={buffer!r} is not a memory",
            hint="use nl.sbuf, nl.psum, nl.shared_hbm",
        )
    return buffer.space


def _create(
    shape: Any, dtype: Any, buffer: Any, name: str, value: float | None, **options: Any
) -> Tile:
    space = _space_of(buffer)
    items = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    par_dim = next((i for i, item in enumerate(items) if isinstance(item, ParDim)), 0)
    extents = normalize_shape(items)
    if value is not None and space is Space.HBM:
        raise KernelFault(
            "err_hbm_tensor_with_init_value_not_supported",
            "an HBM tensor can't be created with a value",
            hint="create it with nl.ndarray and write it with nl.store",
        )
    if buffer is shared_hbm and not current().at_kernel_level:
        raise KernelFault(
            "err_shared_hbm_must_in_kernel_level",
            "a shared_hbm tensor is created inside a loop or condition",
            hint="create it at the top level of the kernel",
        )
    if space is not Space.HBM and len(extents) - par_dim < 2:
        raise KernelFault(
            "insufficient_rank",
            f"an on-chip tensor of shape {extents} has no free dimension",
            hint="give it a partition and at least one free dimension, for example (128, 1)",
        )
    if value is not None and isinstance(buffer, PlacedBuffer):
        raise KernelFault(
            "err_tensor_creation_on_scratchpad_with_init_value_not_supported",
            "a tensor with direct allocation can't be created with a value",
            hint="create it with nl.ndarray and fill it with nisa.memset",
        )
    if space is not Space.HBM and par_dim > 0:
        current().warn(
            "err_leading_dimension_of_tensor_must_be_partition",
            f"an on-chip tensor of shape {extents} has {par_dim} block dimension(s) before its "
            "partition dimension",
            hint="block dimensions are deprecated: make one tensor per block, or put them behind "
            "the partition dimension",
        )
    # A zero accumulator needs no instruction: the first matmul of a group overwrites.
    lazy = value == 0.0 and (space is Space.PSUM or bool(options.get("lazy_initialization")))
    tile = new_tensor(
        extents,
        code_of_type(dtype),
        space,
        par_dim=par_dim,
        init=Init.ZERO if lazy else Init.UNDEFINED,
        name=name or "",
    )
    if isinstance(buffer, PlacedBuffer):
        free_bytes = math.prod(extents[par_dim + 1 :]) * tile.itemsize
        buffer.check(extents[:par_dim], extents[par_dim], free_bytes)
        current().placed.add(tile.tensor)
    if value is not None and not lazy:
        _fill_blocks(tile, par_dim, value)
    return tile


def _fill_blocks(tile: Tile, par_dim: int, value: float) -> None:
    """Set every block of a tensor; one loop per block dimension."""
    if par_dim == 0:
        lower.fill(tile, value)
        return
    for block in current().loop(LoopKind.AFFINE, (tile.shape[0],)):
        _fill_blocks(tile[block], par_dim - 1, value)


def ndarray(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Tile:
    """An uninitialized tensor; reading it before it is written gives NaN."""
    return _create(shape, dtype, buffer, name, None, **kwargs)


def zeros(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Tile:
    """A tensor of zeros; in PSUM a free accumulator."""
    return _create(shape, dtype, buffer, name, 0.0, **kwargs)


def ones(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Tile:
    """A tensor of ones."""
    return _create(shape, dtype, buffer, name, 1.0, **kwargs)


def full(
    shape: Any, fill_value: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Tile:
    """A tensor of one value."""
    number = scalar_value(fill_value)
    if number is None:
        raise KernelFault("bad_fill_value", "nl.full takes a number")
    return _create(shape, dtype, buffer, name, number, **kwargs)


def empty_like(
    a: Tile, dtype: Any = None, *, buffer: Any = None, name: str = "", **kw: Any
) -> Tile:
    """An uninitialized tensor of the shape of `a`."""
    return ndarray(tuple(a.shape), a.dtype if dtype is None else dtype, buffer=buffer, name=name)


def zeros_like(
    a: Tile, dtype: Any = None, *, buffer: Any = None, name: str = "", **kw: Any
) -> Tile:
    """A tensor of zeros of the shape of `a`."""
    return zeros(tuple(a.shape), a.dtype if dtype is None else dtype, buffer=buffer, name=name)


def shared_constant(constant: Any, dtype: Any = None, **kwargs: Any) -> Tile:
    """A constant HBM tensor with the contents of a NumPy array; must be loaded before use."""
    code = code_of_type(np.asarray(constant).dtype if dtype is None else dtype)
    if np.ndim(constant) == 0 or np.size(constant) == 0:
        raise KernelFault("bad_constant", "nl.shared_constant needs a non-empty array")
    # A copy: what the kernel does to its array later is not recorded.
    array = np.array(constant, dtype=TYPE_BY_CODE[code].dtype, order="C")
    index = len(current().builder.constants)
    current().builder.constants.append(array)
    return new_tensor(
        array.shape, code, Space.HBM, role=TensorRole.CONSTANT, index=index, name="constant"
    )


def shared_identity_matrix(n: int, dtype: Any = np.uint8, **kwargs: Any) -> Tile:
    """The n x n identity as a constant HBM tensor."""
    return shared_constant(np.eye(n), dtype)


# -- data movement ---------------------------------------------------------------------------------


def _hbm(tile: Any, role: str, call: str) -> Tile:
    if not isinstance(tile, Tile):
        raise KernelFault("operand_not_a_tile", f"{call} {role} is {type(tile).__name__}")
    if tile.space is not Space.HBM:
        raise KernelFault(
            "err_unsupported_memory",
            f"operand {role!r} of {call} must be in hbm, it is in {tile.space.name.lower()}",
            required=tile.space.name.lower(),
            limit="hbm",
        )
    return tile


def load(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """HBM to a fresh SBUF tile."""
    source = _hbm(src, "src", "nl.load")
    shape = lower.two_axes(tuple(source.shape))
    skip = int(kwargs.get("mode", 0)) == 1  # oob_mode.skip
    return lower.compute(
        "dma_copy",
        [("src", lower.fit(source, shape, "src"))],
        shape=shape,
        attrs={"oob": "skip"} if skip else None,
        dtype=source.dtype_code if dtype is None else code_of_type(dtype),
        predicate=lower.mask_predicate(mask, shape),
    )


def store(dst: Any, value: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """A tile or a scalar to HBM."""
    target = _hbm(dst, "dst", "nl.store")
    role = current().builder.tensors[target.tensor].role
    if role in (TensorRole.INPUT, TensorRole.CONSTANT):
        raise KernelFault(
            "err_cannot_update_immutable_parameter",
            "nl.store writes to an input of the kernel",
            hint="create an output with nl.ndarray(..., buffer=nl.shared_hbm) and return it",
        )
    number = scalar_value(value)
    if number is not None:
        shape = lower.two_axes(tuple(target.shape))
        value = new_tensor(shape, target.dtype_code, Space.SBUF)
        lower.fill(value, number)
    tile = lower.in_sbuf(lower.require_tile(value, "value"))
    shape = tuple(tile.shape)
    if tile.size > target.size:
        raise KernelFault(
            "err_store_dst_shape_smaller_than_other_shape",
            f"a value of shape {shape} is stored to {tuple(target.shape)}",
            required=shape,
            limit=tuple(target.shape),
        )
    if tile.size < target.size:
        shape = lower.two_axes(tuple(target.shape))
    current().emit(
        "dma_copy",
        [("dst", lower.fit(target, shape, "dst")), ("src", lower.fit(tile, shape, "value"))],
        predicate=lower.mask_predicate(mask, shape),
    )


def copy(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """A copy in a fresh SBUF tile."""
    tile = lower.require_tile(src, "src")
    return lower.copy_tile(tile, None if dtype is None else code_of_type(dtype), mask)


def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Tile:
    """NumPy broadcast of a tile."""
    return lower.broadcast_tile(lower.require_tile(src, "src"), normalize_shape(shape))


def expand_dims(data: Tile, axis: Any) -> Tile:
    """A view with size-1 axes inserted."""
    return data.expand_dims(axis)


# -- compute ---------------------------------------------------------------------------------------


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **kwargs: Any) -> Tile:
    """x @ y, or x.T @ y; without `transpose_x` the tensor engine transposes x first."""
    left = lower.require_tile(x, "x")
    if not transpose_x:
        swap = {("axis", 0): Affine.var(("axis", 1)), ("axis", 1): Affine.var(("axis", 0))}
        masked = tuple(tuple((a.substitute(swap), c) for a, c in clause) for clause in left.mask)
        left = lower.transpose(without_mask(left), implied=True)
        left.fresh, left.mask = None, masked
    return lower.matmul(left, y, mask=mask)


def transpose(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """x.T of a 2-D tile."""
    return lower.transpose(x, dtype=dtype, mask=mask)


def mean(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kw: Any
) -> Tile:
    """Sum over free axes divided by their extent."""
    if mask is not None:
        raise unsupported("a mask on nl.mean")
    tile = lower.require_tile(x, "x")
    count = math.prod(tile.shape[a] for a in lower.reduce_axes(axis, tile.ndim))
    total = lower.reduce("add", tile, axis, dtype=np.float32, keepdims=keepdims)
    total.fresh = None
    out = tile.dtype_code if DTYPES[tile.dtype_code].is_float else FLOAT32
    if dtype is not None:
        out = code_of_type(dtype)
    return lower.tensor_scalar(total, "multiply", 1.0 / count, dtype=out)


def negative(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """-x."""
    tile = lower.require_tile(x, "x")
    out = tile.dtype_code if dtype is None else code_of_type(dtype)
    return lower.tensor_scalar(tile, "multiply", -1.0, dtype=out, mask=mask)


def loop_reduce(x: Any, op: Any, loop_indices: Any, **kwargs: Any) -> Any:
    """Deferred reduction over loop iterations; part of an assignment."""
    tile = lower.require_tile(x, "x")
    predicate = lower.mask_predicate(kwargs.get("mask"), tuple(tile.shape))
    return LoopReduction(tile, op, loop_indices, predicate)


def _binary(name: str) -> Callable[..., Tile]:
    def function(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        return lower.binary(name, x, y, dtype=dtype, mask=mask)

    function.__doc__ = f"Element-wise {name} with NumPy broadcasting."
    return function


def _comparison(name: str) -> Callable[..., Tile]:
    def function(x: Any, y: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tile:
        return lower.binary(name, x, y, dtype=dtype, mask=mask)

    function.__doc__ = f"Element-wise {name}; 0 or 1."
    return function


def _unary(name: str) -> Callable[..., Tile]:
    def function(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        out = None if dtype is None else code_of_type(dtype)
        return lower.activation(name, x, dtype=out, mask=mask)

    function.__doc__ = f"Element-wise {name} on the scalar engine."
    return function


def _reduction(name: str) -> Callable[..., Tile]:
    def function(
        x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kw: Any
    ) -> Tile:
        return lower.reduce(name, x, axis, dtype=dtype, mask=mask, keepdims=keepdims)

    function.__doc__ = f"Reduction with {name} over free axes."
    return function


# -- loops, indices and the rest -------------------------------------------------------------------


def affine_range(*args: Any, **kwargs: Any) -> Iterator[Index]:
    """A loop whose iterations are independent; the body is traced once."""
    return current().loop(LoopKind.AFFINE, args)


def sequential_range(*args: Any, **kwargs: Any) -> Iterator[Index]:
    """A loop whose iterations run in order; the body is traced once."""
    return current().loop(LoopKind.SEQUENTIAL, args)


def static_range(*args: Any) -> range:
    """A loop that is unrolled while tracing; its index is a Python integer."""
    return range(*args)


def arange(*args: Any) -> Index:
    """A symbolic index over one axis."""
    return make_arange(*args)


def ds(start: Any, size: Any) -> DynamicSlice:
    """The slice `start : start + size`."""
    return DynamicSlice(start, size)


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Host-side cast of a NumPy value."""
    return np.asarray(input_data).astype(TYPE_BY_CODE[code_of_type(dtype)].dtype)


def finfo(dtype: Any) -> Any:
    """Limits of a floating type."""
    import ml_dtypes

    return ml_dtypes.finfo(TYPE_BY_CODE[code_of_type(dtype)].dtype)  # type: ignore[no-untyped-call]


def program_id(axis: int) -> Index:
    """Position of this program instance along an axis of the SPMD grid."""
    session = current()
    if not 0 <= axis < len(session.grid):
        raise KernelFault(
            "bad_program_axis" if session.grid else "no_spmd_grid",
            f"program_id({axis}) in a kernel launched with a grid of {len(session.grid)} axes",
            required=axis,
            limit=len(session.grid) - 1,
        )
    return Index(Affine.var(("loop", session.grid_loops[axis])))


def num_programs(axes: Any = None) -> int:
    """Program instances along the given axes; of the whole grid without."""
    grid = current().grid
    if axes is None:
        return math.prod(grid)
    listed = axes if isinstance(axes, (list, tuple)) else [axes]
    return math.prod(grid[axis] if 0 <= axis < len(grid) else 1 for axis in listed)


def program_ndim() -> int:
    """Rank of the SPMD grid; 0 without one."""
    return len(current().grid)


BINARY_FUNCTIONS = ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]
COMPARISON_FUNCTIONS = [
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
UNARY_FUNCTIONS = sorted(ACTIVATIONS - {"copy"})
REDUCTION_FUNCTIONS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}

NOT_MODELLED: frozenset[str] = frozenset()
"""Names of the dialect that fault with `unsupported_op` when used."""


def namespace() -> dict[str, Any]:
    """Everything a kernel finds in `nl`."""
    names: dict[str, Any] = {
        "sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": private_hbm,
        "shared_hbm": shared_hbm,
        "tile_size": TileSize, "fp32": Fp32, "par_dim": ParDim, "mgrid": MGridMaker(),
        "bool_": TYPE_BY_NAME["bool"],
    }  # fmt: skip
    names |= {name: kind for name, kind in TYPE_BY_NAME.items() if name != "bool"}
    for function in (
        ndarray, zeros, ones, full, empty_like, zeros_like, shared_constant, shared_identity_matrix,
        load, store, broadcast_to, expand_dims, matmul, transpose, mean, loop_reduce, affine_range,
        sequential_range, static_range, arange, ds, static_cast, finfo, program_id, num_programs,
        program_ndim,
    ):  # fmt: skip
        names[function.__name__] = function
    makers: tuple[tuple[list[str], Callable[[str], Callable[..., Tile]]], ...] = (
        (BINARY_FUNCTIONS, _binary),
        (COMPARISON_FUNCTIONS, _comparison),
        (UNARY_FUNCTIONS, _unary),
    )
    for group, maker in makers:
        names |= {name: OpFunction(name, maker(name)) for name in group}
    names |= {n: OpFunction(n, _reduction(op)) for n, op in REDUCTION_FUNCTIONS.items()}
    names |= {"copy": OpFunction("copy", copy), "negative": OpFunction("negative", negative)}
    names |= language_math.NAMES
    return names


NAMESPACE = MappingProxyType(namespace())
