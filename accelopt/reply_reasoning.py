"""The reasoning in a model reply: where it begins and ends."""

from __future__ import annotations

import re

from accelopt.reply_fences import find_fence
from accelopt.reply_text import plain_lines

_REASONING_TAG = re.compile(
    r"(?<!`)(?:<(?P<close>/?)(?P<name>think|thinking|thought|thoughts|reasoning|analysis|reflection"
    r"|scratchpad|seed:think)>|(?P<box>\[/?THINK\])|(?P<mark>◁/?think▷))",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>\w+)[^<\n]{0,60}<\|message\|>", re.IGNORECASE)


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
            opened = find_fence(line.strip())
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
