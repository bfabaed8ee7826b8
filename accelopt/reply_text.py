"""The text of a model reply before anything in it is understood."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from accelopt.parsing import parse_python

INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
"""For `str.translate`: drops the characters that have no width."""
_END_TOKENS = re.compile(
    r"(?:\s|</s>|<\|[a-z_]{2,20}\|>|<｜[a-z▁_ ]{2,30}｜>|<end_of_turn>)+\Z", re.IGNORECASE
)


def python_tree(code: str) -> ast.Module | None:
    """The syntax tree of the code, `None` when it does not parse."""
    try:
        return parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return None


def plain_lines(text: str) -> str:
    """The text with `\\n` line ends and without a byte order mark in front."""
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def is_blank(text: str) -> bool:
    """Whether nothing in the text is visible."""
    return not text.translate(INVISIBLE).strip()


def without_end_tokens(text: str) -> str:
    """The text without chat template tokens and white space at its end."""
    # Only the tail: a regular expression that has to reach the end is slow on long texts.
    head, tail = text[:-400], text[-400:]
    return head + _END_TOKENS.sub("", tail)


def dedent(code: str) -> str:
    """The code moved to the left margin, when all of it is indented."""
    lines = code.split("\n")
    margin: str | None = None
    for line in lines:
        if line.strip():
            lead = line[: len(line) - len(line.lstrip(" \t"))]
            if margin is None:
                margin = lead
            while not line.startswith(margin):
                margin = margin[:-1]
            if not margin:
                return code
    size = len(margin or "")
    return "\n".join(line[size:] for line in lines)


def trimmed(lines: Sequence[str]) -> list[str]:
    """The lines without blank ones at either end."""
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return list(lines[first:last])
