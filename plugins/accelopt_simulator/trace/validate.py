"""Structural checks of a trace, all vectorized: references in range, offsets rising, loops nested.

They make a trace safe to read. Whether the real compiler would accept it is the constraints'
business.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.expressions import Extents, expression_extents
from accelopt_simulator.trace.schema import (
    Compare,
    Engine,
    Init,
    IntColumn,
    LoopKind,
    OperandKind,
    Space,
    TensorRole,
    Trace,
    VarKind,
)

MAX_RANK = 12
MAX_EXTENT = 1 << 31
MAX_ABS = 1 << 46
"""Bound of every constant and coefficient, so that index arithmetic can't overflow int64."""
MAX_DEPTH = 64
MAX_INSTRUCTIONS = 4_000_000
MAX_TENSORS = 2_000_000
MAX_LOOPS = 400_000
MAX_VARIABLES = 1 << 20
MAX_DERIVED = 1 << 16
"""Variables that stand for another expression; they are walked one by one."""

MAX_CONSTANT_TENSORS = 1 << 14
MAX_OPERANDS = 24
"""Operands of one instruction."""

MAX_CLAUSES = 512
"""Clauses of one predicate, and atoms of one clause: every user of a predicate reads them all."""


def validate(trace: Trace) -> None:
    """Check that every column is consistent with the others.

    Raises:
        TraceError: names the first column that is not.
    """
    t = trace
    n_var, n_term, n_expr = len(t.var_kind), len(t.term_var), len(t.expr_const)
    n_atom, n_tensor, n_access = len(t.atom_expr), len(t.tensor_space), len(t.access_tensor)
    n_loop, n_ins, n_operand = len(t.loop_kind), len(t.ins_op), len(t.operand_role)
    for count, most, what in (
        (n_ins, MAX_INSTRUCTIONS, "instructions"), (n_tensor, MAX_TENSORS, "tensors"),
        (n_loop, MAX_LOOPS, "loops"), (n_var, MAX_VARIABLES, "variables"),
    ):  # fmt: skip
        if count > most:
            raise TraceError(f"{count} {what}, at most {most}")
    _offsets(t.expr_start, n_expr, n_term, "expr_start")
    n_pred = _offsets(t.pred_start, None, None, "pred_start")
    _offsets(t.clause_start, int(t.pred_start[-1]), n_atom, "clause_start")
    for column in (t.pred_start, t.clause_start):
        if len(column) > 1 and int(np.diff(column).max()) > MAX_CLAUSES:
            raise TraceError(f"a predicate has more than {MAX_CLAUSES} parts")
    _offsets(t.tensor_shape_start, n_tensor, len(t.tensor_shape), "tensor_shape_start")
    _offsets(t.access_grid_start, n_access, len(t.access_grid), "access_grid_start")
    _offsets(t.access_index_start, n_access, len(t.access_index), "access_index_start")
    _offsets(t.ins_operand_start, n_ins, n_operand, "ins_operand_start")
    for name, length in (
        ("var_a", n_var), ("var_b", n_var), ("term_coef", n_term), ("atom_compare", n_atom),
        ("tensor_dtype", n_tensor), ("tensor_role", n_tensor), ("tensor_init", n_tensor),
        ("tensor_index", n_tensor), ("tensor_alias", n_tensor), ("tensor_scope", n_tensor),
        ("tensor_par_dim", n_tensor), ("tensor_line", n_tensor), ("loop_parent", n_loop),
        ("loop_first", n_loop), ("loop_last", n_loop), ("loop_start", n_loop),
        ("loop_stop", n_loop), ("loop_step", n_loop), ("loop_line", n_loop),
        ("ins_engine", n_ins), ("ins_attr", n_ins), ("ins_pred", n_ins), ("ins_line", n_ins),
        ("operand_kind", n_operand), ("operand_ref", n_operand),
    ):  # fmt: skip
        if len(t.columns[name]) != length:
            raise TraceError(f"{name} has {len(t.columns[name])} rows instead of {length}")
    if len(t.tensor_names) != n_tensor:
        raise TraceError("tensor_names has the wrong length")

    if n_ins and int(np.diff(t.ins_operand_start).max()) > MAX_OPERANDS:
        raise TraceError(f"an instruction has more than {MAX_OPERANDS} operands")

    _enum(t.var_kind, VarKind, "var_kind")
    _enum(t.atom_compare, Compare, "atom_compare")
    _enum(t.tensor_space, Space, "tensor_space")
    _enum(t.tensor_role, TensorRole, "tensor_role")
    _enum(t.tensor_init, Init, "tensor_init")
    _enum(t.loop_kind, LoopKind, "loop_kind")
    _enum(t.ins_engine, Engine, "ins_engine")
    _enum(t.operand_kind, OperandKind, "operand_kind")
    _range(t.tensor_dtype, 0, len(DTYPES), "tensor_dtype")
    _range(t.term_var, 0, n_var, "term_var")
    _range(t.atom_expr, 0, n_expr, "atom_expr")
    _range(t.access_tensor, 0, n_tensor, "access_tensor")
    _range(t.access_index, 0, n_expr, "access_index")
    _range(t.ins_op, 0, len(t.ops), "ins_op")
    _range(t.ins_attr, -1, len(t.attrs), "ins_attr")
    _range(t.ins_pred, -1, n_pred, "ins_pred")
    _range(t.operand_role, 0, len(t.roles), "operand_role")
    _range(t.loop_start, 0, n_expr, "loop_start")
    _range(t.loop_stop, 0, n_expr, "loop_stop")
    _range(t.loop_step, 1, MAX_EXTENT, "loop_step")
    _range(t.tensor_shape, 1, MAX_EXTENT, "tensor_shape")
    _range(t.access_grid, 1, MAX_EXTENT, "access_grid")
    _range(t.expr_const, -MAX_ABS, MAX_ABS, "expr_const")
    _range(t.term_coef, -MAX_ABS, MAX_ABS, "term_coef")
    _range(t.tensor_scope, -1, n_loop, "tensor_scope")
    for column, limit, kind in (
        (t.operand_ref[t.operand_kind == OperandKind.ACCESS], n_access, "access"),
        (t.operand_ref[t.operand_kind == OperandKind.IMMEDIATE], len(t.immediate), "immediate"),
    ):
        _range(column, 0, limit, f"operand_ref ({kind})")
    _variables(t, n_expr, n_loop, n_access)
    _tensors(t, n_tensor)
    _loops(t, n_loop, n_ins)
    extents = expression_extents(t)
    _accesses(t, extents)
    _enclosed(t, extents)


