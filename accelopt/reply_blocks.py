"""Code blocks in a model reply: fenced, between tags, in JSON, in Markdown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from accelopt.reply_fences import BACKTRACKS, FENCE, QUOTE, FencedBody, find_fence
from accelopt.reply_text import INVISIBLE, dedent, plain_lines

_PYTHON_TAGS = frozenset(
    ["", "py", "py3", "ipython", "ipython3", "nki", "neuron", "plain", "plaintext", "text", "txt"]
) | {"code", "kernel", "tool_code"}
_CODE_TAGS = r"code|pre|answer|kernel|python|nki|file|source|solution|output|response"
_LATE_FENCE = re.compile(r"[^`]*(?P<mark>`{3,})(?P<tag>python3?|py|nki)[ \t]*", re.IGNORECASE)
_OPEN_TAG = re.compile(
    rf"[ \t]*(?:<pre\b[^<>]*>[ \t]*)?<(?P<name>{_CODE_TAGS})\b[^<>]*>(?P<rest>.*)"
    r"|[ \t]*\[(?P<bracket>PYTHON|CODE)\](?P<tail>.*)",
    re.IGNORECASE | re.DOTALL,
)
_JSON = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)


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
        """Whether the tag says Python, or nothing."""
        return self.tag in _PYTHON_TAGS or self.tag.endswith(".py") or self.tag[:6] == "python"

    @property
    def is_prose(self) -> bool:
        """Whether the tag says text that may hold blocks of its own."""
        return self.tag in {"md", "markdown", "html", "xml"}


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
    elif block.is_prose or (not block.tag and FENCE.match(block.text.lstrip("\n"))):
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
    row, backtracks, tags = 0, BACKTRACKS, 2 * BACKTRACKS
    while row < len(lines):
        line = lines[row].translate(INVISIBLE) if not lines[row].isascii() else lines[row]
        quote = QUOTE.match(line)
        fence = find_fence(line[quote.end() :] if quote else line)
        late = None if fence or "```" not in line else _LATE_FENCE.fullmatch(line)
        opened = fence or late
        if opened is not None:
            indent = len(fence["indent"]) if fence else 0
            body = FencedBody(lines, row + 1, opened["mark"], indent, quote is not None)
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
        if find_fence(line) is not None:
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
