"""Source text with some of its expressions replaced."""

from __future__ import annotations

import ast
import copy

from accelopt.parsing import parse_python


def renamed(node: ast.AST, changes: dict[int, str]) -> str:
    """Source of a statement with some of its expressions replaced, by identity."""

    class Replace(ast.NodeTransformer):
        def visit(self, child: ast.AST) -> ast.AST:
            text = changes.get(id(child))
            if text is not None:
                return parse_python(text, mode="eval").body
            for field, value in ast.iter_fields(child):
                if isinstance(value, list):
                    setattr(child, field, [self._one(item) for item in value])
                elif isinstance(value, ast.AST):
                    setattr(child, field, self.visit(value))
            return child

        def _one(self, item: object) -> object:
            return self.visit(item) if isinstance(item, ast.AST) else item

    # Copy first, but keep the identities: the copy's nodes are mapped in step.
    twin = copy.deepcopy(node)
    pairs = zip(ast.walk(node), ast.walk(twin), strict=True)
    changes = {id(new): changes[id(old)] for old, new in pairs if id(old) in changes}
    return ast.unparse(Replace().visit(twin))


def substituted(node: ast.expr, names: dict[str, str]) -> str:
    """Source of an expression with loop indices renamed."""
    changes = {
        id(n): names[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in names
    }
    return renamed(node, changes)


def substituted_text(text: str, names: dict[str, str]) -> str:
    """A subscript's source with loop indices renamed."""
    tree = parse_python(f"x[{text}]", mode="eval").body
    assert isinstance(tree, ast.Subscript)  # noqa: S101 - built above
    return substituted(tree, names)[2:-1]


def indented(head: str, body: str) -> str:
    """A compound statement."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{head}\n{lines}\n"
