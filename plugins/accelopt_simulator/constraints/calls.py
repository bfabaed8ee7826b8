"""Shapes and attributes of the calls beyond plain arithmetic (spec 3.3 to 3.5).

Attributes come from an untrusted trace: each is checked here before a numeric or a cost rule reads
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.isa import PARTITION_REDUCTIONS, RANGE_COMPARISONS
from accelopt_simulator.trace.schema import TensorRole, Trace

Grids = dict[str, tuple[int, ...]]
Shapes = dict[str, tuple[int, ...]]
Problem = tuple[str, str]
"""(rule, message)."""

MAX8_WIDTH = 16384
BN_STATS_FMAX = 512
GATHER_ELEMENTS = (1, 2, 4, 8, 16, 32)
GATHER_MAX_INDICES = 4096
TRANSPOSE_AXES = ([1, 0], [2, 1, 0], [3, 1, 2, 0])
REDUCE_COMMANDS = ("idle", "reset", "reduce", "reset_reduce")
COMPARISONS = ("ge", "eq", "ne")
RANGE_SELECT_MAX_INDEX = 1 << 24


def _integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value < high


def _width(grid: tuple[int, ...]) -> int:
    return math.prod(grid[1:])


def _like_dst(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    """Everything that is not a column has the destination's shape; checked by the caller."""
    yield from ()


