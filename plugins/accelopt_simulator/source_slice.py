"""The part of a kernel file that its kernel needs.

Published kernels stand in files with command-line harnesses that import `os` and `argparse`. Only
what the kernel reaches by name is screened, and only that is executed: one function decides both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def slice_module(tree: ast.Module, entry: str) -> ast.Module:
    """A module with the top-level statements that `entry` depends on, in their order.

    Everything is kept when the file has no top-level name `entry`.
    """
    defined: dict[str, list[int]] = {}
    for position, statement in enumerate(tree.body):
        for name in _binds(statement):
            defined.setdefault(name, []).append(position)
    if entry not in defined:
        return tree
    kept = {
        position
        for position, statement in enumerate(tree.body)
        if isinstance(statement, ast.ImportFrom)
        and (statement.module == "__future__" or any(a.name == "*" for a in statement.names))
    }
    todo, seen = [entry], set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for position in defined.get(name, ()):
            if position not in kept:
                kept.add(position)
                todo += _reads(tree.body[position])
    body = []
    for position in sorted(kept):
        statement = tree.body[position]
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            statement = _needed_imports(statement, seen)
        body.append(statement)
    return ast.Module(body=body, type_ignores=[])


def _binds(statement: ast.stmt) -> Iterator[str]:
    """Names that a top-level statement binds or changes."""
    if isinstance(statement, Function):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".")[0]
    elif (isinstance(statement, ast.If) and _is_main_guard(statement.test)) or isinstance(
        statement, ast.Expr
    ):
        return
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, Function):
                yield node.name
            elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
                node.ctx, ast.Store
            ):
                root: ast.expr = node
                while isinstance(root, (ast.Attribute, ast.Subscript)):
                    root = root.value
                if isinstance(root, ast.Name):
                    yield root.id
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    yield alias.asname or alias.name.split(".")[0]


def _reads(statement: ast.stmt) -> list[str]:
    """Names that a statement uses anywhere, annotations written as text included."""
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(names))


def _needed_imports(
    statement: ast.Import | ast.ImportFrom, names: set[str]
) -> ast.Import | ast.ImportFrom:
    wanted = [
        alias
        for alias in statement.names
        if alias.name == "*" or (alias.asname or alias.name.split(".")[0]) in names
    ]
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        wanted = statement.names
    result: ast.Import | ast.ImportFrom
    if isinstance(statement, ast.Import):
        result = ast.Import(wanted)
    else:
        result = ast.ImportFrom(statement.module, wanted, statement.level)
    return ast.copy_location(result, statement)


def _is_main_guard(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test))
