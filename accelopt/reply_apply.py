"""Applies the edits of a reply to the kernel they were made for.

Texts are compared without the white space at line ends, and a search text may lack the indentation
that the kernel has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accelopt.reply_edits import Edits, Hunk, SearchReplace, find_edits
from accelopt.reply_errors import UnusableReply
from accelopt.reply_reasoning import strip_reasoning
from accelopt.reply_text import plain_lines, trimmed


def apply_edits(reply: str, parent: str) -> str:
    """The parent kernel with the edits of a reply; every line is from one of the two.

    All edits refer to the parent, not to what earlier edits made of it; the same edit twice counts
    once.

    Raises:
        UnusableReply: there are no edits, or one does not fit; the message says which and why.
    """
    edits = find_edits(strip_reasoning(reply))
    if edits is None:
        raise UnusableReply("no_code", "the reply has no search/replace block and no diff")
    return apply_to(edits, parent)


def apply_to(edits: Edits, parent: str) -> str:
    """The parent with the edits.

    Raises:
        UnusableReply: an edit does not fit.
    """
    if edits.unfinished:
        raise UnusableReply(
            "truncated", f"the reply was cut off inside edit {len(edits.items) + 1}"
        )
    created = edits.whole_file
    if created is not None:
        return created.strip("\n") + "\n"
    lines = plain_lines(parent).split("\n")
    index = _Index(lines)
    spans: list[_Span] = []
    items = [
        item
        for item in dict.fromkeys(edits.items)
        if isinstance(item, SearchReplace) or item.changes
    ]
    if not items:
        raise UnusableReply("bad_diff", "the diff changes no line")
    for number, item in enumerate(items, 1):
        name = "edit block" if isinstance(item, SearchReplace) else "diff hunk"
        label = f"{name} {number} of {len(items)}"
        if isinstance(item, SearchReplace):
            spans.append(_place_block(item, index, number, label))
        else:
            spans.extend(_place_hunk(item, index, number, label))
    return _assemble(lines, spans, "edit block" if edits.style == "edits" else "diff hunk")


@dataclass(frozen=True, order=True)
class _Span:
    """Lines `start` to `end` of the parent give way to `new`."""

    start: int
    end: int
    number: int
    new: tuple[str, ...]


def _assemble(lines: list[str], spans: list[_Span], name: str) -> str:
    result: list[str] = []
    position, before = 0, 0
    previous: _Span | None = None
    for span in sorted(spans):
        both_insert = previous is not None and span.start == span.end == previous.start
        if span.start < position or both_insert:
            raise UnusableReply(
                "edit_overlap",
                f"{name}s {min(before, span.number)} and {max(before, span.number)} change the same"
                f" place of the kernel (line {span.start + 1}); make one edit of them",
            )
        result += lines[position : span.start]
        result += span.new
        position, before, previous = span.end, span.number, span
    return "\n".join(result + lines[position:])


class _Index:
    """The parent's lines, ready to be searched."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = [line.rstrip() for line in lines]
        self.rows: dict[str, list[int]] = {}
        for row, line in enumerate(self.lines):
            self.rows.setdefault(line.strip(), []).append(row)

    def places(self, search: Sequence[str]) -> list[tuple[int, str]]:
        """Rows where the search text begins, each with the indentation that it lacks there."""
        wanted = [line.rstrip() for line in search]
        # Begin with the rarest line: a kernel may hold thousands of equal ones.
        rows = [self.rows.get(line.strip(), []) for line in wanted]
        rarest = min(range(len(wanted)), key=lambda number: len(rows[number]))
        starts = [row - rarest for row in rows[rarest]]
        exact = [(start, "") for start in starts if self._fits(start, wanted, "")]
        return exact or [
            (start, pad)
            for start in starts
            if (pad := self._pad(start, wanted)) and self._fits(start, wanted, pad)
        ]

    def _fits(self, start: int, wanted: list[str], pad: str) -> bool:
        if start < 0 or start + len(wanted) > len(self.lines):
            return False
        return all(
            self.lines[start + number] == (pad + line if line else line)
            for number, line in enumerate(wanted)
        )

    def _pad(self, start: int, wanted: list[str]) -> str:
        for number, line in enumerate(wanted):
            if line and 0 <= start + number < len(self.lines):
                have = self.lines[start + number]
                return have[: len(have) - len(line)] if have.endswith(line) else ""
        return ""