def _bn_stats(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    if _width(grids["data"]) > BN_STATS_FMAX:
        yield (
            "err_size_of_dimension_exceed_arch_limit",
            f"bn_stats of {_width(grids['data'])} elements per partition, at most {BN_STATS_FMAX}",
        )
    if grids["dst"] != (grids["data"][0], 6):
        yield "shape_mismatch", "the result of bn_stats has shape (P, 6)"


def _bn_aggr(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    if _width(grids["data"]) % 3:
        yield "shape_mismatch", "bn_aggr takes triples: a multiple of 3 elements per partition"
    if grids["dst"] != (grids["data"][0], 2):
        yield "shape_mismatch", "the result of bn_aggr has shape (P, 2)"


def _eight(call: str, *roles: str) -> Callable[[Grids, dict[str, Any]], Iterator[Problem]]:
    def check(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
        data = grids["data"]
        least = 1 if call == "nc_match_replace8" else 8
        if not least <= _width(data) <= MAX8_WIDTH:
            yield (
                "err_size_of_dimension_exceed_arch_limit",
                f"{call} of {_width(data)} elements per partition, {least} to {MAX8_WIDTH} are "
                "possible",
            )
        if len(data) > 5:
            yield "err_exceed_max_supported_dimension", f"{call} of a tile with {len(data)} axes"
        for role in roles:
            grid = grids.get(role)
            if grid is not None and (grid[0] != data[0] or _width(grid) != 8 or len(grid) > 3):
                yield "shape_mismatch", f"operand {role!r} of {call} is {grid}, not ({data[0]}, 8)"
        if call == "nc_match_replace8" and grids["dst"] != data:
            yield "shape_mismatch", f"the result of {call} has the shape of its data, {data}"

    return check


def _shuffle(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    entries, src, dst = attrs.get("shuffle"), grids["src"], grids["dst"]
    if not isinstance(entries, list) or len(entries) != 32:
        yield "bad_shuffle_mask", "a shuffle mask has 32 entries"
        return
    if not all(_integer(e, 0, 32) or e == 255 for e in entries):
        yield "bad_shuffle_mask", "entries of a shuffle mask are 0 to 31, or 255 to keep a row"
        return
    if src[1:] != dst[1:]:
        yield "shape_mismatch", f"src {src} and dst {dst} of a shuffle differ in their free axes"
    rows = [row // 32 * 32 + entries[row % 32] for row in range(dst[0]) if entries[row % 32] != 255]
    if any(row >= src[0] for row in rows):
        yield "bad_shuffle_mask", f"a shuffle reads partition {max(rows)} of {src[0]}"


def _iota(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    yield from ()


def _affine_select(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    if attrs.get("compare") not in COMPARISONS:
        yield "bad_operands", "the predicate of affine_select is no comparison"


def _range_select(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    for key in ("comp_op0", "comp_op1"):
        operator = attrs.get(key)
        if not isinstance(operator, str) or operator not in RANGE_COMPARISONS:
            yield "unsupported_op", f"range_select can't compare with {str(operator)[:40]!r}"


def _partition_reduce(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    operator = attrs.get("op")
    if not isinstance(operator, str) or operator not in PARTITION_REDUCTIONS:
        yield "unsupported_op", f"tensor_partition_reduce with {str(operator)[:40]!r} has no rule"
    if grids["dst"] != (1, *grids["data"][1:]):
        yield "shape_mismatch", f"partitions {grids['data']} reduce to one, not {grids['dst']}"


def _sequence_bounds(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    data = grids["data"]
    if len(data) != 2 or data[0] != 1 or grids["dst"] != (1, 2, data[1]):
        yield "shape_mismatch", f"sequence_bounds of {data}: (1, n) gives (1, 2, n)"


def _local_gather(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    src, indices, dst = grids["src"], grids["indices"], grids["dst"]
    elements, valid = attrs.get("elements"), attrs.get("valid")
    if src[0] != indices[0] or src[0] % 16:
        yield "err_num_partition_mismatch", f"local_gather of {src[0]} and {indices[0]} partitions"
        return
    if type(elements) is not int or elements not in GATHER_ELEMENTS:
        yield "bad_operands", f"num_elem_per_idx is one of {GATHER_ELEMENTS}"
        return
    available = 16 * _width(indices)
    if not _integer(valid, 1, min(available, GATHER_MAX_INDICES) + 1):
        yield "bad_operands", f"num_valid_indices is 1 to {min(available, GATHER_MAX_INDICES)}"
    elif dst[0] != src[0] or _width(dst) != int(str(valid)) * elements:
        yield "shape_mismatch", f"the result of local_gather has {dst[1:]} elements per partition"


def _gather_flattened(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    data, indices = grids["data"], grids["indices"]
    if data[0] != indices[0]:
        yield "err_num_partition_mismatch", f"data has {data[0]} partitions, indices {indices[0]}"
    if grids["dst"] != indices:
        yield "shape_mismatch", f"the result has the shape of the indices, {indices}"
    if max(len(data), len(indices)) > 4:
        yield "err_exceed_max_supported_dimension", "gather_flattened takes at most 4 axes"


def _dma_transpose(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    axes, src = attrs.get("axes"), grids["src"]
    if axes not in TRANSPOSE_AXES or any(type(a) is not int for a in axes):
        yield (
            "bad_transpose_axes",
            f"a DMA transposes (1, 0), (2, 1, 0) or (3, 1, 2, 0), not {axes}",
        )
    elif len(src) != len(axes) or grids["dst"] != tuple(src[a] for a in axes):
        yield "shape_mismatch", f"{src} transposed by {axes} is not {grids['dst']}"


def _random(grids: Grids, attrs: dict[str, Any]) -> Iterator[Problem]:
    if not _integer(attrs.get("seed"), 0, 1 << 32) or not _integer(attrs.get("draw"), 0, 1 << 31):
        yield "bad_operands", "a random draw needs a seed and a number"
    if grids.get("seed", (1, 1)) != (1, 1):
        yield "shape_mismatch", "a random seed is a (1, 1) tile"


CALLS: MappingProxyType[str, Callable[[Grids, dict[str, Any]], Iterator[Problem]]] = (
    MappingProxyType(
        {
            "bn_stats": _bn_stats,
            "bn_aggr": _bn_aggr,
            "tensor_copy_predicated": _like_dst,
            "select_reduce": _like_dst,
            "range_select": _range_select,
            "nc_stream_shuffle": _shuffle,
            "max8": _eight("max8", "dst"),
            "nc_find_index8": _eight("nc_find_index8", "dst", "vals"),
            "nc_match_replace8": _eight("nc_match_replace8", "vals", "reduce_res_idx"),
            "rand": _random,
            "dropout": _random,
            "iota": _iota,
            "affine_select": _affine_select,
            "tensor_partition_reduce": _partition_reduce,
            "sequence_bounds": _sequence_bounds,
            "local_gather": _local_gather,
            "gather_flattened": _gather_flattened,
            "dma_transpose": _dma_transpose,
        }
    )
)
"""Opcode -> what is wrong with its shapes and attributes."""

LANEWISE: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "tensor_copy_predicated": ("src", "predicate", "old"),
        "select_reduce": ("predicate", "on_true"),
        "range_select": ("data", "expr"),
        "nc_stream_shuffle": ("old", "expr"),
        "dropout": ("data",),
        "iota": ("expr",),
        "affine_select": ("data", "expr"),
    }
)
"""Operands that have the destination's shape."""

DATA_LIKE = frozenset({"nc_find_index8", "nc_match_replace8"})
"""Instructions whose `expr` numbers the elements of `data`."""

NUMBERS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {"memset": ("value",), "affine_select": ("on_false",), "nc_match_replace8": ("imm",)}
)
"""Operands that are numbers, never tiles."""


def reduce_command(op: str, roles: set[str], attrs: dict[str, Any]) -> Iterator[Problem]:
    """An accumulator command and the registers it needs."""
    if op not in ("activation", "select_reduce", "range_select"):
        return
    command = attrs.get("reduce_cmd", "reset_reduce")
    if command not in REDUCE_COMMANDS:
        yield "bad_operands", f"there is no accumulator command {str(command)[:40]!r}"
        return
    wanted = "add" if op == "activation" else "maximum"
    if attrs.get("reduce_op", "add" if op == "activation" else None) not in (wanted, None):
        yield "unsupported_op", f"{op} accumulates with {wanted}"
    if op != "activation" and "reduce_res" in roles and attrs.get("reduce_op") != wanted:
        yield "unsupported_op", f"{op} accumulates with {wanted}"
    if not command.startswith("reset") and "acc" not in roles:
        yield "bad_operands", f"{op} goes on with an accumulator that nothing has set"


def is_ramp(trace: Trace, access: int) -> bool:
    """Whether an access reads index values: a constant that counts up by one."""
    tensor = int(trace.access_tensor[access])
    if trace.tensor_role[tensor] != TensorRole.CONSTANT or trace.tensor_alias[tensor] >= 0:
        return False
    values = trace.constants[int(trace.tensor_index[tensor])]
    return values.ndim == 1 and values.dtype == np.int32 and bool((np.diff(values) == 1).all())