def _offsets(column: IntColumn, rows: int | None, total: int | None, name: str) -> int:
    if len(column) == 0 or column[0] != 0 or np.any(np.diff(column.astype(np.int64)) < 0):
        raise TraceError(f"{name} is not a rising offset column")
    if rows is not None and len(column) != rows + 1:
        raise TraceError(f"{name} has {len(column)} entries instead of {rows + 1}")
    if total is not None and column[-1] != total:
        raise TraceError(f"{name} ends at {column[-1]} instead of {total}")
    return len(column) - 1


def _range(column: IntColumn, low: int, high: int, name: str) -> None:
    if len(column) and (int(column.min()) < low or int(column.max()) >= high):
        raise TraceError(f"{name} leaves [{low}, {high})")


def _enum(column: IntColumn, kind: type, name: str) -> None:
    allowed = np.zeros(256, dtype=bool)
    allowed[[int(member) for member in kind]] = True  # type: ignore[attr-defined]
    if len(column) and not allowed[column].all():
        raise TraceError(f"{name} holds an unknown value")


def _variables(t: Trace, n_expr: int, n_loop: int, n_access: int) -> None:
    for kind, limit in (
        (VarKind.LOOP, n_loop),
        (VarKind.AXIS, MAX_RANK),
        (VarKind.PROGRAM, len(t.grid)),
        (VarKind.FLOORDIV, n_expr),
        (VarKind.MOD, n_expr),
        (VarKind.DYNAMIC, n_access),
    ):
        chosen = t.var_kind == kind
        _range(t.var_a[chosen], 0, limit, f"var_a ({kind.name.lower()})")
        if kind in (VarKind.FLOORDIV, VarKind.MOD):
            _range(t.var_b[chosen], 1, MAX_ABS, "var_b (divisor)")
    derived = (t.var_kind == VarKind.FLOORDIV) | (t.var_kind == VarKind.MOD)
    if int(derived.sum()) > MAX_DERIVED:
        raise TraceError(f"more than {MAX_DERIVED} derived variables")
    # Per expression, then per access, the latest variable in it.
    in_expr = np.full(n_expr, -1, dtype=np.int64)
    np.maximum.at(in_expr, np.repeat(np.arange(n_expr), np.diff(t.expr_start)), t.term_var)
    in_access = np.full(n_access, -1, dtype=np.int64)
    owner = np.repeat(np.arange(n_access), np.diff(t.access_index_start))
    np.maximum.at(in_access, owner, in_expr[t.access_index])
    dynamic = np.flatnonzero(t.var_kind == VarKind.DYNAMIC)
    if np.any(in_access[t.var_a[dynamic]] >= dynamic):
        raise TraceError("a run-time index refers to a later variable")


