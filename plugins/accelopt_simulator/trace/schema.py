"""The trace: everything the judge knows about a kernel, as columns of plain numbers.

A kernel's loops stay loops: a body is recorded once, with index expressions that are affine in the
loop variables. Columns make a trace of a million instructions cheap to decode and to check.

Tables (one row each; `*_start` columns are offsets with one extra entry at the end):

* variables    what index expressions are made of: loop variables, grid axes, program ids, and
               floor-division, modulo or run-time values of other expressions.
* expressions  `const + sum(coef * variable)`.
* predicates   conjunctions of clauses; a clause is a disjunction of atoms `expr >= 0`, `== 0`, `!=
               0`.
* tensors      storage: memory space, type, shape, partition dimension, owner.
* accesses     a strided region of a tensor: the grid's extents and one expression per dimension.
* loops        nested intervals of instruction positions.
* instructions opcode, engine, attributes, predicate and operands.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

from numpy.typing import NDArray

IntColumn = NDArray[Any]

SCHEMA_VERSION = 1


class Space(IntEnum):
    """Where a tensor lives."""

    HBM = 0
    SBUF = 1
    PSUM = 2


class TensorRole(IntEnum):
    """Who owns a tensor."""

    LOCAL = 0
    INPUT = 1
    OUTPUT = 2
    CONSTANT = 3


class Init(IntEnum):
    """What fresh storage reads as."""

    UNDEFINED = 0
    ZERO = 1
    """An accumulator: the first matmul of a group overwrites, so it counts from zero."""


class VarKind(IntEnum):
    """Kinds of variables; `a` and `b` are the columns `var_a` and `var_b`."""

    LOOP = 0
    """a = loop id."""
    AXIS = 1
    """a = grid axis of the access (or of the instruction, in a predicate)."""
    PROGRAM = 2
    """a = axis of the SPMD grid."""
    FLOORDIV = 3
    """expression a // b, b > 0."""
    MOD = 4
    """expression a % b, b > 0, sign of the divisor."""
    DYNAMIC = 5
    """the integer that access a holds at run time."""


class LoopKind(IntEnum):
    """How iterations may be ordered."""

    AFFINE = 0
    SEQUENTIAL = 1


class Compare(IntEnum):
    """Comparison of an atom with zero."""

    GE = 0
    EQ = 1
    NE = 2


class OperandKind(IntEnum):
    """What an operand refers to."""

    ACCESS = 0
    IMMEDIATE = 1


class Engine(IntEnum):
    """Engines; the values of `nki.isa.engine`, plus DMA."""

    UNKNOWN = 0
    TENSOR = 1
    SCALAR = 2
    GPSIMD = 3
    DMA = 4
    VECTOR = 5


# name -> dtype; the order is the order in the binary form.
COLUMNS: dict[str, str] = {
    "var_kind": "u1",
    "var_a": "i4",
    "var_b": "i8",
    "expr_const": "i8",
    "expr_start": "i4",
    "term_var": "i4",
    "term_coef": "i8",
    "pred_start": "i4",
    "clause_start": "i4",
    "atom_expr": "i4",
    "atom_compare": "u1",
    "tensor_space": "u1",
    "tensor_dtype": "u1",
    "tensor_role": "u1",
    "tensor_init": "u1",
    "tensor_index": "i4",
    "tensor_alias": "i4",
    "tensor_scope": "i4",
    "tensor_par_dim": "i1",
    "tensor_shape_start": "i4",
    "tensor_shape": "i8",
    "access_tensor": "i4",
    "access_grid_start": "i4",
    "access_grid": "i8",
    "access_index_start": "i4",
    "access_index": "i4",
    "loop_kind": "u1",
    "loop_parent": "i4",
    "loop_first": "i4",
    "loop_last": "i4",
    "loop_start": "i4",
    "loop_stop": "i4",
    "loop_step": "i8",
    "ins_op": "u2",
    "ins_engine": "u1",
    "ins_attr": "i4",
    "ins_pred": "i4",
    "ins_operand_start": "i4",
    "operand_role": "u1",
    "operand_kind": "u1",
    "operand_ref": "i4",
    "immediate": "f8",
    "tensor_line": "i4",
    "loop_line": "i4",
    "ins_line": "i4",
}

