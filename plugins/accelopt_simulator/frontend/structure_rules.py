"""Python that a kernel can't use at all: what the guarded run could not control.

Everything else that a source must not do is stopped where it happens, by `sandbox`; the screen
(`process.screening`) says most of it beforehand, with the line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_simulator.frontend.sandbox_tables import (
    CLASS_BODY_NAMES,
    READABLE_SPECIAL,
    SPECIAL_METHODS,
)

MODULE_NAMES = frozenset({"__all__", "__author__", "__version__"}) | CLASS_BODY_NAMES
_ASYNC = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


def structure_objection(node: ast.AST) -> str:
    """Why one node of a kernel's tree is refused; empty when it is not."""
    if isinstance(node, _ASYNC) or (isinstance(node, ast.comprehension) and node.is_async):
        return "uses async"
    if isinstance(node, ast.ClassDef) and node.keywords:
        return "defines a class with a metaclass or other keywords"
    if isinstance(node, ast.MatchClass) and (node.patterns or node.kwd_attrs):
        return "matches on attributes"
    if isinstance(node, ast.MatchValue) and not isinstance(node.value, (ast.Constant, ast.UnaryOp)):
        return "matches on attributes"
    if isinstance(node, ast.Attribute):
        name = node.attr
        if name.startswith("__") and name not in READABLE_SPECIAL | SPECIAL_METHODS:
            return f"reaches for the attribute {name}"
        return ""
    if isinstance(node, ast.Name):
        return _name_objection(node)
    if isinstance(node, ast.FunctionDef) and node.name in SPECIAL_METHODS:
        return ""
    if isinstance(node, ast.FunctionDef) and node.name.startswith("__") and node.name[-2:] == "__":
        return f"defines the special method {node.name}"
    for name in _bound(node):
        if name.startswith("__"):
            return f"uses the reserved name {name}"
    return ""


def _name_objection(node: ast.Name) -> str:
    name = node.id
    if not name.startswith("__"):
        return ""
    if isinstance(node.ctx, ast.Load):
        return "" if name in READABLE_SPECIAL | {"__debug__"} else f"uses {name}"
    return "" if name in MODULE_NAMES else f"uses the reserved name {name}"


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a node binds without a `Name` of its own."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or ("" if node.name == "__future__" else node.name)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        yield node.name or ""
    elif isinstance(node, ast.MatchMapping):
        yield node.rest or ""
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names


GET, OWN = "<get>", "<own>"
"""Names of the guards in a kernel's module; no source can spell them."""


class AttributeGuard(ast.NodeTransformer):
    """Every attribute is read through `GET` and changed on what `OWN` lets through."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if getattr(node, "trusted", False):
            return node
        guard = GET if isinstance(node.ctx, ast.Load) else OWN
        call = ast.Call(ast.Name(guard, ast.Load()), [node.value, ast.Constant(node.attr)], [])
        ast.copy_location(call, node)
        ast.fix_missing_locations(call)
        if isinstance(node.ctx, ast.Load):
            return call
        node.value = call
        return node
