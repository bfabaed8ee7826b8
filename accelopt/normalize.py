"""When two kernel sources are the same program.

Comments, blank lines, docstrings, bare string statements and formatting do not matter.
"""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache

from accelopt.parsing import parse_python
from accelopt.program_tokens import program_tokens


class _DropStrings(ast.NodeTransformer):
    """Removes statements that are nothing but a string."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if not isinstance(statements, list) or not statements:
                continue
            kept = [statement for statement in statements if not _is_string(statement)]
            if not kept and field == "body" and not isinstance(node, ast.Module):
                kept = [ast.copy_location(ast.Pass(), statements[0])]
            setattr(node, field, kept)
        return node


def _is_string(statement: object) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _stripped_tree(text: str) -> ast.AST | None:
    try:
        return _DropStrings().visit(parse_python(text))  # type: ignore[no-any-return]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def normalized_source(text: str) -> str:
    """The program in one fixed format; text that does not parse comes back stripped."""
    tree = _stripped_tree(text)
    if tree is None:
        return text.strip()
    try:
        return ast.unparse(tree)
    except RecursionError:
        return text.strip()


@lru_cache(maxsize=64)
def normalized_hash(text: str) -> str:
    """Hash (hex): equal for one program in two layouts, never equal for two programs."""
    tokens = program_tokens(text)
    known = f"parsed\n{normalized_source(text)}" if tokens is None else f"tokens\n{tokens}"
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()


def line_map(old: str, new: str) -> dict[int, int]:
    """For two texts of the same program: line in `old` -> line in `new`.

    Empty when one of them does not parse.
    """
    before, after = _stripped_tree(old), _stripped_tree(new)
    if before is None or after is None:
        return {}
    pairs = list(zip(ast.walk(before), ast.walk(after), strict=False))
    lines: dict[int, int] = {}
    # Statements first: where a line holds parts of several nodes, its statement decides.
    for kind in (ast.stmt, ast.expr):
        for one, other in pairs:
            if isinstance(one, kind) and isinstance(other, kind):
                lines.setdefault(one.lineno, other.lineno)
    return lines
