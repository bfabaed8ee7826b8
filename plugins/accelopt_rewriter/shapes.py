"""Shapes of the tiles that calls return."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelopt_rewriter.indexing import grid_shape
from accelopt_rewriter.static import evaluate

if TYPE_CHECKING:
    from accelopt_rewriter.analysis import Kernel

Shape = tuple[int, ...]


def result_shape(kernel: Kernel, node: ast.expr) -> Shape | None:
    """Shape of an expression's value; None when unknown."""
    ref = kernel.ref(node)
    if ref is not None:
        return ref.shape
    if isinstance(node, ast.Subscript):
        elements = kernel.reader.elements(node.slice, None)
        return grid_shape(elements) if elements is not None else None
    if isinstance(node, ast.BinOp):
        return _broadcast([result_shape(kernel, n) for n in (node.left, node.right)])
    if isinstance(node, ast.Call):
        return _call_shape(kernel, node)
    return None


def _call_shape(kernel: Kernel, call: ast.Call) -> Shape | None:
    names = kernel.names
    callee = names.callee(call)
    given = names.argument(call, "shape")
    if given is None and callee == ".broadcast_to" and call.args:
        given = call.args[0]
    if given is not None:
        shape = evaluate(given, kernel.env)
        return shape if isinstance(shape, tuple) else None

    def of(name: str) -> Shape | None:
        argument = names.argument(call, name)
        return None if argument is None else result_shape(kernel, argument)

    if callee in ("nl.load", "nl.copy", "nisa.tensor_copy"):
        return of("src")
    if callee in ("nl.sum", "nl.max", "nl.min", "nl.mean", "nisa.tensor_reduce"):
        inner = of("data") if callee == "nisa.tensor_reduce" else of("x")
        return (inner[0], 1) if inner else None
    if callee == "nl.matmul":
        x, y = of("x"), of("y")
        row = 1 if names.keyword(call, "transpose_x") is not None else 0
        return (x[row], y[1]) if x and y and len(x) == len(y) == 2 else None
    if callee == "nisa.nc_matmul":
        x, y = of("stationary"), of("moving")
        return (x[1], y[1]) if x and y and len(x) == len(y) == 2 else None
    if callee == "nisa.nc_transpose":
        x = of("data")
        return (x[1], x[0]) if x and len(x) == 2 else None
    if callee.startswith(("nl.", "nisa.")):
        operands = ("x", "y", "data", "data1", "data2", "operand1")
        shapes = [of(name) for name in operands]
        return _broadcast(shapes)
    return None


def _broadcast(shapes: list[Shape | None]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if not known or any(len(shape) != len(known[0]) for shape in known):
        return None
    return tuple(max(sizes) for sizes in zip(*known, strict=True))
