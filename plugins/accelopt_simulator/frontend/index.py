"""Symbolic indices and masks: what `nl.arange`, loop variables and comparisons of them are.

An `Index` is an affine expression over loop variables and the axes of its own grid; axis numbers
count from the front of `shape`. Broadcasting aligns grids at their last axis, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.trace.builder import Affine, Clause, Predicate, VarKey
from accelopt_simulator.trace.schema import Compare

MAX_CLAUSES = 64


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcast of shapes.

    Raises:
        KernelFault: they don't fit.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listing = " and ".join(str(s) for s in shapes)
        raise KernelFault("shape_mismatch", f"shapes {listing} do not broadcast") from None


def shift_axes(affine: Affine, by: int) -> Affine:
    """Renumber the axes of an expression when its grid gains `by` leading axes."""
    if by == 0:
        return affine
    mapping = {
        key: Affine.var(("axis", key[1] + by)) for key, _ in affine.terms if key[0] == "axis"
    }
    return affine.substitute(mapping)


def unused_axes(affines: list[Affine], shape: tuple[int, ...]) -> list[int]:
    """Free axes of size 1 that no expression uses."""
    used = {key[1] for affine in affines for key, _ in affine.terms if key[0] == "axis"}
    return [a for a in range(1, len(shape)) if shape[a] == 1 and a not in used]


def without_axes(rank: int, dropped: list[int]) -> dict[VarKey, Affine]:
    """What the axes of a grid become when some are dropped."""
    kept = [a for a in range(rank) if a not in dropped]
    mapping: dict[VarKey, Affine] = {("axis", a): Affine(0) for a in dropped}
    return mapping | {("axis", a): Affine.var(("axis", new)) for new, a in enumerate(kept)}


class Index:
    """An affine index expression over a grid. Immutable.

    Attributes:
        affine: the expression.
        shape: the grid it is over.
        dense: whether it comes from `nl.mgrid`, whose grids have all axes: a subscript that uses
            only some of them has no extent along the others.
    """

    __slots__ = ("affine", "dense", "shape")

    def __init__(self, affine: Affine, shape: tuple[int, ...] = (), dense: bool = False) -> None:
        self.affine = affine
        self.shape = shape
        self.dense = dense

    @property
    def ndim(self) -> int:
        """Rank of the grid; 0 for a loop variable."""
        return len(self.shape)

    def aligned(self, rank: int) -> Affine:
        """The expression over a grid of `rank` axes that this one is broadcast to."""
        return shift_axes(self.affine, rank - self.ndim)

    def __getitem__(self, key: Any) -> Index:
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            missing = self.ndim - sum(k is not None and k is not Ellipsis for k in keys)
            keys = keys[:at] + (slice(None),) * missing + keys[at + 1 :]
        shape: list[int] = []
        mapping: dict[VarKey, Affine] = {}
        axis = 0
        for item in keys:
            if item is None:
                shape.append(1)
            elif item == slice(None) and axis < self.ndim:
                mapping["axis", axis] = Affine.var(("axis", len(shape)))
                shape.append(self.shape[axis])
                axis += 1
            else:
                raise KernelFault(
                    "unsupported_index_subscript",
                    "an index may only be subscripted with ':' and None",
                )
        for rest in range(axis, self.ndim):
            mapping["axis", rest] = Affine.var(("axis", len(shape)))
            shape.append(self.shape[rest])
        return Index(self.affine.substitute(mapping), tuple(shape))

    # -- arithmetic -----------------------------------------------------------------------------

    def _binary(self, other: Any, sign: int) -> Index:
        right = as_index(other)
        if right is None:
            return NotImplemented  # type: ignore[no-any-return]
        shape = broadcast_shapes(self.shape, right.shape)
        rank = len(shape)
        dense = self.dense or right.dense
        return Index(self.aligned(rank) + right.aligned(rank) * sign, shape, dense)

    def __add__(self, other: Any) -> Index:
        return self._binary(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Index:
        return self._binary(other, -1)

    def __rsub__(self, other: Any) -> Index:
        return (-self)._binary(other, 1)

    def __neg__(self) -> Index:
        return Index(self.affine * -1, self.shape, self.dense)

    def __pos__(self) -> Index:
        return self

    def __mul__(self, other: Any) -> Index:
        right = as_index(other)
        if right is None:
            return NotImplemented
        if right.affine.is_constant and right.ndim == 0:
            return Index(self.affine * right.affine.const, self.shape, self.dense)
        if self.affine.is_constant and self.ndim == 0:
            return Index(right.affine * self.affine.const, right.shape, right.dense)
        raise KernelFault(
            "non_affine_index", "the product of two indices is not an affine expression"
        )

    __rmul__ = __mul__

    def _derived(self, kind: str, other: Any) -> Index:
        divisor = as_int(other)
        if divisor is None or divisor <= 0:
            raise KernelFault(
                "non_affine_index", f"{kind} of an index needs a positive constant divisor"
            )
        if any(key[0] == "axis" for key, _ in self.affine.terms):
            raise KernelFault(
                "non_affine_index",
                f"{kind} of an arange is not an affine expression",
                hint="use a grid with one more axis instead",
            )
        if self.affine.is_constant:
            value = self.affine.const
            return Index(Affine(value // divisor if kind == "floordiv" else value % divisor))
        return Index(Affine.var((kind, self.affine, divisor)), self.shape)

    def __floordiv__(self, other: Any) -> Index:
        return self._derived("floordiv", other)

    def __mod__(self, other: Any) -> Index:
        return self._derived("mod", other)

    # -- comparison -----------------------------------------------------------------------------

    def _compare(self, other: Any, compare: Compare, sign: int, offset: int) -> Any:
        right = as_index(other)
        if right is None:
            return NotImplemented
        shape = broadcast_shapes(self.shape, right.shape)
        rank = len(shape)
        affine = (self.aligned(rank) - right.aligned(rank)) * sign + offset
        return Mask((((affine, compare),),), shape).simplified()

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, Compare.GE, 1, 0)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, Compare.GE, 1, -1)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, Compare.GE, -1, 0)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, Compare.GE, -1, -1)

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, Compare.EQ, 1, 0)

    def __ne__(self, other: Any) -> Any:
        return self._compare(other, Compare.NE, 1, 0)

    # -- what a symbolic value cannot be ----------------------------------------------------------

    def __hash__(self) -> int:
        _not_python("a key of a Python dictionary or set")

    def __index__(self) -> int:
        _not_python("a Python integer (a list subscript, a shape or a range)")

    __int__ = __index__

    def __float__(self) -> float:
        _not_python("a Python number")

    def __bool__(self) -> bool:
        _not_python("a truth value here")

    def __iter__(self) -> Iterator[Any]:
        raise KernelFault("index_not_iterable", "an index can't be iterated over")

    def __setitem__(self, key: Any, value: Any) -> None:
        _no_storage("an index")


def _no_storage(what: str) -> NoReturn:
    raise KernelFault(
        "err_cannot_assign_to_index",
        f"{what} has no storage to assign to",
        hint="materialize it with nisa.iota",
    )


def _not_python(use: str) -> NoReturn:
    raise KernelFault(
        "loop_index_as_python_value",
        f"a loop index is symbolic and can't be {use}: the body is traced once",
        hint="use it in tensor subscripts and masks, or loop with nl.static_range",
    )


def as_int(value: Any) -> int | None:
    """A plain integer, or None when `value` is not one."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, int):
        return int.__pos__(value)  # a subclass is not asked
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Index) and value.ndim == 0 and value.affine.is_constant:
        return value.affine.const
    return None


