"""Parsing Python source from several threads at once."""

from __future__ import annotations

import ast
import threading
from typing import Literal, overload

_LOCK = threading.Lock()


@overload
def parse_python(text: str, filename: str = ..., *, mode: Literal["exec"] = ...) -> ast.Module: ...


@overload
def parse_python(text: str, filename: str = ..., *, mode: Literal["eval"]) -> ast.Expression: ...


def parse_python(
    text: str, filename: str = "<source>", *, mode: Literal["exec", "eval"] = "exec"
) -> ast.Module | ast.Expression:
    """`ast.parse`, one thread at a time.

    CPython 3.11 keeps the parser's recursion depth in a place that threads share, and now and then
    raises `SystemError: AST constructor recursion depth mismatch` when two of them parse.

    Raises:
        SyntaxError: the text does not parse.
        ValueError: it holds null bytes.
        RecursionError: it is nested too deeply.
    """
    with _LOCK:
        return ast.parse(text, filename, mode)  # type: ignore[return-value]