def _tensors(t: Trace, n_tensor: int) -> None:
    ranks = np.diff(t.tensor_shape_start)
    if n_tensor == 0:
        return
    if ranks.max() > MAX_RANK:
        raise TraceError(f"a tensor has more than {MAX_RANK} dimensions")
    on_chip = t.tensor_space != Space.HBM
    par = t.tensor_par_dim.astype(np.int64)
    if np.any(on_chip & ((par < 0) | (par >= ranks))):
        raise TraceError("tensor_par_dim is not a dimension of its on-chip tensor")
    if np.any(~on_chip & (par != -1)):
        raise TraceError("tensor_par_dim of an HBM tensor is not -1")
    alias = t.tensor_alias
    if np.any(alias >= np.arange(n_tensor)) or int(alias.min()) < -1:
        raise TraceError("tensor_alias does not refer to an earlier tensor")
    logs = np.concatenate(([0.0], np.cumsum(np.log2(t.tensor_shape.astype(np.float64)))))
    if np.any(np.diff(logs[t.tensor_shape_start]) > np.log2(MAX_ABS)):
        raise TraceError("a tensor is too large")
    aliased = np.flatnonzero(alias >= 0)
    base = alias[aliased]
    if np.any(alias[base] >= 0):
        raise TraceError("tensor_alias refers to an alias")
    nbytes = _nbytes(t)
    if np.any(nbytes[aliased] != nbytes[base]):
        raise TraceError("an alias differs in size from its tensor")
    if np.any(t.tensor_space[aliased] != t.tensor_space[base]):
        raise TraceError("an alias lies in another memory than its tensor")
    constant = t.tensor_role == TensorRole.CONSTANT
    _range(t.tensor_index[constant], 0, len(t.constants), "tensor_index (constant)")
    if int(constant.sum()) > MAX_CONSTANT_TENSORS:
        raise TraceError(f"more than {MAX_CONSTANT_TENSORS} constant tensors")
    for tensor in np.flatnonzero(constant):
        array = t.constants[t.tensor_index[tensor]]
        if array.shape != t.shape(int(tensor)):
            raise TraceError("a constant's shape differs from its tensor's")
        if DTYPES[t.tensor_dtype[tensor]].storage != array.dtype:
            raise TraceError("a constant's type differs from its tensor's")
    for role in (TensorRole.INPUT, TensorRole.OUTPUT):
        chosen = np.sort(t.tensor_index[(t.tensor_role == role) & (alias < 0)])
        if role is TensorRole.OUTPUT and not np.array_equal(chosen, np.arange(len(chosen))):
            raise TraceError("outputs are not numbered from 0")
        if len(np.unique(chosen)) != len(chosen) or (len(chosen) and chosen[0] < 0):
            raise TraceError("two tensors claim the same argument")
        if np.any(on_chip & (t.tensor_role == role)):
            raise TraceError("an argument or a result is not in HBM")


def _nbytes(t: Trace) -> NDArray[np.int64]:
    """Bytes of every tensor; that none is too large has been checked, so nothing overflows."""
    extents = np.append(t.tensor_shape, 1).astype(np.int64)
    sizes = np.multiply.reduceat(extents, t.tensor_shape_start[:-1])
    sizes[np.diff(t.tensor_shape_start) == 0] = 1
    itemsizes = np.array([dtype.itemsize for dtype in DTYPES], dtype=np.int64)
    return np.asarray(sizes * itemsizes[t.tensor_dtype], dtype=np.int64)


