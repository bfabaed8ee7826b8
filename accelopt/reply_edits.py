"""Edits in a model reply: SEARCH/REPLACE blocks and unified diffs, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from accelopt.reply_blocks import Block, find_blocks
from accelopt.reply_text import trimmed

_SEARCH = re.compile(
    r"(?P<indent>[ \t]*)(?:<{5,9}[ ]?(?:SEARCH|ORIGINAL|HEAD|BEFORE|OLD)\b|-{5,9}[ ]?SEARCH\b).*",
    re.IGNORECASE,
)
_DIVIDER = re.compile(r"[ \t]*={5,9}[ \t]*")
_REPLACE = re.compile(
    r"[ \t]*(?:>{5,9}|\+{5,9})[ ]?(?:REPLACE|UPDATED|AFTER|NEW|[\w./-]+)\b.*", re.IGNORECASE
)
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[^`]*")
_HUNK = re.compile(r"@@(?:[ ]*-(?P<start>\d+)(?:,(?P<length>\d+))?[ ]+\+\d+(?:,\d+)?[ ]*@@)?.*")
_HEADER = re.compile(
    r"(?:diff |index [0-9a-f]+\.\.|(?:new|deleted) file mode|old mode|new mode|similarity |rename "
    r"|\*\*\* (?:Begin|End|Update|Add|Delete)\b).*"
)
_DIFF_TAGS = frozenset({"diff", "patch", "udiff", "git"})


@dataclass(frozen=True)
class SearchReplace:
    """One SEARCH/REPLACE block. Where the divider is unclear there are several splits."""

    splits: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclass(frozen=True)
class Hunk:
    """One hunk of a diff: (mark, line) pairs, and where its header puts it.

    Context lines still have the blank in front of them, where the reply has it.
    """

    lines: tuple[tuple[str, str], ...]
    start: int | None = None

    @property
    def changes(self) -> bool:
        """Whether it adds or removes a line."""
        return any(mark != " " for mark, _ in self.lines)


@dataclass(frozen=True)
class Edits:
    """All edits of a reply, in one notation."""

    style: Literal["edits", "diff"]
    items: tuple[SearchReplace | Hunk, ...]
    rest: str = field(default="", repr=False)
    """The reply without the SEARCH/REPLACE blocks."""
    unfinished: bool = False
    """Whether the reply ends inside an edit."""

    @property
    def whole_file(self) -> str | None:
        """The new text, where the edits create a file instead of changing one."""
        if len(self.items) != 1:
            return None
        item = self.items[0]
        if isinstance(item, SearchReplace):
            search, replace = item.splits[0]
            return None if any(line.strip() for line in search) else "\n".join(replace)
        if item.start == 0 and all(mark == "+" for mark, _ in item.lines):
            return "\n".join(line for _, line in item.lines)
        return None


def find_edits(text: str) -> Edits | None:
    """The edits in a reply without reasoning; SEARCH/REPLACE blocks come before diffs."""
    return find_edits_and_blocks(text)[0]


def find_edits_and_blocks(text: str) -> tuple[Edits | None, list[Block]]:
    """The edits in a reply, and its code blocks apart from SEARCH/REPLACE blocks."""
    edits = _search_replace(text)
    if edits is not None:
        return edits, find_blocks(edits.rest)
    blocks = find_blocks(text)
    return _diff(text, blocks), blocks


def _search_replace(text: str) -> Edits | None:
    if "=====" not in text and "SEARCH" not in text:
        return None
    items: list[SearchReplace] = []
    rest: list[str] = []
    lines = text.split("\n")
    row = 0
    unfinished = False
    while row < len(lines):
        opened = _SEARCH.fullmatch(lines[row])
        end = None if opened is None else _end_of_block(lines, row + 1)
        if opened is None:
            rest.append(lines[row])
            row += 1
        elif end is None:
            # The next block begins, or the reply ends, before this one does.
            unfinished = True
            row = len(lines)
        else:
            indent = opened["indent"]
            body = [line.removeprefix(indent) for line in lines[row + 1 : end]]
            at = [number for number, line in enumerate(body) if _DIVIDER.fullmatch(line)]
            splits = tuple(
                (_unfenced(body[:number]), _unfenced(body[number + 1 :])) for number in at[:8]
            )
            items.append(SearchReplace(splits))
            row = end + 1
    if not items and not unfinished:
        return None
    return Edits("edits", tuple(items), "\n".join(rest), unfinished)


def _end_of_block(lines: list[str], first: int) -> int | None:
    divided = False
    for row in range(first, len(lines)):
        line = lines[row]
        if divided and _REPLACE.fullmatch(line):
            return row
        if _SEARCH.fullmatch(line):
            return None
        divided = divided or _DIVIDER.fullmatch(line) is not None
    return None


def _unfenced(lines: list[str]) -> tuple[str, ...]:
    """The part without a fence around it."""
    inner = trimmed(lines)
    if len(inner) >= 2 and _FENCE.fullmatch(inner[0]) and _FENCE.fullmatch(inner[-1]):
        return tuple(inner[1:-1])
    return tuple(lines)


def _diff(text: str, blocks: list[Block]) -> Edits | None:
    hunks: list[Hunk] = []
    unfinished = False
    for block in blocks:
        if block.fenced and (block.tag in _DIFF_TAGS or _looks_like_diff(block.text)):
            hunks += _hunks(block.text.split("\n"), fenced=True)
            unfinished = not block.complete
    if hunks or unfinished:
        # A last hunk that was cut off may still fit: its missing lines can't be known.
        return Edits("diff", tuple(hunks[:-1] if unfinished else hunks), text, unfinished)
    lines = text.split("\n")
    start = next((row for row in range(len(lines)) if _begins_diff(lines, row)), None)
    if start is None:
        return None
    hunks = _hunks(lines[start:], fenced=False)
    return Edits("diff", tuple(hunks), text) if hunks else None


def _looks_like_diff(text: str) -> bool:
    lines = text.split("\n")
    return any(_begins_diff(lines, row) for row in range(len(lines)))


def _begins_diff(lines: list[str], row: int) -> bool:
    line = lines[row]
    if line.startswith("@@"):
        return re.match(r"@@ -\d", line) is not None
    if line.startswith("*** "):
        return re.match(r"\*\*\* (Begin Patch|Update File)", line) is not None
    return _is_file_header(lines, row)


def _is_file_header(lines: list[str], row: int) -> bool:
    return (
        lines[row].startswith("--- ") and row + 1 < len(lines) and lines[row + 1].startswith("+++ ")
    )


def _hunks(lines: list[str], *, fenced: bool) -> list[Hunk]:
    """The hunks of a diff; outside a fence the first line of prose ends a hunk."""
    hunks: list[Hunk] = []
    current: list[tuple[str, str]] = []
    start: int | None = None
    inside = fenced
    row = 0

    def finish() -> None:
        nonlocal current, start
        while current and current[-1][0] == " " and not current[-1][1].strip():
            current.pop()
        if current:
            hunks.append(Hunk(tuple(current), start))
        current, start = [], None

    while row < len(lines):
        line = lines[row]
        hunk = _HUNK.fullmatch(line) if line.startswith("@@") else None
        if _is_file_header(lines, row):
            finish()
            inside = True
            if lines[row].split()[1:2] == ["/dev/null"]:
                start = 0
            row += 1
        elif hunk is not None:
            finish()
            inside = True
            start = int(hunk["start"]) if hunk["start"] else None
        elif _HEADER.fullmatch(line) or line.strip() in {"...", "*** End of File"}:
            finish()
        elif inside and line[:1] in {"+", "-"}:
            current.append((line[0], line[1:]))
        elif inside and (fenced or line[:1] == " " or not line.strip()) and line[:1] != "\\":
            current.append((" ", line))
        elif line[:1] != "\\":
            finish()
            inside = False
        row += 1
    finish()
    return hunks
