"""Edits of a kernel's text, statement by statement, through libcst.

Statements are named by the line they start in, which is what the analysis knows. Everything an
edit does not name - comments, blank lines, formatting - stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from accelopt.parsing import parse_python


@dataclass
class Edits:
    """What to change.

    Attributes:
        replace: line of a statement -> source of the statements in its place (none: delete).
        before: line of a statement or loop -> source of statements to put before it.
        loop_iter: line of a loop -> its new iterable.
        unwrap: lines of loops whose body takes their place.
    """

    replace: dict[int, list[str]] = field(default_factory=dict)
    before: dict[int, list[str]] = field(default_factory=dict)
    loop_iter: dict[int, str] = field(default_factory=dict)
    unwrap: set[int] = field(default_factory=set)

    def delete(self, *lines: int) -> None:
        """Delete the statements that start in `lines`."""
        for line in lines:
            self.replace[line] = []

    def insert(self, line: int, *statements: str) -> None:
        """Put statements before the one that starts in `line`."""
        self.before.setdefault(line, []).extend(statements)

    def merge(self, other: Edits) -> None:
        """Add another set of edits, of other lines."""
        self.replace.update(other.replace)
        self.before.update(other.before)
        self.loop_iter.update(other.loop_iter)
        self.unwrap |= other.unwrap

    @property
    def lines(self) -> frozenset[int]:
        """Every line that is named."""
        return frozenset(self.replace) | set(self.before) | set(self.loop_iter) | self.unwrap


Statement = cst.BaseStatement
Block = Sequence[Statement]


class _Apply:
    """Rebuilds statement lists; nothing below a statement is visited, which keeps it fast."""

    def __init__(self, edits: Edits, config: cst.PartialParserConfig) -> None:
        self._edits, self._config = edits, config

    def _parse(self, statements: Sequence[str]) -> list[Statement]:
        made = [cst.parse_statement(text, config=self._config) for text in statements]
        return [s for s in made if isinstance(s, Statement)]

    def block(self, known: Sequence[ast.stmt], block: Block) -> list[Statement]:
        """The edited statements of one block, `known` being the same block in the analysis."""
        made: list[Statement] = []
        for first, node in zip(_line_heads(known), block, strict=True):
            made += self._parse(self._edits.before.get(first.lineno, []))
            made += self._statement(first, node)
        return made

    def _statement(self, known: ast.stmt, node: Statement) -> list[Statement]:
        line = known.lineno
        if isinstance(node, cst.SimpleStatementLine):
            if line not in self._edits.replace:
                return [node]
            made = self._parse(self._edits.replace[line])
            if made and isinstance(made[0], cst.SimpleStatementLine):
                made[0] = made[0].with_changes(leading_lines=node.leading_lines)
            return made
        if isinstance(node, cst.For) and isinstance(known, ast.For):
            return self._loop(known, node)
        if isinstance(node, cst.If) and isinstance(known, ast.If):
            return [self._conditional(known, node)]
        if isinstance(node, cst.FunctionDef | cst.With | cst.While) and isinstance(
            known, ast.FunctionDef | ast.With | ast.While
        ):
            return [node.with_changes(body=self._suite(known.body, node.body))]
        return [node]

    def _suite(self, known: Sequence[ast.stmt], suite: cst.BaseSuite) -> cst.BaseSuite:
        if not isinstance(suite, cst.IndentedBlock):
            return suite  # `for x in y: a = b` on one line: no edit names its inside
        return suite.with_changes(body=self.block(known, suite.body))

    def _loop(self, known: ast.For, node: cst.For) -> list[Statement]:
        line = known.lineno
        if line in self._edits.loop_iter:
            node = node.with_changes(iter=cst.parse_expression(self._edits.loop_iter[line]))
        suite = self._suite(known.body, node.body)
        if isinstance(suite, cst.IndentedBlock):
            body = [s for s in suite.body if isinstance(s, Statement)]
            if line in self._edits.unwrap or not body:
                return body
        return [node.with_changes(body=suite)]

    def _conditional(self, known: ast.If, node: cst.If) -> cst.If:
        made = node.with_changes(body=self._suite(known.body, node.body))
        if isinstance(node.orelse, cst.Else):
            orelse = node.orelse.with_changes(body=self._suite(known.orelse, node.orelse.body))
            return made.with_changes(orelse=orelse)
        if isinstance(node.orelse, cst.If) and isinstance(known.orelse[0], ast.If):
            return made.with_changes(orelse=self._conditional(known.orelse[0], node.orelse))
        return made


def _line_heads(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The first of the statements of each line: `a; b` is one line to libcst."""
    heads: list[ast.stmt] = []
    for statement in block:
        if not heads or statement.lineno > (heads[-1].end_lineno or 0):
            heads.append(statement)
    return heads


def apply_edits(text: str, edits: Edits) -> str:
    """The text with all edits carried out."""
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(error.message) from error
    statements = [s for s in module.body if isinstance(s, Statement)]
    body = _Apply(edits, module.config_for_parsing).block(parse_python(text).body, statements)
    return module.with_changes(body=body).code
