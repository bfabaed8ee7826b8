"""The parts of a kernel as the analysis sees them: loops, statements, tensors, mentions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelopt_rewriter.indexing import Element
from accelopt_rewriter.static import dtype_bytes


@dataclass(frozen=True, eq=False)
class Loop:
    """One `for` loop; `extent` is None when it is not known."""

    var: str
    line: int
    kind: str
    extent: int | None
    node: ast.For

    @property
    def count(self) -> str:
        """Source of the number of iterations; only where `extent` is known."""
        assert isinstance(self.node.iter, ast.Call)  # noqa: S101 - it has an extent
        return ast.unparse(self.node.iter.args[0])


@dataclass(frozen=True, eq=False)
class Ref:
    """One mention of a tensor.

    Attributes:
        name: of the tensor.
        node: the expression.
        elements: its subscripts; None for the whole tensor.
        shape: of the tile it addresses; None when unknown.
    """

    name: str
    node: ast.expr
    elements: tuple[Element, ...] | None
    shape: tuple[int, ...] | None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for mentions of the same elements of the same tensor."""
        return (self.name, self.elements)

    @property
    def text(self) -> str:
        """Python source."""
        return ast.unparse(self.node)

    @property
    def is_column(self) -> bool:
        """Whether it is one element per partition."""
        return self.shape is not None and len(self.shape) == 2 and self.shape[1] == 1


@dataclass(frozen=True, eq=False)
class Op:
    """One simple statement of the kernel function, in order."""

    order: int
    line: int
    node: ast.stmt
    loops: tuple[Loop, ...]
    block: tuple[int, ...]
    target: Ref | None = None
    binds: str = ""
    augmented: bool = False
    value: ast.expr | None = None
    reads: tuple[Ref, ...] = ()
    writes: tuple[Ref, ...] = ()

    @property
    def call(self) -> ast.Call | None:
        """The call on the right-hand side, if it is one."""
        return self.value if isinstance(self.value, ast.Call) else None


@dataclass(frozen=True, eq=False)
class Buffer:
    """A declared tensor; the partition axis is `partition_axis`, block axes come before it."""

    name: str
    op: Op
    shape: tuple[int, ...]
    partition_axis: int
    memory: str
    dtype: str | None

    @property
    def tile_bytes(self) -> int:
        """Bytes per partition of one block."""
        size = dtype_bytes(self.dtype)
        for extent in self.shape[self.partition_axis + 1 :]:
            size *= extent
        return size
