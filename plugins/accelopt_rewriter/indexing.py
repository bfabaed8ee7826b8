"""Subscripts of tensors as affine expressions of loop indices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelopt_rewriter.static import Value, evaluate


@dataclass(frozen=True)
class Affine:
    """`const + sum(coefficient * loop index)`."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """self + factor * other."""
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + factor * coefficient
        kept = tuple(sorted((n, c) for n, c in terms.items() if c))
        return Affine(self.const + factor * other.const, kept)

    def times(self, factor: int) -> Affine:
        """factor * self."""
        return Affine().plus(self, factor)

    def coefficient(self, name: str) -> int:
        """Coefficient of one loop index."""
        return dict(self.terms).get(name, 0)

    def with_coefficient(self, name: str, value: int) -> Affine:
        """The same expression with another coefficient for one loop index."""
        return self.plus(Affine(0, ((name, 1),)), value - self.coefficient(name))

    @property
    def names(self) -> frozenset[str]:
        """Loop indices it depends on."""
        return frozenset(name for name, _ in self.terms)

    def text(self) -> str:
        """Python source."""
        parts = [name if c == 1 else f"{c} * {name}" for name, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")


@dataclass(frozen=True)
class Point:
    """An integer subscript."""

    at: Affine

    @property
    def names(self) -> frozenset[str]:
        """Loop indices it depends on."""
        return self.at.names


@dataclass(frozen=True)
class Span:
    """A contiguous range of subscripts.

    Attributes:
        start: first subscript.
        size: how many.
        axis: axis of the index grid for `arange` style; None for a slice.
        rank: rank of that grid.
    """

    start: Affine
    size: int
    axis: int | None = None
    rank: int = 0

    @property
    def names(self) -> frozenset[str]:
        """Loop indices it depends on."""
        return self.start.names

    def resized(self, size: int) -> Span:
        """The same start with another size."""
        return replace(self, size=size)


@dataclass(frozen=True)
class Opaque:
    """A subscript this analysis does not understand."""

    source: str
    names: frozenset[str]


Element = Point | Span | Opaque


class Reader:
    """Reads subscripts.

    Args:
        env: values of known names.
        loops: names of loop indices.
        nl: what the file calls `neuronxcc.nki.language`.
        inline: puts definitions in the place of index aliases.
    """

    def __init__(
        self,
        env: Mapping[str, Value],
        loops: frozenset[str],
        nl: str,
        inline: Callable[[ast.expr], ast.expr],
    ) -> None:
        self._env, self._loops, self._nl, self._inline = env, loops, nl, inline

    def affine(self, node: ast.expr) -> Affine | None:
        """`node` as an affine expression of loop indices, or None."""
        value = evaluate(node, self._env)
        if isinstance(value, int):
            return Affine(value)
        match node:
            case ast.Name(id=name) if name in self._loops:
                return Affine(0, ((name, 1),))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                a, b = self.affine(left), self.affine(right)
                sign = 1 if isinstance(op, ast.Add) else -1
                return a.plus(b, sign) if a is not None and b is not None else None
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                a, b = self.affine(left), self.affine(right)
                if a is None or b is None:
                    return None
                if not a.terms:
                    return b.times(a.const)
                return a.times(b.const) if not b.terms else None
        return None

    def elements(self, index: ast.expr, shape: Sequence[int] | None) -> tuple[Element, ...] | None:
        """The subscripts of `tensor[index]`; None for `tensor[...]`.

        Args:
            index: the slice of an `ast.Subscript`.
            shape: of the tensor, for open slices; None when unknown.
        """
        if isinstance(index, ast.Constant) and index.value is Ellipsis:
            return None
        items = index.elts if isinstance(index, ast.Tuple) else [index]
        sizes = list(shape) if shape is not None and len(shape) >= len(items) else None
        return tuple(
            self.element(item, sizes[position] if sizes else None)
            for position, item in enumerate(items)
        )

    def element(self, node: ast.expr, size: int | None) -> Element:
        """One subscript; `size` is the extent of its axis, if known."""
        full = self._inline(node)
        found = self._slice(full, size) if isinstance(full, ast.Slice) else self._grid(full)
        if found is not None:
            return found
        names = {n.id for n in ast.walk(full) if isinstance(n, ast.Name)} & self._loops
        return Opaque(ast.unparse(full), frozenset(names))

    def _slice(self, node: ast.Slice, size: int | None) -> Span | None:
        if node.step is not None:
            return None
        start = Affine() if node.lower is None else self.affine(node.lower)
        if node.upper is None:
            stop = None if size is None else Affine(size)
        else:
            stop = self.affine(node.upper)
        if start is None or stop is None:
            return None
        length = stop.plus(start, -1)
        return Span(start, length.const) if not length.terms and length.const > 0 else None

    def _grid(self, node: ast.expr) -> Element | None:
        affine = self.affine(node)
        if affine is not None:
            return Point(affine)
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                a, b = self._grid(left), self._grid(right)
                if isinstance(a, Span) and isinstance(b, Point):
                    return replace(a, start=a.start.plus(b.at))
                if isinstance(a, Point) and isinstance(b, Span):
                    return replace(b, start=b.start.plus(a.at))
            case ast.Call(func=ast.Attribute(attr="ds"), args=[first, length]):
                start, size = self.affine(first), evaluate(length, self._env)
                if start is not None and isinstance(size, int):
                    return Span(start, size)
            case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="arange")) as call, slice=at):
                axes = at.elts if isinstance(at, ast.Tuple) else [at]
                open_axes = [i for i, axis in enumerate(axes) if isinstance(axis, ast.Slice)]
                bounds = [evaluate(argument, self._env) for argument in call.args]
                if len(open_axes) == 1 and len(bounds) in (1, 2) and _all_ints(bounds):
                    low, high = (0, *bounds)[-2:]
                    if isinstance(low, int) and isinstance(high, int):
                        return Span(Affine(low), high - low, open_axes[0], len(axes))
        return None

    def text(self, element: Element) -> str:
        """Python source of a subscript."""
        if isinstance(element, Point):
            return element.at.text()
        if isinstance(element, Opaque):
            return element.source
        if element.axis is None:
            stop = element.start.plus(Affine(element.size))
            return f"{element.start.text()}:{stop.text()}"
        axes = ", ".join(":" if i == element.axis else "None" for i in range(element.rank))
        grid = f"{self._nl}.arange({element.size})[{axes}]"
        return grid if element.start == Affine() else f"{element.start.text()} + {grid}"


def _all_ints(values: Sequence[object]) -> bool:
    return all(isinstance(value, int) for value in values)


def grid_shape(elements: Sequence[Element]) -> tuple[int, ...] | None:
    """Shape of the tile that `tensor[elements]` addresses; None when unknown."""
    if any(isinstance(e, Opaque) for e in elements):
        return None
    spans = [e for e in elements if isinstance(e, Span)]
    if any(span.axis is not None for span in spans):
        sizes = [1] * max(span.rank for span in spans)
        for span in spans:
            if span.axis is not None:
                sizes[span.axis] = max(sizes[span.axis], span.size)
    else:
        sizes = [span.size for span in spans]
    return (*sizes, 1) if len(sizes) == 1 else tuple(sizes)
