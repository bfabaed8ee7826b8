"""Fences, and where the code behind one ends."""

from __future__ import annotations

import re

from accelopt.reply_text import INVISIBLE, dedent, python_tree

QUOTE = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")
FENCE = re.compile(
    r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)"
    r"(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[^\n`]*)"
)
BACKTRACKS = 12
"""How often the search for the end of a block may start over."""


def find_fence(line: str) -> re.Match[str] | None:
    """The line as a fence: groups `indent`, `mark` and `tag`; `None` when it is none."""
    if "```" not in line and "~~~" not in line:
        return None
    return FENCE.fullmatch(line.translate(INVISIBLE))


class FencedBody:
    """Reads the lines of one fenced block.

    Args:
        lines: of the whole text.
        first: row after the opening fence.
        mark: the opening fence's marks; the closing one has at least as many.
        indent: of the opening fence, which the code may share.
        quoted: whether the block stands in a block quote.
    """

    def __init__(self, lines: list[str], first: int, mark: str, indent: int, quoted: bool) -> None:
        self.lines, self.first, self.mark = lines, first, mark
        self.indent, self.quoted = indent, quoted
        self.code: list[str] = []

    def read(self, *, strings: bool) -> tuple[int, str, bool, int]:
        """The row after the block, its text, whether it is complete, and 1 if it was read twice.

        A fence inside a string of the code does not end the block, provided that the code parses
        with it; else the string is what is wrong with the code.
        """
        skipped: tuple[int, int, bool] | None = None
        scanner, attempts = _Strings(), BACKTRACKS
        for row in range(self.first, len(self.lines)):
            line = self._line(row)
            fence = find_fence(line)
            in_string = strings and bool(scanner.open)
            if fence is not None and fence["mark"].startswith(self.mark):
                tag = fence["tag"].strip()
                # A fence with a tag opens the next block: this one was never closed.
                closes = not tag or _is_token(tag)
                if not in_string:
                    text = self._text(len(self.code))
                    if skipped is not None and python_tree(text) is None:
                        break
                    return row + closes, text, closes, skipped is not None
                skipped = skipped or (row, len(self.code), closes)
            elif not in_string and attempts and line.rstrip().endswith(self.mark):
                # The fence follows the last line of code.
                attempts -= 1
                text = self._text(len(self.code), line.rstrip().rstrip(self.mark[0]))
                if python_tree(text) is not None:
                    return row + 1, text, True, 1
            self.code.append(line)
            scanner.feed(line)
        if skipped is not None:
            row, length, closes = skipped
            return row + closes, self._text(length), closes, 1
        return len(self.lines), self._text(len(self.code)), False, 0

    def _line(self, row: int) -> str:
        line = self.lines[row]
        if self.quoted:
            quote = QUOTE.match(line)
            line = line[quote.end() :] if quote else line
        strip = 0
        while strip < min(self.indent, len(line)) and line[strip] in " \t":
            strip += 1
        return line[strip:]

    def _text(self, length: int, *more: str) -> str:
        return dedent("\n".join([*self.code[:length], *more]))


def _is_token(tag: str) -> bool:
    """Whether what follows a closing fence is a chat template token or a stray close tag."""
    return re.fullmatch(r"</?[\w|｜▁ ]{1,30}>|<\|\w+\|>", tag) is not None


class _Strings:
    """Follows triple-quoted strings through the lines of Python code."""

    def __init__(self) -> None:
        self.open = ""

    _START = re.compile(r"#|\"\"\"|'''|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?")

    def feed(self, line: str) -> None:
        position = 0
        while position < len(line):
            if self.open:
                end = line.find(self.open, position)
                while end > 0 and _escaped(line, end):
                    end = line.find(self.open, end + 1)
                if end < 0:
                    return
                position, self.open = end + 3, ""
                continue
            found = self._START.search(line, position)
            if found is None or found.group() == "#":
                return
            if found.group() in {'"""', "'''"}:
                self.open = found.group()
            position = found.end()


def _escaped(line: str, position: int) -> bool:
    backslashes = 0
    while backslashes < position and line[position - 1 - backslashes] == "\\":
        backslashes += 1
    return backslashes % 2 == 1
