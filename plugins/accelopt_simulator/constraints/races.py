"""Two iterations of an affine loop that meet in one element, decided exactly for affine indices.

Two accesses of a tensor that was made outside of a loop meet when one of them touches, in some
iteration of the loop, an element that the other touches in another iteration (all loops further out
at the same values). What can't be decided exactly counts as not meeting: run-time indices, masks
over the axes of a tile, diagonal accesses, views of another shape, and nests that are too large to
enumerate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import Use

Ints = NDArray[np.int64]

MAX_ENUMERATED = 1 << 20
"""Iterations of a nest, or pairs of iterations, that are enumerated for one comparison."""

BUDGET = 1 << 23
"""The same for all comparisons of a trace."""

MAX_OFFSETS = 1 << 16
"""Distances between elements of two tiles along one dimension that are listed."""


@dataclass(frozen=True)
class _Distances:
    """Which differences of two starting points make two tiles overlap along a dimension."""

    low: int
    high: int
    listed: Ints | None
    """The differences when there are gaps between `low` and `high`; sorted."""

    def holds(self, differences: Ints) -> NDArray[np.bool_]:
        """Where two tiles whose starting points differ by so much overlap."""
        inside: NDArray[np.bool_] = (differences >= self.low) & (differences <= self.high)
        if self.listed is None:
            return inside
        at = np.minimum(np.searchsorted(self.listed, differences), len(self.listed) - 1)
        inside &= self.listed[at] == differences
        return inside


class Races:
    """Compares accesses of one trace; results are kept."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.trace = analysis.trace
        self._extents: dict[tuple[int, tuple[int, ...]], Ints | tuple[int, int] | None] = {}
        self._meets: dict[tuple[int, ...], bool] = {}
        self._budget = BUDGET

    def meet(self, first: Use, second: Use, loop: int) -> bool:
        """Whether two accesses of one tensor certainly meet in different iterations of `loop`."""
        trace = self.trace
        predicates = (
            int(trace.ins_pred[first.instruction]),
            int(trace.ins_pred[second.instruction]),
        )
        innermost = self.analysis.innermost
        nests = (int(innermost[first.instruction]), int(innermost[second.instruction]))
        key = (first.access, second.access, *predicates, *nests, loop)
        if key not in self._meets:
            self._meets[key] = self._meet(first, second, predicates, loop)
        return self._meets[key]

    def _meet(self, first: Use, second: Use, predicates: tuple[int, int], loop: int) -> bool:
        trace = self.trace
        if trace.access_tensor[first.access] != trace.access_tensor[second.access]:
            return False
        exprs = (trace.access_exprs(first.access), trace.access_exprs(second.access))
        grids = (trace.access_shape(first.access), trace.access_shape(second.access))
        dims = list(zip(*exprs, strict=True))
        distances = []
        for one, other in dims:
            distance = self._distances(one, grids[0], other, grids[1])
            if distance is None:
                return False
            distances.append(distance)
        if any(_diagonal(self.analysis, e, g) for e, g in zip(exprs, grids, strict=True)):
            return False
        if any(
            self._kept_apart(one, other, distance, loop)
            for (one, other), distance in zip(dims, distances, strict=True)
        ):
            return False
        return self._enumerate((first, second), exprs, distances, predicates, loop)

    # -- one dimension ----------------------------------------------------------------------------

    def _distances(
        self, one: int, grid: tuple[int, ...], other: int, other_grid: tuple[int, ...]
    ) -> _Distances | None:
        """`start of other - start of one` at which they overlap; None when it is not known."""
        a, b = self._offsets(one, grid), self._offsets(other, other_grid)
        if a is None or b is None:
            return None
        if isinstance(a, tuple) and isinstance(b, tuple):
            return _Distances(a[0] - b[1], a[1] - b[0], None)
        left, right = _listed(a), _listed(b)
        if len(left) * len(right) > MAX_OFFSETS:
            return None
        differences = np.unique(left[:, None] - right[None, :])
        return _Distances(int(differences[0]), int(differences[-1]), differences)

    def _offsets(self, expr: int, grid: tuple[int, ...]) -> Ints | tuple[int, int] | None:
        """Positions a tile takes along a dimension, from its start: (first, last), or a list."""
        key = (expr, grid)
        if key not in self._extents:
            self._extents[key] = self._new_offsets(expr, grid)
        return self._extents[key]

    def _new_offsets(self, expr: int, grid: tuple[int, ...]) -> Ints | tuple[int, int] | None:
        if self.analysis.is_dynamic(expr):
            return None
        axes = [(a, c) for a, c in self.analysis.affine(expr).axes if c and grid[a] > 1]
        if not axes:
            return (0, 0)
        if len(axes) == 1 and abs(axes[0][1]) == 1:
            reach = axes[0][1] * (grid[axes[0][0]] - 1)
            return (min(0, reach), max(0, reach))
        if np.prod([float(grid[a]) for a, _ in axes]) > MAX_OFFSETS:
            return None
        values: Ints = np.zeros(1, dtype=np.int64)
        for axis, coef in axes:
            values = np.unique(values[:, None] + coef * np.arange(grid[axis])[None, :])
        if values[-1] - values[0] == len(values) - 1:
            return (int(values[0]), int(values[-1]))
        return values

    def _kept_apart(self, one: int, other: int, distance: _Distances, loop: int) -> bool:
        """Whether a dimension alone shows that iterations of `loop` never meet.

        It does when its index moves with `loop` by more than the tiles overlap, and depends on
        nothing else that may differ between the two iterations.
        """
        analysis = self.analysis
        a, b = analysis.affine(one), analysis.affine(other)
        outer = set(analysis.chain(loop)) - {loop}
        if a.loops != b.loops or a.others != b.others:
            return False
        if any(analysis.loops_in(int(self.trace.var_a[var])) - outer for var, _ in a.others):
            return False
        if any(lp not in outer and lp != loop for lp, _ in a.loops):
            return False
        coef = sum(c for lp, c in a.loops if lp == loop)
        if coef == 0:
            return False
        step, base = abs(coef) * int(self.trace.loop_step[loop]), b.const - a.const
        most = analysis.max_trips(loop) - 1
        # Iterations that are k apart meet when base + k * step is one of the distances.
        first = max(-most, -((base - distance.low) // step))
        last = min(most, (distance.high - base) // step)
        if last - first > MAX_OFFSETS:
            return False
        apart = np.arange(first, last + 1)
        return not distance.holds(base + step * apart[apart != 0]).any()

    # -- all dimensions ---------------------------------------------------------------------------

    def _enumerate(
        self,
        uses: tuple[Use, Use],
        exprs: tuple[tuple[int, ...], tuple[int, ...]],
        distances: list[_Distances],
        predicates: tuple[int, int],
        loop: int,
    ) -> bool:
        outer = self.analysis.chain(loop)[:-1]
        same = self._same_for_both(outer, exprs, predicates)
        kept = tuple(lp for lp in outer if lp not in same)
        tables = []
        for use, own, predicate in zip(uses, exprs, predicates, strict=True):
            table = self._table(use, own, predicate, (*kept, loop), same)
            if table is None or not len(table):
                return False
            tables.append(table)
        # Loops further out have the same values: compare group by group.
        groups: dict[tuple[int, ...], list[Ints]] = {}
        for table in tables:
            for key, rows in _grouped(table, len(kept)):
                groups.setdefault(key, []).append(rows)
        pairs = [g for g in groups.values() if len(g) == 2]
        if not self._affordable(sum(len(a) * len(b) for a, b in pairs)):
            return False
        for a, b in pairs:
            meeting = a[:, None, 0] != b[None, :, 0]
            for dim, distance in enumerate(distances):
                meeting &= distance.holds(b[None, :, dim + 1] - a[:, None, dim + 1])
            if meeting.any():
                return True
        return False

    def _affordable(self, work: int) -> bool:
        """Whether so many more rows or pairs may be enumerated; takes them off the budget."""
        if work > min(self._budget, MAX_ENUMERATED):
            return False
        self._budget -= work
        return True

    def _same_for_both(
        self,
        outer: tuple[int, ...],
        exprs: tuple[tuple[int, ...], tuple[int, ...]],
        predicates: tuple[int, int],
    ) -> set[int]:
        """Outer loops whose value moves both accesses alike, so that any one value will do."""
        analysis, trace = self.analysis, self.trace
        tied: set[int] = set()
        for predicate in predicates:
            if predicate >= 0:
                tied.update(
                    loop
                    for clause in trace.clauses(predicate)
                    for expr, _ in clause
                    for loop in analysis.loops_in(expr)
                )
        for one, other in zip(*exprs, strict=True):
            a, b = analysis.affine(one), analysis.affine(other)
            moved = dict(a.loops)
            tied |= {
                lp for lp in {*moved, *dict(b.loops)} if moved.get(lp) != dict(b.loops).get(lp)
            }
            for var, _ in (*a.others, *b.others):
                tied |= analysis.loops_in(int(trace.var_a[var]))
        tied |= self._bounding
        return {lp for lp in outer if lp not in tied and analysis.always_runs(lp)}

    @cached_property
    def _bounding(self) -> set[int]:
        """Loops that the bounds of any loop depend on."""
        return {lp for loop in range(self.trace.num_loops) for lp in self._bound_loops(loop)}

    def _bound_loops(self, loop: int) -> set[int]:
        """Loops that the bounds of a loop depend on."""
        bounds = (self.trace.loop_start[loop], self.trace.loop_stop[loop])
        return {lp for expr in bounds for lp in self.analysis.loops_in(int(expr))}

    def _table(
        self, use: Use, exprs: tuple[int, ...], predicate: int, leading: tuple[int, ...],
        fixed: set[int],
    ) -> Ints | None:  # fmt: skip
        """One row per distinct iteration: the leading loops, then the start per dimension.

        None when it is not known exactly what an iteration touches, or there are too many.
        """
        analysis, trace = self.analysis, self.trace
        clauses = trace.clauses(predicate) if predicate >= 0 else []
        conditions = [expr for clause in clauses for expr, _ in clause]
        if any(analysis.affine(e).axes or analysis.is_dynamic(e) for e in conditions):
            return None
        needed = {lp for e in (*exprs, *conditions) for lp in analysis.loops_in(e)} | {*leading}
        nest = tuple(
            lp
            for lp in analysis.chain(int(analysis.innermost[use.instruction]))
            if lp not in fixed and (lp in needed or not analysis.always_runs(lp))
        )
        # A loop that bounds depend on has been kept with them: nothing bounds a dropped one.
        bounding = {lp for inner in nest for lp in self._bound_loops(inner)}
        whole = analysis.chain(int(analysis.innermost[use.instruction]))
        nest = tuple(lp for lp in whole if lp in nest or lp in bounding)
        if not self._affordable(math.prod(analysis.max_trips(lp) for lp in nest)):
            return None
        loops: dict[int, Any] = analysis.iterations(nest)
        count = len(loops[leading[-1]])
        loops = loops | {lp: 0 for lp in whole if lp not in loops}
        columns = [loops[lp] for lp in leading]
        columns += [np.broadcast_to(analysis.evaluate(e, loops), count) for e in exprs]
        table: Ints = np.stack(columns, axis=1)
        if predicate >= 0:
            _, _, alive, _ = analysis.axis_window(predicate, (), loops)
            table = table[np.broadcast_to(alive, count)]
        return _distinct(table)


def _distinct(table: Ints) -> Ints:
    """The distinct rows, sorted."""
    order = np.lexsort(table.T[::-1])
    table = table[order]
    if len(table) < 2:
        return table
    new = np.concatenate(([True], (table[1:] != table[:-1]).any(axis=1)))
    return table[new]


def _grouped(table: Ints, leading: int) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Sorted rows by their first columns: the values of these, and the rest of the rows."""
    keys = table[:, :leading]
    cuts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
    for rows in np.split(table, cuts):
        yield tuple(rows[0, :leading].tolist()), rows[:, leading:]


def _listed(offsets: Ints | tuple[int, int]) -> Ints:
    if isinstance(offsets, tuple):
        return np.arange(offsets[0], offsets[1] + 1, dtype=np.int64)
    return offsets


def _diagonal(analysis: Analysis, exprs: tuple[int, ...], grid: tuple[int, ...]) -> bool:
    """Whether one axis runs along two dimensions, so that a tile is no box of positions."""
    seen: set[int] = set()
    for expr in exprs:
        axes = {axis for axis, coef in analysis.affine(expr).axes if coef and grid[axis] > 1}
        if axes & seen:
            return True
        seen |= axes
    return False
