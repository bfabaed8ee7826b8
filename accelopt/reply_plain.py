"""The plainest of replies, read without parsing: one fenced block that is the whole kernel.

Most replies are of this kind, and parsing a kernel of 10 KB takes several milliseconds. Whatever
is not as plain as can be is left to `replies`, which gives the same result for these, too. Only
substrings are looked for: a regular expression over the whole reply costs a millisecond.
"""

from __future__ import annotations

import re
from functools import lru_cache

_FENCE = "```"
_OPENING = frozenset({"```python", "```python3", "```py", "```"})
# What may be a tag, a mark of an edit or of a diff.
_MARKS = (
    "~~~",
    "</",
    "<|",
    "[/",
    "[PYTHON]",
    "[CODE]",
    "<<<<<",
    ">>>>>",
    "=====",
    "-----",
    "+++++",
)
_LINE_MARKS = ("\n@@", "\n--- ", "\n+++ ", "\n*** ")
_TAG = re.compile(r"<[A-Za-z]")
_COMMENT = re.compile(r"#.*")
_ELLIPSIS = re.compile(r"\n[ \t]*\.\.\.[ \t]*\n")
_LEFT_OUT = re.compile(r"\.\.\.|\b(?:rest|remain|remains|same|existing|unchanged)\b", re.IGNORECASE)


def plain_kernel(reply: str, entry: str | None, parent: str | None) -> str | None:
    """The code of a plain reply; None when the reply needs a closer look.

    Args:
        reply: what the model answered.
        entry: name of the kernel function.
        parent: the kernel that the model was shown.
    """
    if entry is None or parent is None or not reply.isascii() or "\r" in reply:
        return None
    if reply.count("`") != 2 * len(_FENCE):
        return None
    text = f"\n{reply}\n"
    start, end = text.find("\n```"), text.rfind("\n```")
    opening = text[start + 1 : text.index("\n", start + 1)].rstrip(" ")
    closing = text[end + 1 : text.index("\n", end + 1)].rstrip(" \t")
    if not 0 <= start < end or opening not in _OPENING or closing != _FENCE:
        return None
    if any(mark in text for mark in (*_MARKS, *_LINE_MARKS)) or _TAG.search(text):
        return None
    code = text[text.index("\n", start + 1) + 1 : end + 1]
    definition = f"def {entry}("
    if code.count(definition) != 1 or f"\n{definition}" not in f"\n{code}":
        return None
    if any(_LEFT_OUT.search(comment) for comment in _COMMENT.findall(code)):
        return None
    if _ELLIPSIS.search(code):
        return None
    imports = _imports(parent)
    if imports is None or not imports.issubset(code.split("\n")):
        return None
    return code.strip("\n") + "\n"


@lru_cache(maxsize=64)
def _imports(parent: str) -> frozenset[str] | None:
    """Import lines of a kernel; None when one of them goes on in the next line."""
    lines = [line for line in parent.split("\n") if line.startswith(("import ", "from "))]
    if any("(" in line or "\\" in line for line in lines):
        return None
    return frozenset(lines)