def as_index(value: Any) -> Index | None:
    """`value` as an index expression, or None when it can't be one."""
    if isinstance(value, Index):
        return value
    number = as_int(value)
    return None if number is None else Index(Affine(number))


class Mask:
    """A predicate over a grid: comparisons of indices, combined with `& | ~`. Immutable."""

    __slots__ = ("predicate", "shape")

    def __init__(self, predicate: Predicate, shape: tuple[int, ...]) -> None:
        self.predicate = predicate
        self.shape = shape

    def simplified(self) -> Mask | bool:
        """A plain bool when nothing symbolic is left."""
        if self.shape == () and all(a.is_constant for c in self.predicate for a, _ in c):
            return all(any(_holds(a.const, cmp) for a, cmp in clause) for clause in self.predicate)
        return self

    def affines(self) -> list[Affine]:
        """The expressions that are compared."""
        return [affine for clause in self.predicate for affine, _ in clause]

    def aligned(self, rank: int) -> Predicate:
        """The predicate over a grid of `rank` axes that this one is broadcast to."""
        by = rank - len(self.shape)
        return tuple(tuple((shift_axes(a, by), cmp) for a, cmp in c) for c in self.predicate)

    def __and__(self, other: Any) -> Mask:
        right = as_mask(other)
        if right is None:
            return NotImplemented
        shape = broadcast_shapes(self.shape, right.shape)
        return Mask(self.aligned(len(shape)) + right.aligned(len(shape)), shape)

    __rand__ = __and__

    def __or__(self, other: Any) -> Mask:
        right = as_mask(other)
        if right is None:
            return NotImplemented
        shape = broadcast_shapes(self.shape, right.shape)
        rank = len(shape)
        return Mask(_distribute([self.aligned(rank), right.aligned(rank)]), shape)

    __ror__ = __or__

    def __invert__(self) -> Mask:
        # not (A and B) = (not A) or (not B); each clause negates to a conjunction of atoms.
        parts: list[Predicate] = [tuple((_negate(atom),) for atom in c) for c in self.predicate]
        return Mask(_distribute(parts), self.shape)

    def __getitem__(self, key: Any) -> Mask:
        clauses = []
        shape: tuple[int, ...] = self.shape
        for clause in self.predicate:
            atoms = []
            for affine, cmp in clause:
                index = Index(affine, self.shape)[key]
                shape = index.shape
                atoms.append((index.affine, cmp))
            clauses.append(tuple(atoms))
        return Mask(tuple(clauses), shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        _no_storage("a mask")

    def __bool__(self) -> bool:
        if self.shape:
            raise KernelFault(
                "err_control_flow_condition_depending_on_arange",
                "a condition that depends on an arange can't steer Python",
                hint="pass it as mask=, and combine masks with & instead of `and`",
            )
        raise KernelFault(
            "err_dynamic_control_flow_not_supported",
            "a condition on a loop index can't be used here",
            hint="write it as an `if` statement, or pass it as mask=; combine with &, not `and`",
        )


def as_mask(value: Any) -> Mask | None:
    """`value` as a mask, or None when it can't be one."""
    if isinstance(value, Mask):
        return value
    if isinstance(value, (bool, np.bool_)):
        return Mask((((Affine(0 if value else -1), Compare.GE),),), ())
    return None


def _holds(value: int, compare: Compare) -> bool:
    return {Compare.GE: value >= 0, Compare.EQ: value == 0, Compare.NE: value != 0}[compare]


def _negate(atom: tuple[Affine, Compare]) -> tuple[Affine, Compare]:
    affine, compare = atom
    if compare is Compare.GE:
        return affine * -1 + -1, Compare.GE
    return affine, Compare.NE if compare is Compare.EQ else Compare.EQ


def _distribute(parts: list[Predicate]) -> Predicate:
    """Conjunctive form of a disjunction of conjunctive forms."""
    result: list[Clause] = [()]
    for part in parts:
        result = [left + right for left in result for right in part]
        if len(result) > MAX_CLAUSES:
            raise KernelFault("err_unsupported_expression_in_mask", "the mask is too complicated")
    return tuple(result)


def arange(*args: Any) -> Index:
    """`nl.arange(stop)` or `nl.arange(start, stop)`: a grid of one axis."""
    bounds = [b for b in map(as_index, args) if b is not None and b.ndim == 0]
    if len(bounds) != len(args) or len(bounds) not in (1, 2):
        raise KernelFault("bad_arange", "nl.arange takes (stop) or (start, stop), integers")
    start, stop = (Index(Affine(0)), bounds[0]) if len(bounds) == 1 else bounds
    size = (stop.affine - start.affine).const
    if not (stop.affine - start.affine).is_constant or size <= 0:
        raise KernelFault("bad_arange", "nl.arange needs a positive constant length")
    return Index(start.affine + Affine.var(("axis", 0)), (size,))


class MGrid(tuple[Index, ...]):
    """What `nl.mgrid[0:a, 0:b]` gives: one index per axis, also as `.p`, `.x`, `.y`, `.z`, `.w`."""

    p = property(lambda self: self[0])
    x = property(lambda self: self[1])
    y = property(lambda self: self[2])
    z = property(lambda self: self[3])
    w = property(lambda self: self[4])

    def __setitem__(self, key: Any, value: Any) -> None:
        _no_storage("a grid of indices")


class MGridMaker:
    """The object `nl.mgrid`."""

    def __getitem__(self, key: Any) -> MGrid:
        slices = key if isinstance(key, tuple) else (key,)
        starts, sizes = [], []
        for item in slices:
            if not isinstance(item, slice) or item.step is not None:
                raise KernelFault("bad_mgrid", "nl.mgrid takes slices without a step")
            start, stop = as_int(item.start or 0), as_int(item.stop)
            if start is None or stop is None or stop <= start:
                raise KernelFault("bad_mgrid", "nl.mgrid needs constant, non-empty slices")
            starts.append(start)
            sizes.append(stop - start)
        shape = tuple(sizes)
        # Dense grids keep every axis; only the own axis occurs in each expression.
        return MGrid(
            Index(
                Affine.var(("axis", axis)) + start,
                tuple(n if a == axis else 1 for a, n in enumerate(shape)),
                dense=True,
            )
            for axis, start in enumerate(starts)
        )


class DynamicSlice:
    """`nl.ds(start, size)`: `start : start + size`, where start may be symbolic."""

    __slots__ = ("size", "start")

    def __init__(self, start: Any, size: Any) -> None:
        self.start = start
        self.size = size