def _accesses(t: Trace, extents: Extents) -> None:
    ranks = np.diff(t.tensor_shape_start)[t.access_tensor]
    if np.any(np.diff(t.access_index_start) != ranks):
        raise TraceError("an access has another number of indices than its tensor has dimensions")
    grid_ranks = np.diff(t.access_grid_start)
    if len(grid_ranks) and int(grid_ranks.max()) > MAX_RANK:
        raise TraceError(f"an access has more than {MAX_RANK} axes")
    # Every axis that an index uses must be an axis of the access's grid.
    access_owner = np.repeat(np.arange(len(grid_ranks)), np.diff(t.access_index_start))
    if np.any(extents.axis[t.access_index] >= grid_ranks[access_owner]):
        raise TraceError("an index uses an axis that its access does not have")
    if np.any(extents.axis[t.loop_start] >= 0) or np.any(extents.axis[t.loop_stop] >= 0):
        raise TraceError("a loop bound uses an axis")


def _enclosed(t: Trace, extents: Extents) -> None:
    """Every loop variable that an instruction uses belongs to a loop around the instruction."""
    n_access, n_ins = len(t.access_tensor), len(t.ins_op)
    access = np.repeat(np.arange(n_access), np.diff(t.access_index_start))
    first, last = np.zeros(n_access, dtype=np.int64), np.full(n_access, n_ins, dtype=np.int64)
    np.maximum.at(first, access, extents.first[t.access_index])
    np.minimum.at(last, access, extents.last[t.access_index])
    user = np.repeat(np.arange(n_ins), np.diff(t.ins_operand_start))
    chosen = t.operand_kind == OperandKind.ACCESS
    user, used = user[chosen], t.operand_ref[chosen]
    outside = np.any((user < first[used]) | (user >= last[used]))
    clause = np.repeat(np.arange(len(t.clause_start) - 1), np.diff(t.clause_start))
    pred = np.repeat(np.arange(len(t.pred_start) - 1), np.diff(t.pred_start))[clause]
    n_pred = len(t.pred_start) - 1
    first, last = np.zeros(n_pred, dtype=np.int64), np.full(n_pred, n_ins, dtype=np.int64)
    np.maximum.at(first, pred, extents.first[t.atom_expr])
    np.minimum.at(last, pred, extents.last[t.atom_expr])
    user = np.flatnonzero(t.ins_pred >= 0)
    used = t.ins_pred[user]
    if outside or np.any((user < first[used]) | (user >= last[used])):
        raise TraceError("an index uses a loop that does not enclose it")


def _loops(t: Trace, n_loop: int, n_ins: int) -> None:
    if n_loop == 0:
        return
    first, last = t.loop_first.astype(np.int64), t.loop_last.astype(np.int64)
    if np.any(first < 0) or np.any(last > n_ins) or np.any(first >= last):
        raise TraceError("a loop's body is empty or out of range")
    if np.any(t.loop_parent >= np.arange(n_loop)) or int(t.loop_parent.min()) < -1:
        raise TraceError("loop_parent does not refer to an earlier loop")
    # Rows come in order of opening: walking them with a stack proves proper nesting.
    stack: list[int] = []
    parents: list[int] = t.loop_parent.tolist()
    firsts: list[int] = first.tolist()
    lasts: list[int] = last.tolist()
    for loop in range(n_loop):
        while stack and lasts[stack[-1]] <= firsts[loop]:
            stack.pop()
        if stack and lasts[loop] > lasts[stack[-1]]:
            raise TraceError("loops overlap without nesting")
        if parents[loop] != (stack[-1] if stack else -1):
            raise TraceError("loop_parent is not the enclosing loop")
        if loop and firsts[loop] < firsts[loop - 1]:
            raise TraceError("loops are not in order")
        stack.append(loop)
        if len(stack) > MAX_DEPTH:
            raise TraceError(f"loops are nested deeper than {MAX_DEPTH}")