LINE_COLUMNS = frozenset({"tensor_line", "loop_line", "ins_line"})
"""Left out of the trace hash, like names: moving a kernel down a line does not change it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A traced kernel. See the module text for the tables.

    Attributes:
        dialect: import root of the kernel language.
        entry: name of the kernel function (not hashed).
        grid: SPMD grid, empty when launched without one.
        ops: opcode names; `ins_op` indexes it.
        roles: operand role names; `operand_role` indexes it.
        attrs: distinct attribute sets; `ins_attr` indexes it, -1 = none.
        tensor_names: by tensor (not hashed).
        constants: arrays of `TensorRole.CONSTANT` tensors.
        columns: the columns, by name.
    """

    dialect: str
    entry: str
    grid: tuple[int, ...]
    ops: tuple[str, ...]
    roles: tuple[str, ...]
    attrs: tuple[dict[str, Any], ...]
    tensor_names: tuple[str, ...]
    constants: tuple[NDArray[Any], ...]
    columns: dict[str, IntColumn]
    _hash: list[str] = field(default_factory=list, repr=False)

    def __getattr__(self, name: str) -> IntColumn:
        """Columns read as attributes: `trace.ins_op`."""
        try:
            columns = object.__getattribute__(self, "columns")
            return columns[name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def num_instructions(self) -> int:
        """Recorded instructions (a loop body counts once)."""
        return len(self.ins_op)

    @property
    def num_tensors(self) -> int:
        """Tensors, aliases included."""
        return len(self.tensor_space)

    @property
    def num_loops(self) -> int:
        """Loops."""
        return len(self.loop_kind)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Shape of a tensor, block dimensions first."""
        start, stop = self.tensor_shape_start[tensor : tensor + 2]
        return tuple(int(n) for n in self.tensor_shape[start:stop])

    def access_shape(self, access: int) -> tuple[int, ...]:
        """Grid extents of an access."""
        start, stop = self.access_grid_start[access : access + 2]
        return tuple(int(n) for n in self.access_grid[start:stop])

    def access_exprs(self, access: int) -> tuple[int, ...]:
        """Expression ids of an access, one per dimension of its tensor."""
        start, stop = self.access_index_start[access : access + 2]
        return tuple(int(n) for n in self.access_index[start:stop])

    def terms(self, expr: int) -> list[tuple[int, int]]:
        """(variable, coefficient) pairs of an expression."""
        start, stop = self.expr_start[expr : expr + 2]
        return [
            (int(v), int(c))
            for v, c in zip(self.term_var[start:stop], self.term_coef[start:stop], strict=True)
        ]

    def clauses(self, predicate: int) -> list[list[tuple[int, Compare]]]:
        """Clauses of a predicate, each a list of (expression, comparison) atoms; -1 has none."""
        if predicate < 0:
            return []
        first, last = self.pred_start[predicate : predicate + 2]
        return [
            [
                (int(self.atom_expr[a]), Compare(int(self.atom_compare[a])))
                for a in range(self.clause_start[c], self.clause_start[c + 1])
            ]
            for c in range(first, last)
        ]

    def attr(self, instruction: int) -> dict[str, Any]:
        """Attributes of an instruction."""
        row = int(self.ins_attr[instruction])
        return self.attrs[row] if row >= 0 else {}

    def operands(self, instruction: int) -> list[tuple[str, OperandKind, int]]:
        """(role, kind, reference) of each operand."""
        start, stop = self.ins_operand_start[instruction : instruction + 2]
        return [
            (
                self.roles[self.operand_role[i]],
                OperandKind(int(self.operand_kind[i])),
                int(self.operand_ref[i]),
            )
            for i in range(start, stop)
        ]


HASHED_FIELDS = tuple(
    f.name
    for f in fields(Trace)
    if f.name not in ("entry", "tensor_names", "constants", "columns", "_hash")
)
