"""Facts about a trace that constraints, numerics and latency all need: loops, iterations,
intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.schema import Compare, Space, TensorRole, Trace, VarKind

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Affine:
    """An expression split by what its variables are.

    Attributes:
        const: the constant.
        loops: (loop id, coefficient).
        axes: (grid axis, coefficient).
        others: (variable id, coefficient) for program ids, floor-division, modulo, run-time values.
    """

    const: int
    loops: tuple[tuple[int, int], ...]
    axes: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, int], ...]

    def axis_coefficient(self, axis: int) -> int:
        """Coefficient of a grid axis; 0 when it does not occur."""
        return sum(coef for a, coef in self.axes if a == axis)


class Analysis:
    """Derived facts of one trace; everything is computed once, on demand."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._affine: dict[int, Affine] = {}
        self._space: dict[tuple[int, ...], dict[int, Ints]] = {}
        self.cache: dict[str, Any] = {}

    # -- loops ----------------------------------------------------------------------------------

    @cached_property
    def innermost(self) -> Ints:
        """Innermost loop of each instruction, -1 at the top level."""
        result = np.full(self.trace.num_instructions, -1, dtype=np.int64)
        for loop in range(self.trace.num_loops):  # outer loops come first
            result[self.trace.loop_first[loop] : self.trace.loop_last[loop]] = loop
        return result

    def chain(self, loop: int) -> tuple[int, ...]:
        """The loops around (and including) `loop`, outermost first."""
        result: list[int] = []
        while loop >= 0:
            result.append(loop)
            loop = int(self.trace.loop_parent[loop])
        return tuple(reversed(result))

    def loops_of(self, instruction: int) -> tuple[int, ...]:
        """Loops around an instruction, outermost first."""
        return self.chain(int(self.innermost[instruction]))

    def children(self, loop: int) -> list[int]:
        """The loops directly inside `loop`, in order; of the top level for -1."""
        return self._children.get(loop, [])

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        result: dict[int, list[int]] = {}
        for loop, parent in enumerate(self.trace.loop_parent.tolist()):
            result.setdefault(parent, []).append(loop)
        return result

    def always_runs(self, loop: int) -> bool:
        """Whether a loop has fixed bounds and at least one iteration."""
        bounds = (self.trace.loop_start[loop], self.trace.loop_stop[loop])
        return not any(self.trace.terms(int(b)) for b in bounds) and self.max_trips(loop) > 0

    @cached_property
    def loop_range(self) -> list[tuple[int, int]]:
        """(lowest, highest) value of each loop variable; (0, -1) for a loop that never runs.

        Raises:
            TraceError: a loop's bounds use something other than outer loop variables.
        """
        ranges: list[tuple[int, int]] = []
        for loop in range(self.trace.num_loops):
            lows, highs = [], []
            outer = set(self.chain(int(self.trace.loop_parent[loop])))
            for column in (self.trace.loop_start, self.trace.loop_stop):
                affine = self.affine(int(column[loop]))
                if affine.axes or affine.others or any(lp not in outer for lp, _ in affine.loops):
                    raise TraceError("a loop bound uses more than outer loop variables")
                ends = [(c * ranges[lp][0], c * ranges[lp][1]) for lp, c in affine.loops]
                lows.append(affine.const + sum(min(e) for e in ends))
                highs.append(affine.const + sum(max(e) for e in ends))
            step = int(self.trace.loop_step[loop])
            start, stop = lows[0], highs[1]
            if start >= stop:
                ranges.append((0, -1))
                continue
            # Steps count from the start: where it is fixed, so is the last value.
            last = start + (stop - 1 - start) // step * step
            ranges.append((start, last if lows[0] == highs[0] else stop - 1))
        return ranges

    def max_trips(self, loop: int) -> int:
        """Most iterations of one run of a loop."""
        low, high = self.loop_range[loop]
        return (high - low) // int(self.trace.loop_step[loop]) + 1 if high >= low else 0

    def instances(self, loop: int) -> int:
        """Upper bound of how often the body of `loop` runs in all; 1 for -1."""
        return math.prod(self.max_trips(lp) for lp in self.chain(loop))

    def iterations(self, chain: tuple[int, ...]) -> dict[int, Ints]:
        """Values of a loop nest's variables, one entry per iteration, in order of execution."""
        if chain in self._space:
            return self._space[chain]
        if not chain:
            return {}
        outer = self.iterations(chain[:-1])
        count = len(next(iter(outer.values()))) if outer else 1
        loop = chain[-1]
        start = np.broadcast_to(self.evaluate(int(self.trace.loop_start[loop]), outer), count)
        stop = np.broadcast_to(self.evaluate(int(self.trace.loop_stop[loop]), outer), count)
        step = int(self.trace.loop_step[loop])
        trips = np.maximum(0, -(-(stop - start) // step))
        result = {lp: np.repeat(values, trips) for lp, values in outer.items()}
        position = np.arange(int(trips.sum())) - np.repeat(np.cumsum(trips) - trips, trips)
        result[loop] = np.repeat(start, trips) + position * step
        self._space[chain] = result
        return result

    # -- expressions ----------------------------------------------------------------------------

    def affine(self, expr: int) -> Affine:
        """An expression, split."""
        found = self._affine.get(expr)
        if found is None:
            groups: dict[VarKind, list[tuple[int, int]]] = {}
            others: list[tuple[int, int]] = []
            for var, coef in self.trace.terms(expr):
                kind = VarKind(int(self.trace.var_kind[var]))
                if kind in (VarKind.LOOP, VarKind.AXIS):
                    groups.setdefault(kind, []).append((int(self.trace.var_a[var]), coef))
                else:
                    others.append((var, coef))
            found = Affine(
                int(self.trace.expr_const[expr]),
                tuple(groups.get(VarKind.LOOP, ())),
                tuple(groups.get(VarKind.AXIS, ())),
                tuple(others),
            )
            self._affine[expr] = found
        return found

    def is_dynamic(self, expr: int) -> bool:
        """Whether an expression has a run-time value."""
        others = self.affine(expr).others
        return any(self.trace.var_kind[var] == VarKind.DYNAMIC for var, _ in others)

    def static_part(self, expr: int, loops: dict[int, Any]) -> Any:
        """Value of an expression without its axes and its run-time values."""
        return self.evaluate(expr, loops, skip_dynamic=True)

    def evaluate(self, expr: int, loops: dict[int, Any], *, skip_dynamic: bool = False) -> Any:
        """Value of an expression without its axes, for given loop values (arrays or integers).

        Raises:
            TraceError: it uses a loop that is not given, or a run-time value.
        """
        affine = self.affine(expr)
        value: Any = affine.const
        for loop, coef in affine.loops:
            if loop not in loops:
                raise TraceError("an index uses a loop that does not enclose it")
            value = value + loops[loop] * coef
        for var, coef in affine.others:
            kind = VarKind(int(self.trace.var_kind[var]))
            if kind is VarKind.PROGRAM:
                continue  # launched without a grid: program id 0
            if kind is VarKind.DYNAMIC:
                if skip_dynamic:
                    continue
                raise TraceError("run-time indices are not supported here")
            inner = self.evaluate(int(self.trace.var_a[var]), loops)
            divisor = int(self.trace.var_b[var])
            value = value + coef * (
                inner // divisor if kind is VarKind.FLOORDIV else inner % divisor
            )
        return value

    def loops_in(self, expr: int) -> set[int]:
        """The loops whose variables an expression depends on, through `//` and `%` too."""
        affine = self.affine(expr)
        found = {loop for loop, coef in affine.loops if coef}
        for var, coef in affine.others:
            derived = self.trace.var_kind[var] in (VarKind.FLOORDIV, VarKind.MOD)
            if coef and derived:
                found |= self.loops_in(int(self.trace.var_a[var]))
        return found

    def interval(self, expr: int, grid: tuple[int, ...]) -> tuple[int, int]:
        """(lowest, highest) value over all iterations and the whole grid; exact for affine ones."""
        affine = self.affine(expr)
        low = high = affine.const
        for loop, coef in affine.loops:
            ends = (coef * self.loop_range[loop][0], coef * self.loop_range[loop][1])
            low, high = low + min(ends), high + max(ends)
        for axis, coef in affine.axes:
            ends = (0, coef * (grid[axis] - 1))
            low, high = low + min(ends), high + max(ends)
        for var, coef in affine.others:
            ends = tuple(coef * end for end in self._derived_interval(var))  # type: ignore[assignment]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _derived_interval(self, var: int) -> tuple[int, int]:
        kind = VarKind(int(self.trace.var_kind[var]))
        if kind in (VarKind.FLOORDIV, VarKind.MOD):
            low, high = self.interval(int(self.trace.var_a[var]), ())
            divisor = int(self.trace.var_b[var])
            if kind is VarKind.FLOORDIV:
                return low // divisor, high // divisor
            if low // divisor == high // divisor:
                return low % divisor, high % divisor
            return 0, divisor - 1
        if kind is VarKind.PROGRAM:
            return 0, 0
        return -(1 << 40), 1 << 40

    # -- predicates -----------------------------------------------------------------------------

    def axis_window(
        self, predicate: int, grid: tuple[int, ...], loops: dict[int, Any]
    ) -> tuple[list[Any], list[Any], Any, bool]:
        """Where a predicate holds, as a box over the grid.

        Returns:
            lowest and one-past-highest index per axis, whether anything holds at all (arrays when
            the loop values are arrays), and whether the box is exact (false: it is only a bound).
        """
        lows: list[Any] = [0] * len(grid)
        highs: list[Any] = list(grid)
        alive: Any = True
        exact = True
        for clause in self.trace.clauses(predicate):
            axes = {a for expr, _ in clause for a, _ in self.affine(expr).axes}
            if not axes:
                holds: Any = False
                for expr, compare in clause:
                    holds = holds | _holds(self.evaluate(expr, loops), compare)
                alive = alive & holds
                continue
            if len(clause) > 1 or len(axes) > 1 or clause[0][1] is not Compare.GE:
                exact = False
                continue
            (expr, _), axis = clause[0], axes.pop()
            coef = self.affine(expr).axis_coefficient(axis)
            rest = self.evaluate(expr, loops)
            # coef * i + rest >= 0
            if coef > 0:
                lows[axis] = np.maximum(lows[axis], -(rest // coef))
            elif coef < 0:
                highs[axis] = np.minimum(highs[axis], rest // -coef + 1)
            else:
                alive = alive & (rest >= 0)
        for low, high in zip(lows, highs, strict=True):
            alive = alive & (np.asarray(low) < np.asarray(high))
        return lows, highs, alive, exact

    # -- tensors --------------------------------------------------------------------------------

    def storage(self, tensor: int) -> int:
        """The tensor whose storage this one is a view of (itself when it is none)."""
        alias = int(self.trace.tensor_alias[tensor])
        return alias if alias >= 0 else tensor

    def is_output(self, tensor: int) -> bool:
        """Whether the storage of a tensor is a result of the kernel."""
        return bool(self.trace.tensor_role[self.storage(tensor)] == TensorRole.OUTPUT)

    def on_chip(self, tensor: int) -> bool:
        """Whether a tensor lies in SBUF or PSUM."""
        return bool(self.trace.tensor_space[tensor] != Space.HBM)


def _holds(value: Any, compare: Compare) -> Any:
    if compare is Compare.GE:
        return value >= 0
    return value == 0 if compare is Compare.EQ else value != 0