def _place_block(block: SearchReplace, index: _Index, number: int, label: str) -> _Span:
    for split, replace in block.splits:
        search = trimmed(split)
        if not search:
            continue
        places = index.places(search)
        if len(places) > 1:
            raise _ambiguous(label, "search text", search, [row for row, _ in places])
        if places:
            start, pad = places[0]
            new = tuple(pad + line if line.strip() else line for line in replace)
            return _Span(start, start + len(search), number, new)
    search = trimmed(block.splits[0][0])
    if not search:
        raise UnusableReply("edit_not_found", f"{label} has an empty search text")
    raise _not_found(label, "search text", search, index)


def _place_hunk(hunk: Hunk, index: _Index, number: int, label: str) -> list[_Span]:
    strict = tuple(
        (mark, line.removeprefix(" ") if mark == " " else line) for mark, line in hunk.lines
    )
    # Some models leave out the blank in front of context lines.
    readings = (strict, _without_blank_edges(strict), hunk.lines, _without_blank_edges(hunk.lines))
    for lines in readings:
        old = [line for mark, line in lines if mark != "+"]
        if not any(line.strip() for line in old):
            continue
        places = index.places(old)
        hinted = [place for place in places if place[0] + 1 == hunk.start]
        if len(places) > 1 and not hinted:
            raise _ambiguous(label, "context", old, [row for row, _ in places])
        if places:
            return _changes(lines, *(hinted or places)[0], number)
    old = [line for mark, line in strict if mark != "+"]
    if not any(line.strip() for line in old):
        raise UnusableReply(
            "bad_diff", f"{label} has no context and no removed line: its place is unknown"
        )
    raise _not_found(label, "old text", old, index)


def _changes(lines: Iterable[tuple[str, str]], row: int, pad: str, number: int) -> list[_Span]:
    """The changed places of a hunk that begins at a row; context lines stay as they are."""
    spans: list[_Span] = []
    start, new = row, list[str]()
    for mark, line in [*lines, (" ", "")]:
        if mark == "+":
            new.append(pad + line if line.strip() else line)
            continue
        if mark == " ":
            if new or row > start:
                spans.append(_Span(start, row, number, tuple(new)))
            start, new = row + 1, []
        row += 1
    return spans


def _without_blank_edges(lines: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    first, last = 0, len(lines)
    while first < last and lines[first][0] == " " and not lines[first][1].strip():
        first += 1
    while last > first and lines[last - 1][0] == " " and not lines[last - 1][1].strip():
        last -= 1
    return lines[first:last]


def _not_found(label: str, what: str, old: Sequence[str], index: _Index) -> UnusableReply:
    known = index.rows
    # The first line that the kernel doesn't have says most about what went wrong.
    strange = next((line for line in old if line.strip() and line.strip() not in known), None)
    if strange is None:
        detail = "its lines occur there, but not in this order and indentation"
    else:
        detail = f"it has no line {_quoted(strange)}"
    return UnusableReply("edit_not_found", f"{label}: its {what} is not in the kernel; {detail}")


def _ambiguous(label: str, what: str, old: Sequence[str], rows: list[int]) -> UnusableReply:
    first = next((line for line in old if line.strip()), "")
    at = ", ".join(str(row + 1) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
    return UnusableReply(
        "edit_ambiguous",
        f"{label}: its {what} {_quoted(first)} occurs {len(rows)} times in the kernel"
        f" (lines {at}); quote more lines around it",
    )


def _quoted(line: str) -> str:
    line = line.strip()
    return f"`{line if len(line) <= 80 else line[:77] + '...'}`"
