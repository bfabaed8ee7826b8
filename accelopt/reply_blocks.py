"""The parts of a model reply: reasoning, code blocks, and why a reply can't be used."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from accelopt.errors import ReplyFormatError
from accelopt.parsing import parse_python

Reason = Literal[
    "empty",
    "refusal",
    "no_code",
    "no_function",
    "truncated",
    "reasoning_only",
    "edit_not_found",
    "edit_ambiguous",
    "edit_overlap",
    "bad_diff",
]


class UnusableReply(ReplyFormatError):  # noqa: N818 - it describes the reply
    """A reply that can't be used, with a stable code for the cause.

    The message is written so that it can be sent back to the model.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Block:
    """A piece of a reply that is set apart as code."""

    text: str
    tag: str
    """The language: lower case, `""` when the block names none."""
    complete: bool
    """Whether the end of the block is in the reply."""
    fenced: bool = True

    @property
    def is_python(self) -> bool:
        return self.tag in _PYTHON_TAGS or self.tag.endswith(".py") or self.tag[:6] == "python"

    @property
    def is_prose(self) -> bool:
        return self.tag in {"md", "markdown", "html", "xml"}


INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
"""For `str.translate`: drops the characters that have no width."""

_PYTHON_TAGS = frozenset(
    ["", "py", "py3", "ipython", "ipython3", "nki", "neuron", "plain", "plaintext", "text", "txt"]
) | {"code", "kernel", "tool_code"}
_CODE_TAGS = r"code|pre|answer|kernel|python|nki|file|source|solution|output|response"
_QUOTE = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")
_FENCE = re.compile(
    r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)"
    r"(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[^\n`]*)"
)
_LATE_FENCE = re.compile(r"[^`]*(?P<mark>`{3,})(?P<tag>python3?|py|nki)[ \t]*", re.IGNORECASE)
_OPEN_TAG = re.compile(
    rf"[ \t]*(?:<pre\b[^<>]*>[ \t]*)?<(?P<name>{_CODE_TAGS})\b[^<>]*>(?P<rest>.*)"
    r"|[ \t]*\[(?P<bracket>PYTHON|CODE)\](?P<tail>.*)",
    re.IGNORECASE | re.DOTALL,
)
_REASONING_TAG = re.compile(
    r"(?<!`)(?:<(?P<close>/?)(?P<name>think|thinking|thought|thoughts|reasoning|analysis|reflection"
    r"|scratchpad|seed:think)>|(?P<box>\[/?THINK\])|(?P<mark>◁/?think▷))",
    re.IGNORECASE,
)
_END_TOKENS = re.compile(
    r"(?:\s|</s>|<\|[a-z_]{2,20}\|>|<｜[a-z▁_ ]{2,30}｜>|<end_of_turn>)+\Z", re.IGNORECASE
)
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>\w+)[^<\n]{0,60}<\|message\|>", re.IGNORECASE)
_JSON = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_BACKTRACKS = 12
"""How often the search for the end of a block may start over."""


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


def strip_reasoning(reply: str) -> str:
    """The reply without `<think>...</think>` parts, also where one of the two tags is missing.

    A tag inside a code block is code. Reasoning that is never closed reaches to the end.
    """
    kept, _ = split_reasoning(reply)
    return kept


def split_reasoning(reply: str) -> tuple[str, str]:
    """The reply without its reasoning, and the reasoning that was opened and never closed."""
    text = plain_lines(reply)
    channels = list(_CHANNEL.finditer(text))
    if channels:
        last = channels[-1]
        if last["name"].lower() != "final":
            return "", ""
        text = text[last.end() :]
    if _REASONING_TAG.search(text) is None:
        return text, ""
    kept: list[str] = []
    fence, position = "", 0
    while position < len(text):
        end = text.find("\n", position) + 1 or len(text)
        tag = _REASONING_TAG.search(text, position, end)
        line = text[position : position + 2000 if tag else end]
        if tag is not None and fence and tag.group() == line.strip() and _closes(tag):
            # A draft whose block was not closed before the reasoning ended.
            kept, fence = [], ""
        elif tag is None or fence:
            line = text[position:end]
            opened = _fence(line.strip())
            if opened is not None and not fence:
                fence = opened["mark"]
            elif opened is not None and not opened["tag"] and opened["mark"].startswith(fence):
                fence = ""
            kept.append(line)
        elif _closes(tag):
            # Everything up to here was reasoning; the template had already opened it.
            kept = []
            end = tag.end()
        else:
            before = text[position : tag.start()]
            closing = _closing(tag).search(text, tag.end())
            if closing is not None:
                kept.append(before + "\n" if before.strip() else "")
                end = closing.end()
            elif before.strip():
                # A word about a tag, not the tag.
                kept.append(text[position:end])
            else:
                return "".join(kept), text[tag.end() :]
        position = end
    return "".join(kept), ""


