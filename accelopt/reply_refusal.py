"""Replies that refuse."""

from __future__ import annotations

import re

from accelopt.reply_blocks import find_blocks
from accelopt.reply_code import bare_code
from accelopt.reply_edits import find_edits
from accelopt.reply_reasoning import strip_reasoning
from accelopt.reply_text import INVISIBLE, without_end_tokens

_REFUSAL = re.compile(
    r"(?:(?:i['’]?m|i am|we['’]?re|we are) (?:(?:very |so |really |truly )?sorry|afraid"
    r"|unable|not able|not comfortable)"
    r"|(?:so )?sorry\b|apologies|(?:i|we) (?:do )?apologi[sz]e|my apologies"
    r"|(?:unfortunately|regrettably|regretfully)\b"
    r"|i (?:can['’]?t|can ?not|could not|couldn['’]?t|won['’]?t|will not|must (?:decline|refuse)"
    r"|have to (?:decline|refuse)|decline|refuse|do not feel|don['’]?t feel)\b"
    r"|as an? (?:ai|large|language)\b|i['’]?d rather not\b|no, i\b"
    r"|(?:非常|很|真的)?(?:抱歉|对不起|遗憾)|對不起|我(?:无法|不能|没有办法|拒绝|無法)"
    r"|作为(?:一个|一名|一款)?(?:ai|人工智能|语言模型)"
    r"|申し訳|すみません|죄송|lo siento|je suis désolée?|désolée?\b|es tut mir leid"
    r"|tut mir leid|desculpe|mi dispiace|извините|к сожалению)",
    re.IGNORECASE,
)


def refusal(reply: str) -> str | None:
    """The first sentence of a reply that has no code and begins with a refusal, else `None`."""
    text = strip_reasoning(without_end_tokens(reply)).translate(INVISIBLE).lstrip(" \t\n#*_>-\"'“")
    if _REFUSAL.match(text) is None:
        return None
    if find_blocks(text) or find_edits(text) is not None or bare_code(text) is not None:
        return None
    first = re.split(r"(?<=[.!?])\s|[。！\n]", text[:400], maxsplit=1)[0].strip()
    return first if len(first) <= 200 else first[:197] + "..."
