"""Run-time indices: integer tiles used as subscripts (spec 1.7).

A tile of shape `(P, 1)` gives every partition row of a DMA its own index; a `(1, 1)` tile is one
offset for a copy on chip. In the trace such a subscript is a variable that stands for the tile's
contents, and the tile is an operand of its own, so that everything that follows uses sees it.
"""

from __future__ import annotations

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.index import Index
from accelopt_simulator.frontend.tile import Tile
from accelopt_simulator.trace.builder import Access, Affine, Operand, TensorRow
from accelopt_simulator.trace.schema import Space

DMA = "dma_copy"
ON_CHIP_COPY = "tensor_copy_dynamic"


def dynamic_index(tile: Tile) -> Index:
    """A tile as a subscript.

    Raises:
        KernelFault: it is not an on-chip integer tile of shape (P, 1) or (1, 1).
    """
    if tile.space is not Space.SBUF:
        raise KernelFault(
            "err_unsupported_memory",
            f"an index tile must be in sbuf, it is in {tile.space.name.lower()}",
            required=tile.space.name.lower(),
            limit="sbuf",
            hint="load it with nl.load",
        )
    if DTYPES[tile.dtype_code].is_float:
        raise KernelFault(
            "index_dtype",
            f"an index tile is {tile.dtype_code_name}",
            limit="an integer type",
        )
    if tile.size != tile.shape[0]:
        raise KernelFault(
            "err_indirect_indices_free_dim",
            f"an index tile of shape {tuple(tile.shape)} would index a free dimension",
            required=tuple(tile.shape),
            limit="(P, 1)",
            hint="one index per partition: a tile of shape (P, 1)",
        )
    column = tile.with_grid(
        (tile.shape[0], 1), {("axis", a): Affine(0) for a in range(1, tile.ndim)}, 0
    )
    shape = (tile.shape[0], 1) if tile.shape[0] > 1 else ()
    return Index(Affine.var(("dynamic", column.access((tile.shape[0], 1)))), shape)


def index_operands(op: str, operands: list[Operand], tensors: list[TensorRow]) -> list[Operand]:
    """The index tiles that an instruction's operands are addressed with, as operands.

    Raises:
        KernelFault: this instruction can't take run-time indices.
    """
    found: dict[Access, None] = {}
    for _, value in operands:
        if not isinstance(value, Access):
            continue
        tiles = [key[1] for affine in value.index for key, _ in affine.terms if key[0] == "dynamic"]
        if not tiles:
            continue
        found |= dict.fromkeys(tiles)
        in_hbm = tensors[value.tensor].space is Space.HBM
        if op == "dma_transpose":
            raise KernelFault(
                "err_indirect_indices_are_not_supported_with_nki_api",
                "a transposing DMA can't take run-time indices",
                hint="load with nl.load and transpose on chip",
            )
        if not (op == DMA and in_hbm) and not (op == ON_CHIP_COPY and not in_hbm):
            raise KernelFault(
                "err_copy_dynamic_indirect_indices_not_natively_supported",
                "a run-time index on an on-chip tensor",
                hint="use nisa.tensor_copy_dynamic_src or tensor_copy_dynamic_dst",
            )
        for dim, affine in enumerate(value.index):
            for key, coef in affine.terms:
                rows = key[1].grid[0] if key[0] == "dynamic" else 1
                others = value.index[:dim] + value.index[dim + 1 :]
                if rows > 1 and any(("axis", 0) in dict(other.terms) for other in others):
                    raise KernelFault(
                        "err_indirect_indices_free_dim",
                        f"an index tile addresses dimension {dim}, another one holds the "
                        "partition axis",
                        hint="a run-time index takes the place of the partition index",
                    )
                if rows > 1 and (coef < 0 or rows != value.grid[0]):
                    raise KernelFault(
                        "err_indirect_indices_free_dim",
                        f"an index tile of {rows} rows addresses {value.grid[0]} rows",
                        hint="one index per partition row of the access",
                    )
    return [(f"index{i or ''}", access) for i, access in enumerate(found)]
