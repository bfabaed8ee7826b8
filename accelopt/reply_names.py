"""Names that the code of a reply has wrong: its entry function's, and those it forgot to import.

Only names are touched: every line stays a line of the reply, or is one of the parent's imports.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator

from accelopt.reply_text import python_tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def renamed(code: str, old: str, new: str) -> str | None:
    """The code with its top-level function `old` called `new`, in its definition and in its uses.

    `None` when that would change what another name means.
    """
    tree = python_tree(code)
    if tree is None or _clashes(tree, old, new):
        return None
    lines = code.split("\n")
    places = [
        (node.lineno, node.col_offset, 0) if isinstance(node, ast.Name) else _definition(node)
        for node in _uses(tree, old)
    ]
    # From the back, so that the places before stay where they are.
    for line, column, skip in sorted(places, reverse=True):
        # Columns count bytes.
        row = lines[line - 1].encode()
        before, after = row[: column + skip], row[column + skip :].decode(errors="replace")
        name = re.match(rf"\s*{re.escape(old)}\b", after)
        if name is None:
            # Inside an f-string, or behind a continued line: the place is not known exactly.
            return None
        start = name.end() - len(old)
        lines[line - 1] = before.decode() + after[:start] + new + after[name.end() :]
    return "\n".join(lines)


def _definition(node: ast.FunctionDef) -> tuple[int, int, int]:
    return node.lineno, node.col_offset, len("def")


def _uses(tree: ast.Module, name: str) -> Iterator[ast.Name | ast.FunctionDef]:
    """Where a top-level name is defined and used; functions with a local of that name are not."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and node.id == name:
            yield node
        if isinstance(node, ast.FunctionDef) and node.name == name and node in tree.body:
            yield node
        if not (isinstance(node, _FUNCTIONS) and name in _bound(node)):
            stack += ast.iter_child_nodes(node)
        elif not isinstance(node, ast.Lambda):
            # A decorator belongs to the scope around the function.
            stack += node.decorator_list


def _clashes(tree: ast.Module, old: str, new: str) -> bool:
    """Whether the new name already means something where the old one is used."""
    others = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    if new in _bound(ast.Module(others, [])):
        return True
    for node in tree.body:
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        own = isinstance(node, ast.FunctionDef) and node.name == old
        local = isinstance(node, _FUNCTIONS) and new in _bound(node)
        # The function calls another one of the new name, or a local variable would hide it.
        if (own and new in names and not local) or (local and old in names):
            return True
    return any(isinstance(n, ast.Global) and {old, new} & {*n.names} for n in ast.walk(tree))


def with_imports(code: str, parent: str) -> str | None:
    """The code behind those import lines of the parent whose names it uses and does not bind.

    `None` when there are none, or one of the two texts does not parse.
    """
    tree, parent_tree = python_tree(code), python_tree(parent)
    if tree is None or parent_tree is None:
        return None
    wanted = list(_import_lines(parent_tree, parent.split("\n"), _undefined(code)))
    if not wanted:
        return None
    lines = code.split("\n")
    # Nothing may stand in front of `from __future__ import ...`.
    first = max((n.end_lineno or 0 for n in tree.body if _is_future(n)), default=0)
    gap = [] if lines[first].startswith(("import ", "from ")) else ["", ""]
    return "\n".join([*lines[:first], *wanted, *gap, *lines[first:]])


def _undefined(code: str) -> set[str]:
    """Global names that the code uses and binds nowhere.

    A kernel may import inside its function what its decorator needs outside, so scopes matter.
    """
    try:
        top = symtable.symtable(code, "<reply>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return set()
    used, bound = set[str](), {*dir(builtins)}
    tables = [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table is not top and not symbol.is_global():
                continue
            if symbol.is_assigned() or symbol.is_imported():
                bound.add(symbol.get_name())
            elif symbol.is_referenced():
                used.add(symbol.get_name())
    return used - bound


def _import_lines(tree: ast.Module, lines: list[str], names: set[str]) -> Iterator[str]:
    statements = [(node.lineno, node.end_lineno or node.lineno) for node in tree.body]
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or _is_future(node):
            continue
        first, last = node.lineno, node.end_lineno or node.lineno
        alone = sum(begin <= last and first <= end for begin, end in statements) == 1
        if alone and names & _bound(node):
            yield from lines[first - 1 : last]


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _bound(tree: ast.AST) -> set[str]:
    """Names that are bound anywhere inside: assigned, imported, defined, or parameters."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name() if not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            case ast.arg():
                names.add(node.arg)
            case ast.alias():
                names.add(node.asname or node.name.split(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node is not tree:
                # The name of a function is bound around it, not inside.
                names.add(node.name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                names.add(name)
    return names
