"""A Python program as its tokens, in one text: equal texts mean equal programs.

Comments, blank lines, spacing, line breaks inside brackets, statements that are nothing but a
string, and the quotes of simple strings do not show. This is much faster than parsing, which
matters for thousands of kernels; it is exact in one direction only: programs with equal tokens are
equal, but a pair of redundant parentheses makes another text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"""[ ]*(
      \n
    | \t
    | \#[^\n]*
    | \\\n
    | (?:[rR][bB]?|[bB][rR]?|[fF][rR]?|[rR][fF]|[uU])?
      (?:\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''
        |"(?!"")(?:[^"\\\n]|\\.)*"|'(?!'')(?:[^'\\\n]|\\.)*')
    | \.?\d(?:[eE][-+]|[\w.])*
    | \w+
    | \*\*=?|//=?|<<=?|>>=?|->|\.\.\.|[-+*/%&|^@=<>!:]=
    | .
    )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTES = frozenset("\"'")
_UNUSUAL = re.compile(r"[\f\r\0]|\n[ ]*\t|\A[ ]*\t")


class _Piece(NamedTuple):
    """Some whole lines of a program: one line, or several that a string or a `\\` joins."""

    indent: int
    tokens: str
    depth: int
    """Brackets opened less brackets closed."""
    only_strings: bool
    is_open: bool
    """A string goes on in the next line, or the line ends in `\\`."""
    trusted: bool


def program_tokens(text: str) -> str | None:
    """The tokens of a program, one logical line a line, each after its indentation level.

    None where this reading can't be trusted (tabs in an indentation, an indentation that does not
    fit, an unusual white space, nested quotes of a format string): parse it then.
    """
    text = text.replace("\r\n", "\n")
    if _UNUSUAL.search(text):
        return None
    lines: list[str] = []
    parts: list[str] = []
    # Level of a block of which only strings have been seen; it needs a statement to be one.
    empty_block = 0
    opens_block = False
    indents = [0]
    indent = depth = 0
    only_strings = True
    pending = ""
    for physical in text.split("\n"):
        piece = _piece(pending + physical)
        if not piece.trusted:
            return None
        if piece.is_open:
            pending = f"{pending}{physical}\n"
            continue
        pending = ""
        if not piece.tokens:
            continue
        if not parts:
            indent, only_strings = piece.indent, True
        parts.append(piece.tokens)
        depth += piece.depth
        only_strings = only_strings and piece.only_strings
        if depth == 0:
            before = len(indents) - 1
            level = _level(indents, indent)
            if level is None or (level > before) != opens_block:
                return None
            if empty_block > level:
                lines.append(f"{empty_block} pass")
                empty_block = 0
            if not only_strings:
                lines.append(f"{level} {' '.join(parts)}")
                empty_block = 0
            elif opens_block:
                empty_block = level
            opens_block = parts[-1].endswith(":")
            parts = []
    if empty_block:
        lines.append(f"{empty_block} pass")
    return None if parts or pending or opens_block else "\n".join(lines)


# Variants of a kernel have most of their lines in common.
@lru_cache(maxsize=4096)
def _piece(text: str) -> _Piece:
    tokens: list[str] = []
    depth = 0
    only_strings = trusted = True
    is_open = continued = False
    for token in _TOKEN.findall(text):
        first, last = token[0], token[-1]
        if token == "\\\n" or (continued and token not in (" ", "\t")):
            # Something must stand before a continuation and in the line after it.
            trusted = (
                trusted
                and bool(tokens)
                and first not in "#\n"
                and not (continued and token == "\\\n")
            )
            continued = token == "\\\n"
        if first == "#" or token in (" ", "\n", "\t", "\\\n"):
            continue
        is_string = last in _QUOTES and len(token) > 1
        if is_string:
            trusted = trusted and _is_whole(token)
            # A prefix or an escape may be one that Python refuses, so such a string stays.
            only_strings = only_strings and first in _QUOTES and "\\" not in token
            if first == '"' and "'" not in token and "\\" not in token and token[1] != '"':
                token = f"'{token[1:-1]}'"
        else:
            only_strings = False
            is_open = is_open or token == "\\" or first in _QUOTES
            depth += (token in "([{") - (token in ")]}")
        tokens.append(token)
    indent = len(text) - len(text.lstrip(" "))
    trusted = trusted and not continued
    return _Piece(indent, " ".join(tokens), depth, only_strings, is_open, trusted)


def _level(indents: list[int], indent: int) -> int | None:
    """The level of an indentation; None where it fits none of the open blocks."""
    if indent > indents[-1]:
        indents.append(indent)
    while indent < indents[-1]:
        indents.pop()
    return len(indents) - 1 if indent == indents[-1] else None


def _is_whole(token: str) -> bool:
    """Whether a string ends where this reading thinks it does; new Pythons nest their quotes."""
    return "f" not in token[:2].lower() or token.count("{") == token.count("}")
