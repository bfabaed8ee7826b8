"""What every expression of a trace depends on, and a bound of what evaluating it costs.

Derived variables (`//`, `%`) nest, so a small hostile table could describe an expression that takes
forever to evaluate: the weight of an expression counts its terms through all levels and is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.schema import Trace, VarKind

Ints = NDArray[np.int64]

MAX_WEIGHT = 256
"""Terms of an expression, those of the expressions inside it included; real ones have a few."""


@dataclass(frozen=True)
class Extents:
    """One entry per expression.

    Attributes:
        axis: the highest grid axis it uses, -1 for none.
        first, last: the instructions between which all loops that it uses are open.
    """

    axis: Ints
    first: Ints
    last: Ints


def expression_extents(t: Trace) -> Extents:
    """Walk all expressions; their references are in range and loops are well-nested.

    Raises:
        TraceError: a derived variable refers to a later one or to a grid axis, or an expression is
            too long.
    """
    n_expr, n_ins = len(t.expr_const), len(t.ins_op)
    loops = t.var_kind == VarKind.LOOP
    axis = np.where(t.var_kind == VarKind.AXIS, t.var_a, -1).astype(np.int64)
    first = np.zeros(len(t.var_kind), dtype=np.int64)
    last = np.full(len(t.var_kind), n_ins, dtype=np.int64)
    first[loops] = t.loop_first[t.var_a[loops]]
    last[loops] = t.loop_last[t.var_a[loops]]
    weight = np.ones(len(t.var_kind), dtype=np.int64)
    for var in np.flatnonzero((t.var_kind == VarKind.FLOORDIV) | (t.var_kind == VarKind.MOD)):
        start, stop = t.expr_start[t.var_a[var] : t.var_a[var] + 2]
        used = t.term_var[start:stop]
        if not len(used):
            continue
        # Only variables that come before: no cycles.
        if int(used.max()) >= var:
            raise TraceError("var_a refers to a later variable")
        if int(axis[used].max()) >= 0:
            raise TraceError("a derived variable uses a grid axis")
        first[var], last[var] = first[used].max(), last[used].min()
        weight[var] = min(1 + int(weight[used].sum()), MAX_WEIGHT + 1)
    owner = np.repeat(np.arange(n_expr), np.diff(t.expr_start))
    result = Extents(
        np.full(n_expr, -1, dtype=np.int64),
        np.zeros(n_expr, dtype=np.int64),
        np.full(n_expr, n_ins, dtype=np.int64),
    )
    np.maximum.at(result.axis, owner, axis[t.term_var])
    np.maximum.at(result.first, owner, first[t.term_var])
    np.minimum.at(result.last, owner, last[t.term_var])
    total = np.zeros(n_expr, dtype=np.int64)
    np.add.at(total, owner, weight[t.term_var])
    if n_expr and int(total.max()) > MAX_WEIGHT:
        raise TraceError(f"an expression has more than {MAX_WEIGHT} terms")
    return result
