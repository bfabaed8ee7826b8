"""Masks of a matmul: over contraction rows, output rows and output columns (spec 1.8).

Output rows and columns are the instruction's grid, so those masks are its predicate. Which
contraction rows count is an operand of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accelopt_simulator.frontend.expressions import expression
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import Mask
from accelopt_simulator.frontend.tile import Tile
from accelopt_simulator.trace.builder import Affine, Clause, Operand, Predicate, VarKey
from accelopt_simulator.trace.schema import Compare

_NAMES = {Compare.GE: "ge", Compare.EQ: "eq", Compare.NE: "ne"}
MAX_PER_COMPARISON = 4


@dataclass
class MatmulMask:
    """What the masks of one matmul come to.

    Attributes:
        predicate: over the output grid.
        contraction: atoms over the contraction rows.
    """

    predicate: Predicate = ()
    contraction: list[tuple[Affine, Compare]] = field(default_factory=list)

    def add(self, clause: Clause, to_output: dict[int, int]) -> None:
        """Take in a clause; `to_output` maps its axes to output axes, axis 0 contracts."""
        axes = {key[1] for affine, _ in clause for key, _ in affine.terms if key[0] == "axis"}
        if 0 in axes:
            if axes != {0} or len(clause) != 1:
                raise unsupported("a matmul mask that is not a comparison along one axis")
            self.contraction.append(clause[0])
            return
        mapping: dict[VarKey, Affine] = {
            ("axis", axis): Affine.var(("axis", to_output[axis])) for axis in axes
        }
        self.predicate += (tuple((a.substitute(mapping), c) for a, c in clause),)

    def operands(self, rows: int) -> list[Operand]:
        """The contraction mask as operands."""
        counts = dict.fromkeys(_NAMES.values(), 0)
        found: list[Operand] = []
        for affine, compare in self.contraction:
            name = _NAMES[compare]
            if counts[name] == MAX_PER_COMPARISON:
                raise unsupported("so many masks over the contraction of a matmul")
            found.append((f"keep_{name}{counts[name]}", expression(affine, (rows, 1))))
            counts[name] += 1
        return found


def without_mask(tile: Tile) -> Tile:
    """The tile without its operand mask."""
    if not tile.mask:
        return tile
    plain = tile.with_grid(tuple(tile.shape), {}, tile.par)
    plain.mask = ()
    return plain


def matmul_mask(mask: Any, left: Tile, right: Tile, paired: int) -> MatmulMask:
    """The masks of a matmul: of its operands, and its own.

    Args:
        mask: the `mask=` argument, a mask or None.
        left, right: stationary and moving tile with their operand masks.
        paired: axes between the contraction rows and the free axes.
    """
    result = MatmulMask()
    for clause in left.mask:
        result.add(clause, {1 + paired: 0})
    moving_axes = {axis + paired: axis for axis in range(1, right.ndim - paired)}
    for clause in right.mask:
        result.add(clause, moving_axes)
    if not isinstance(mask, Mask):
        return result
    rows, columns = left.shape[1 + paired], tuple(right.shape[1 + paired :])
    if mask.shape == (1, *columns) or mask.shape == ():
        result.predicate += mask.aligned(1 + len(columns))
        return result
    if len(mask.shape) != 2:
        raise unsupported("a matmul mask with other than two axes")
    contracted, free = mask.shape
    output_axis = 1 if columns == (free,) else 0 if free == rows else None
    if contracted not in (1, left.shape[0]) or (output_axis is None and free != 1):
        raise KernelFault(
            "mask_shape_mismatch",
            f"a mask of shape {mask.shape} on a matmul of {tuple(left.shape)} and "
            f"{tuple(right.shape)}",
        )
    for clause in mask.predicate:
        result.add(clause, {1: output_axis or 0})
    return result
