"""Reading a summarizer's reply: the title of its lesson, or the mark that there is none."""

from __future__ import annotations

import re

from accelopt.reply_reasoning import strip_reasoning

NO_OPTIMIZATION = "NO OPTIMIZATION FOUND"
"""What a summarizer answers when the two kernels are the same."""

_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)


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
