"""Builds a trace row by row. Used by the front ends, in the worker process.

Expressions here are `Affine` values: a constant plus integer coefficients by variable key. A
variable key is `("loop", id)`, `("axis", a)`, `("program", axis)`, `("floordiv", Affine, n)`,
`("mod", Affine, n)` or `("dynamic", access id)`. Axis numbers count from the front of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.trace.schema import (
    COLUMNS,
    Compare,
    Engine,
    Init,
    LoopKind,
    OperandKind,
    Space,
    TensorRole,
    Trace,
    VarKind,
)

VarKey = tuple[Any, ...]


@dataclass(frozen=True)
class Affine:
    """`const + sum(coefficient * variable)`; immutable and hashable.

    Attributes:
        const: the constant.
        terms: (variable key, coefficient) pairs without zeros, in a canonical order.
    """

    const: int = 0
    terms: tuple[tuple[VarKey, int], ...] = ()

    @classmethod
    def make(cls, const: int, terms: dict[VarKey, int]) -> Affine:
        """Build from a dictionary; zero coefficients are dropped."""
        kept = [(key, coef) for key, coef in terms.items() if coef]
        return cls(const, tuple(sorted(kept, key=lambda item: repr(item[0]))))

    @classmethod
    def var(cls, key: VarKey) -> Affine:
        """One variable with coefficient 1."""
        return cls(0, ((key, 1),))

    @property
    def is_constant(self) -> bool:
        """Whether no variable occurs."""
        return not self.terms

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.const + other, self.terms)
        terms = dict(self.terms)
        for key, coef in other.terms:
            terms[key] = terms.get(key, 0) + coef
        return Affine.make(self.const + other.const, terms)

    def __mul__(self, factor: int) -> Affine:
        return Affine.make(self.const * factor, {k: c * factor for k, c in self.terms})

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other if isinstance(other, int) else other * -1)

    def substitute(self, mapping: dict[VarKey, Affine]) -> Affine:
        """Replace variables by expressions."""
        result = Affine(self.const)
        for key, coef in self.terms:
            result = result + mapping.get(key, Affine.var(key)) * coef
        return result


Clause = tuple[tuple[Affine, Compare], ...]
Predicate = tuple[Clause, ...]
"""A conjunction of clauses; each is a disjunction of atoms."""


@dataclass(frozen=True)
class Access:
    """A region of a tensor: grid extents and one expression per dimension of the tensor."""

    tensor: int
    grid: tuple[int, ...]
    index: tuple[Affine, ...]


Operand = tuple[str, Access | float]
"""(role, region or immediate value)."""


@dataclass
class Instruction:
    """One recorded instruction; may be changed until the trace is finished."""

    op: str
    engine: Engine
    attrs: dict[str, Any]
    predicate: Predicate
    operands: list[Operand]
    line: int


@dataclass(kw_only=True)
class TensorRow:
    """One tensor; see `accelopt_simulator.trace.schema`. `scope` is the innermost loop it was made
    in."""

    space: Space
    dtype: int
    shape: tuple[int, ...]
    par_dim: int = -1
    role: TensorRole = TensorRole.LOCAL
    init: Init = Init.UNDEFINED
    index: int = -1
    alias: int = -1
    scope: int = -1
    name: str = ""
    line: int = 0


@dataclass
class _Loop:
    kind: LoopKind
    parent: int
    start: Affine
    stop: Affine
    step: int
    line: int
    first: int
    last: int = -1


@dataclass
class TraceBuilder:
    """Collects rows; everything stays symbolic until `finish` numbers what is really used."""

    dialect: str
    entry: str = "kernel"
    grid: tuple[int, ...] = ()
    tensors: list[TensorRow] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    loops: list[_Loop] = field(default_factory=list)
    open_loops: list[int] = field(default_factory=list)
    constants: list[NDArray[Any]] = field(default_factory=list)

    def tensor(self, row: TensorRow) -> int:
        """Add a tensor that belongs to the innermost open loop; returns its id."""
        if row.space is not Space.HBM and self.open_loops:
            row.scope = self.open_loops[-1]
        row.name = row.name[:200]
        self.tensors.append(row)
        return len(self.tensors) - 1

    def open_loop(self, kind: LoopKind, start: Affine, stop: Affine, step: int, line: int) -> int:
        """Open a loop; instructions up to `close_loop` are its body."""
        parent = self.open_loops[-1] if self.open_loops else -1
        self.loops.append(_Loop(kind, parent, start, stop, step, line, len(self.instructions)))
        self.open_loops.append(len(self.loops) - 1)
        return len(self.loops) - 1

    def close_loop(self, loop: int) -> None:
        """Close the innermost loop, which must be `loop`."""
        if self.open_loops[-1:] != [loop]:
            raise ValueError("loops close inside out")
        self.open_loops.pop()
        self.loops[loop].last = len(self.instructions)

    def emit(self, instruction: Instruction) -> Instruction:
        """Record an instruction."""
        self.instructions.append(instruction)
        return instruction

    def finish(self) -> Trace:
        """The trace. Empty loops and tensors that nothing uses are left out."""
        return _Numbering(self).trace()


class _Numbering:
    """Turns what a builder collected into columns, giving equal things the same number."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self.rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for name in COLUMNS:
            if name.endswith("_start") and name != "loop_start":
                self.rows[name].append(0)
        self.ids: dict[Any, int] = {}
        self.loop_ids: dict[int, int] = {-1: -1}
        self.tensor_ids: dict[int, int] = {}

    def trace(self) -> Trace:
        builder, rows = self.builder, self.rows
        self._number_loops()
        self._number_tensors()
        for loop in builder.loops:
            if loop.last > loop.first:
                rows["loop_start"].append(self.expr(loop.start))
                rows["loop_stop"].append(self.expr(loop.stop))
        ops, roles, attrs = _Interner(), _Interner(), _Interner()
        for ins in builder.instructions:
            rows["ins_op"].append(ops.id(ins.op))
            rows["ins_engine"].append(int(ins.engine))
            rows["ins_attr"].append(attrs.id(_freeze(ins.attrs), ins.attrs) if ins.attrs else -1)
            rows["ins_pred"].append(self.predicate(ins.predicate))
            rows["ins_line"].append(ins.line)
            for role, value in ins.operands:
                is_access = isinstance(value, Access)
                kind = OperandKind.ACCESS if is_access else OperandKind.IMMEDIATE
                ref = self.access(value) if isinstance(value, Access) else self.immediate(value)
                rows["operand_role"].append(roles.id(role))
                rows["operand_kind"].append(int(kind))
                rows["operand_ref"].append(ref)
            rows["ins_operand_start"].append(len(rows["operand_role"]))
        return Trace(
            dialect=builder.dialect,
            entry=builder.entry,
            grid=builder.grid,
            ops=tuple(ops.values),
            roles=tuple(roles.values),
            attrs=tuple(attrs.values),
            tensor_names=tuple(builder.tensors[old].name for old in self.tensor_ids),
            constants=tuple(builder.constants),
            columns={n: np.array(rows[n], dtype="<" + t) for n, t in COLUMNS.items()},
        )

    def _number_loops(self) -> None:
        """Number the loops that have a body; a scope or parent that vanishes moves outward."""
        rows = self.rows
        for old, loop in enumerate(self.builder.loops):
            if loop.last <= loop.first:
                self.loop_ids[old] = self.loop_ids[loop.parent]
                continue
            self.loop_ids[old] = len(rows["loop_kind"])
            for name, value in (
                ("kind", int(loop.kind)),
                ("parent", self.loop_ids[loop.parent]),
                ("first", loop.first),
                ("last", loop.last),
                ("step", loop.step),
                ("line", loop.line),
            ):
                rows[f"loop_{name}"].append(value)

    def _number_tensors(self) -> None:
        used: set[int] = set()
        todo = [v for ins in self.builder.instructions for _, v in ins.operands]
        todo += [
            term[0][1]
            for access in todo
            if isinstance(access, Access)
            for affine in access.index
            for term in affine.terms
            if term[0][0] == "dynamic"
        ]
        used.update(access.tensor for access in todo if isinstance(access, Access))
        tensors = self.builder.tensors
        used.update(i for i, row in enumerate(tensors) if row.role is not TensorRole.LOCAL)
        used.update(tensors[i].alias for i in tuple(used) if tensors[i].alias >= 0)
        rows = self.rows
        for old in sorted(used):
            row = tensors[old]
            self.tensor_ids[old] = len(self.tensor_ids)
            alias = self.tensor_ids[row.alias] if row.alias >= 0 else -1
            for name, value in (
                ("space", int(row.space)),
                ("dtype", row.dtype),
                ("role", int(row.role)),
                ("init", int(row.init)),
                ("index", row.index),
                ("alias", alias),
                ("scope", self.loop_ids[row.scope]),
                ("par_dim", row.par_dim),
                ("line", row.line),
            ):
                rows[f"tensor_{name}"].append(value)
            rows["tensor_shape"].extend(row.shape)
            rows["tensor_shape_start"].append(len(rows["tensor_shape"]))

    def expr(self, affine: Affine) -> int:
        """Id of an expression."""
        key = ("expr", affine)
        if key not in self.ids:
            terms = [(self._var(key), coef) for key, coef in affine.terms]
            for var, coef in terms:
                self.rows["term_var"].append(var)
                self.rows["term_coef"].append(coef)
            self.rows["expr_const"].append(affine.const)
            self.rows["expr_start"].append(len(self.rows["term_var"]))
            self.ids[key] = len(self.rows["expr_const"]) - 1
        return self.ids[key]

    def _var(self, key: VarKey) -> int:
        if ("var", key) not in self.ids:
            kind, a, b = VarKind[key[0].upper()], key[1], 0
            if kind is VarKind.LOOP:
                a = self.loop_ids[a]
            elif kind in (VarKind.FLOORDIV, VarKind.MOD):
                a, b = self.expr(key[1]), key[2]
            elif kind is VarKind.DYNAMIC:
                a = self.access(key[1])
            for name, value in (("var_kind", int(kind)), ("var_a", a), ("var_b", b)):
                self.rows[name].append(value)
            self.ids["var", key] = len(self.rows["var_kind"]) - 1
        return self.ids["var", key]

    def predicate(self, predicate: Predicate) -> int:
        """Id of a predicate; -1 for the empty one."""
        if not predicate:
            return -1
        key = ("pred", predicate)
        if key not in self.ids:
            for clause in predicate:
                for affine, compare in clause:
                    self.rows["atom_expr"].append(self.expr(affine))
                    self.rows["atom_compare"].append(int(compare))
                self.rows["clause_start"].append(len(self.rows["atom_expr"]))
            self.rows["pred_start"].append(len(self.rows["clause_start"]) - 1)
            self.ids[key] = len(self.rows["pred_start"]) - 2
        return self.ids[key]

    def access(self, access: Access) -> int:
        """Id of an access."""
        key = ("access", access)
        if key not in self.ids:
            exprs = [self.expr(affine) for affine in access.index]
            self.rows["access_tensor"].append(self.tensor_ids[access.tensor])
            self.rows["access_grid"].extend(access.grid)
            self.rows["access_grid_start"].append(len(self.rows["access_grid"]))
            self.rows["access_index"].extend(exprs)
            self.rows["access_index_start"].append(len(self.rows["access_index"]))
            self.ids[key] = len(self.rows["access_tensor"]) - 1
        return self.ids[key]

    def immediate(self, value: float) -> int:
        """Id of an immediate operand."""
        key = ("imm", repr(float(value)))
        if key not in self.ids:
            self.rows["immediate"].append(float(value))
            self.ids[key] = len(self.rows["immediate"]) - 1
        return self.ids[key]


class _Interner:
    """Gives equal things the same small number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._ids: dict[Any, int] = {}

    def id(self, key: Any, value: Any = None) -> int:
        if key not in self._ids:
            self._ids[key] = len(self.values)
            self.values.append(key if value is None else value)
        return self._ids[key]


def _freeze(attrs: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((k, repr(v)) for k, v in attrs.items()))
