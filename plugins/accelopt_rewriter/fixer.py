"""The fixer: undoes the change a diagnostic points at, adds a mask, or returns the parent."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from accelopt.parsing import parse_python
from accelopt.requests import FixRequest
from accelopt_rewriter.executor import fenced

_SKIP = ("nl.arange", "range", "par_dim", "nc_matmul")


def answer(request: FixRequest) -> str:
    """The next repair: each round tries the first idea that was not tried in an earlier round."""
    lines = [d.line for d in request.diagnostics if d.line is not None and d.severity == "error"]
    ideas: list[tuple[str, Callable[[], str | None]]] = [
        (
            "The statement is computed under the mask its neighbours use.",
            lambda: _first(_with_mask(request.kernel, line) for line in lines),
        ),
        (
            "The change around the reported line is undone; it is as in the parent again.",
            lambda: _first(_undo_near(request.kernel, request.parent, line) for line in lines),
        ),
    ]
    made = []
    for prose, idea in ideas:
        text = idea()
        if text is not None and text != request.parent:
            made.append((prose, text))
    # A mask is the likely cause only when an access left its tensor.
    if not any("bound" in d.rule or "mask" in d.message for d in request.diagnostics):
        made.reverse()
    if request.index < len(made):
        return fenced(*made[request.index])
    return fenced("No repair is left to try; this is the parent kernel.", request.parent)


def _first(texts: Iterator[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _undo_near(kernel: str, parent: str, line: int) -> str | None:
    """The kernel with the change nearest to a line taken back; None when there is none."""
    new, old = kernel.splitlines(keepends=True), parent.splitlines(keepends=True)
    changes = [
        code for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if code[0] != "equal"
    ]  # fmt: skip
    if not changes:
        return None

    def distance(code: tuple[str, int, int, int, int]) -> int:
        first, last = code[3] + 1, max(code[4], code[3] + 1)
        return max(first - line, line - last, 0)

    _, i1, i2, j1, j2 = min(changes, key=distance)
    text = "".join([*new[:j1], *old[i1:i2], *new[j2:]])
    return text if _parses(text) and text != kernel else None


def _with_mask(kernel: str, line: int) -> str | None:
    """The kernel with the neighbours' mask on the call in a line; None when that is no idea."""
    try:
        tree = parse_python(kernel)
    except SyntaxError:
        return None
    for block in _blocks(tree):
        for statement in block:
            if not statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                continue
            if isinstance(statement, ast.For | ast.If | ast.With | ast.FunctionDef):
                continue
            masks = [mask for other in block if other is not statement for mask in _masks(other)]
            call = _outer_call(statement)
            if call is None or not masks or any(k.arg == "mask" for k in call.keywords if _set(k)):
                return None
            return _replaced(kernel, statement, masks[0])
    return None


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _outer_call(statement: ast.stmt) -> ast.Call | None:
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call) or ast.unparse(value.func).endswith(_SKIP):
        return None
    return value


def _set(keyword: ast.keyword) -> bool:
    return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)


def _masks(statement: ast.stmt) -> list[ast.expr]:
    call = _outer_call(statement)
    return [k.value for k in call.keywords if k.arg == "mask" and _set(k)] if call else []


def _replaced(kernel: str, statement: ast.stmt, mask: ast.expr) -> str:
    made = copy.deepcopy(statement)
    call = _outer_call(made)
    if call is not None:
        call.keywords = [k for k in call.keywords if k.arg != "mask"]
        call.keywords.append(ast.keyword("mask", mask))
    lines = kernel.splitlines(keepends=True)
    indent = " " * statement.col_offset
    end = statement.end_lineno or statement.lineno
    lines[statement.lineno - 1 : end] = [f"{indent}{ast.unparse(made)}\n"]
    return "".join(lines)


def _parses(text: str) -> bool:
    try:
        parse_python(text)
    except SyntaxError:
        return False
    return True