def _closes(tag: re.Match[str]) -> bool:
    return "/" in tag.group()


def _closing(tag: re.Match[str]) -> re.Pattern[str]:
    if tag["name"]:
        closing = f"</{tag['name']}>"
    else:
        closing = "[/THINK]" if tag["box"] else "◁/think▷"
    return re.compile(re.escape(closing), re.IGNORECASE)


def _fence(line: str) -> re.Match[str] | None:
    """The line as a fence."""
    if "```" not in line and "~~~" not in line:
        return None
    return _FENCE.fullmatch(line.translate(INVISIBLE))


def find_blocks(text: str) -> list[Block]:
    """All code blocks: fenced ones, tagged ones, and those inside JSON and Markdown blocks."""
    found: list[Block] = []
    for block in _scan(text):
        nested = list(_nested(block)) if block.complete or block.is_prose else []
        found.extend(nested or [block])
    if not any(block.fenced for block in found):
        found.extend(_unwrapped_json(text))
    return found


def _nested(block: Block) -> Iterator[Block]:
    if block.tag in {"json", "jsonc", "json5"} or (not block.tag and block.text[:1] in "{["):
        yield from _unwrapped_json(block.text)
    elif block.is_prose or (not block.tag and _FENCE.match(block.text.lstrip("\n"))):
        yield from _scan(block.text)


def _unwrapped_json(text: str) -> Iterator[Block]:
    """Code in the strings of a JSON answer, with or without prose around it."""
    opened = _JSON.search(text)
    if opened is None or "def " not in text:
        return
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text, opened.end() - 1)
    except (ValueError, RecursionError):
        return
    for string in _strings(value):
        if re.search(r"def \w+[ ]*\(", string):
            inner = _scan(plain_lines(string))
            yield from inner or [Block(plain_lines(string), "", True, fenced=False)]


def _strings(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, dict):
            stack.extend(reversed(list(top.values())))
        elif isinstance(top, list):
            stack.extend(reversed(top))


def _scan(text: str) -> list[Block]:
    """Fenced and tagged blocks, in order."""
    lines = text.split("\n")
    blocks: list[Block] = []
    row, backtracks, tags = 0, _BACKTRACKS, 2 * _BACKTRACKS
    while row < len(lines):
        line = lines[row].translate(INVISIBLE) if not lines[row].isascii() else lines[row]
        quote = _QUOTE.match(line)
        fence = _fence(line[quote.end() :] if quote else line)
        late = None if fence or "```" not in line else _LATE_FENCE.fullmatch(line)
        opened = fence or late
        if opened is not None:
            indent = len(fence["indent"]) if fence else 0
            body = _Body(lines, row + 1, opened["mark"], indent, quote is not None)
            row, code, complete, tried = body.read(strings=backtracks > 0)
            backtracks -= tried
            blocks.append(Block(code, _language(opened["tag"]), complete))
            continue
        row += 1
        if tags and (name := _OPEN_TAG.fullmatch(line)) is not None:
            tags -= 1
            tagged = _tagged(lines, row, name)
            if tagged is not None:
                row, block = tagged
                blocks.append(block)
    return blocks


def _language(info: str) -> str:
    words = re.split(r"[\s,:;={}]+", info.strip(" \t{}.").lower(), maxsplit=1)
    return words[0].strip("{}.") if words else ""


class _Body:
    """Reads the lines of one fenced block."""

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
        scanner, attempts = _Strings(), _BACKTRACKS
        for row in range(self.first, len(self.lines)):
            line = self._line(row)
            fence = _fence(line)
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
            quote = _QUOTE.match(line)
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


def _tagged(lines: list[str], first: int, opened: re.Match[str]) -> tuple[int, Block] | None:
    """A block between `<code>` and `</code>` or the like, if it holds a function and no fence."""
    name = opened["name"] or opened["bracket"]
    closing = f"</{name}>" if opened["name"] else f"[/{name}]"
    body = [opened["rest"] if opened["name"] else opened["tail"]]
    # A tag in front of prose is no block, and neither is one around fences.
    for next_ in range(first, len(lines)):
        line = lines[next_]
        end = line.lower().find(closing.lower()) if closing[:2] in line else -1
        if end >= 0:
            body.append(line[:end])
            break
        if _fence(line) is not None:
            return None
        body.append(line)
    else:
        return None
    code = "\n".join(body)
    if "def " not in code:
        return None
    if opened["name"] and re.search(r"&(lt|gt|quot|amp|#39|#x27);", code):
        code = html.unescape(code)
    return next_ + 1, Block(dedent(code), "", True, fenced=False)
