"""Reading model replies: the kernel in an answer, the title of a lesson, the no-lesson mark."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from accelopt.errors import ReplyFormatError
from accelopt.parsing import parse_python

NO_OPTIMIZATION = "NO OPTIMIZATION FOUND"
"""What a summarizer answers when the two kernels are the same."""

_REASONING = re.compile(
    r"<(think|thinking|reasoning|analysis)>.*?</\1>", flags=re.DOTALL | re.IGNORECASE
)
_OPEN_REASONING = re.compile(r"\A\s*<(think|thinking|reasoning|analysis)>", re.IGNORECASE)
_CLOSE_REASONING = re.compile(r"\A.*</(think|thinking|reasoning|analysis)>", re.DOTALL | re.I)
_FENCE = re.compile(r"^(?P<indent>[ ]{0,3})(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[^\n`]*)$")
_PYTHON_TAGS = frozenset({"", "py", "py3", "python", "python3", "nki", "plain", "text"})
_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)


@dataclass(frozen=True)
class _Block:
    text: str
    tag: str
    complete: bool


def extract_kernel(reply: str) -> str:
    """The kernel source in an executor's or fixer's reply.

    The last complete code block that defines a function wins; then a last block without a closing
    fence, if what is there parses; then a whole reply that is Python. Nothing is added that was not
    in the reply.

    Raises:
        ReplyFormatError: there is no usable code; the message says why.
    """
    text = strip_reasoning(reply)
    if not text.strip():
        raise ReplyFormatError("the reply is empty")
    blocks = [block for block in _blocks(text) if _tag(block) in _PYTHON_TAGS]
    complete = [block.text for block in blocks if block.complete]
    whole = [code for code in complete if _defines_function(code)]
    if whole:
        return _tidy(whole[-1])
    truncated = [block.text for block in blocks if not block.complete]
    if truncated and _defines_function(truncated[-1]):
        return _tidy(truncated[-1])
    if _defines_function(text):
        return _tidy(text)
    # A kernel with a syntax error is the executor's mistake, not a formatting one: the judge names
    # the line and the fixer can repair it.
    broken = [code for code in complete if _mentions_function(code)]
    if broken:
        return _tidy(broken[-1])
    if truncated:
        raise ReplyFormatError("the reply was cut off inside its code block")
    if blocks:
        raise ReplyFormatError("no code block in the reply defines a function")
    raise ReplyFormatError("the reply has no code block")


def strip_reasoning(reply: str) -> str:
    """The reply without `<think>...</think>` parts, also where the opening tag is missing."""
    text = _REASONING.sub("", reply)
    if _OPEN_REASONING.match(text):
        # Opened and never closed: the model ran out of tokens while it was still thinking.
        return ""
    return _CLOSE_REASONING.sub("", text, count=1)


def extract_title(reply: str) -> str:
    """The first bold span of a summarizer's reply, else its first heading or line; one line."""
    text = strip_reasoning(reply).strip()
    found = _BOLD.search(text)
    if found is not None:
        return " ".join(found.group(1).split())
    first = next((line for line in text.splitlines() if line.strip()), "")
    return first.strip().strip("#*` ").strip()


def is_no_optimization(reply: str) -> bool:
    """Whether a summarizer says that there is nothing to learn from the pair."""
    text = strip_reasoning(reply).strip()
    if not text:
        return True
    first = text.splitlines()[0].strip("#*_`>-. \t").upper()
    return first.replace("OPTIMISATION", "OPTIMIZATION").startswith(NO_OPTIMIZATION)


def _blocks(text: str) -> list[_Block]:
    """All fenced blocks. A fence is a line of its own; a block ends at a bare fence as long."""
    blocks: list[_Block] = []
    mark, tag, lines = "", "", list[str]()
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if not mark:
            if fence is not None:
                mark, tag, lines = fence["mark"], fence["tag"].strip(), []
            continue
        closes = fence is not None and not fence["tag"].strip() and fence["mark"].startswith(mark)
        # A bare fence inside a string of the code does not end the block: the rest must parse too.
        if closes and not _inside_string("\n".join(lines)):
            blocks.append(_Block("\n".join(lines), tag, True))
            mark = ""
        elif fence is not None and fence["tag"].strip() and fence["mark"][0] == mark[0]:
            # A fence with a tag opens a new block: the last one was never closed.
            blocks.append(_Block("\n".join(lines), tag, False))
            mark, tag, lines = fence["mark"], fence["tag"].strip(), []
        else:
            lines.append(line)
    if mark:
        blocks.append(_Block("\n".join(lines), tag, False))
    return blocks


def _inside_string(code: str) -> bool:
    try:
        parse_python(code)
    except SyntaxError as error:
        return "unterminated triple-quoted" in str(error.msg)
    except (ValueError, RecursionError, MemoryError):
        return False
    return False


def _tag(block: _Block) -> str:
    return block.tag.split()[0].strip("{}.").lower() if block.tag.split() else ""


def _defines_function(code: str) -> bool:
    try:
        tree = parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.FunctionDef) for node in tree.body)


def _mentions_function(code: str) -> bool:
    return re.search(r"^\s*def\s+\w+\s*\(", code, flags=re.MULTILINE) is not None


def _tidy(code: str) -> str:
    return code.strip("\n") + "\n"
