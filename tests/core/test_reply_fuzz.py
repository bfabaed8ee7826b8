"""Mutated and glued replies: code from the reply, or an `UnusableReply`, and quickly."""

from __future__ import annotations

import contextlib
import gc
import html
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reply_corpus import BODY, CORPUS, RENAMED, K

from accelopt.replies import (
    UnusableReply,
    apply_edits,
    extract_reply,
    extract_title,
    is_no_optimization,
    refusal,
    strip_reasoning,
)
from accelopt.reply_text import INVISIBLE

_TOKENS = [
    *("\n", "```", "```python", "~~~", "````", "```diff", "```json", "<think>", "</think>"),
    *("<code>", "</code>", "def ", "@nki.jit", '"""', "'''", "'", '"', "#", "\\", "(", ")", ":"),
    *("@@", "---", "+++", "-", "+", ">", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "\t"),
    *("\r", "\ufeff", "\u200b", "\u2028", "\x00", "\ud800", "\u00a0", "kernel", "return", "import"),
    *("{", "}", "[", "]", "<|im_end|>", "<|channel|>"),
]


def _clean(text: str) -> str:
    return "".join(text.translate(INVISIBLE).split())


@st.composite
def _replies(draw):
    """One to three pieces: corpus replies or random text; cut, repeated, and with tokens put in."""
    piece = st.one_of(
        st.sampled_from([case.reply for case in CORPUS if len(case.reply) < 5000]),
        st.sampled_from([RENAMED, BODY, BODY.replace("kernel", "k2"), "k2 = kernel_v2\n"]),
        st.lists(st.sampled_from([*_TOKENS, "\n", " ", K]), max_size=12).map("".join),
        st.text(max_size=40),
    )
    text = draw(st.sampled_from(["", "\n", "\n\n"])).join(
        draw(st.lists(piece, min_size=1, max_size=3))
    )
    for _ in range(draw(st.integers(0, 3))):
        one, two = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        change = draw(st.sampled_from(["cut", "end", "start", "repeat", "put"]))
        if change == "cut":
            text = text[:one] + text[two:]
        elif change == "end":
            text = text[:two]
        elif change == "start":
            text = text[one:]
        elif change == "repeat":
            text = text[:two] + text[one:]
        else:
            text = text[:one] + draw(st.sampled_from(_TOKENS)) + text[one:]
    return text


def _sources(*texts: str) -> str:
    lines = "\n".join(texts).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(map(_clean, lines))


def _strange_lines(source: str, reply: str, parent: str, *names: str) -> list[str]:
    """Lines that are neither in the reply, as they are or in JSON, nor in the parent.

    The `names`, the entry function's, count as equal.
    """
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or r"(?!)"
    known, source = (
        re.sub(either, "§", text)
        for text in (_sources(reply, html.unescape(reply), parent), source)
    )
    return [
        line
        for line in source.split("\n")
        if _clean(line) not in known
        and _clean(json.dumps(line)[1:-1]) not in known
        and _clean(json.dumps(line, ensure_ascii=False)[1:-1]) not in known
    ]


@settings(max_examples=250, deadline=None)
@given(_replies(), st.sampled_from(["kernel", None]), st.sampled_from([K, None]))
def test_any_reply_gives_code_of_its_own_or_a_reason(reply, entry, parent):
    begin = time.thread_time()
    try:
        found = extract_reply(reply, entry=entry, parent=parent)
    except UnusableReply:
        found = None
    assert time.thread_time() - begin < 1
    if found is not None:
        edited = found.style in {"edits", "diff"}
        completed = "import lines of the parent were added" in found.notes
        names = () if found.renamed_from is None else (found.renamed_from, found.entry)
        assert not _strange_lines(
            found.source, reply, (parent or "") if edited or completed else "", *names
        )
        assert "def " in found.source
        assert found.entry == entry or entry is None
        assert found.renamed_from is None or found.renamed_from != entry
        if names:
            assert re.search(rf"^def[ \t]+{entry}\b", found.source, re.MULTILINE)


@settings(max_examples=80, deadline=None)
@given(_replies())
def test_the_other_readers_take_any_reply(reply):
    refusal(reply)
    extract_title(reply)
    is_no_optimization(reply)
    assert _clean(strip_reasoning(reply)) in _clean(reply) or {*"<[◁"} & {*reply}
    try:
        source = apply_edits(reply, K)
    except UnusableReply:
        return
    assert not _strange_lines(source, reply, K)


_SIZE = 20_000


@pytest.mark.parametrize(
    "unit",
    [
        *("<think>", "<think>\n", "</think>\n", "<think></think>", "[THINK]", "<|channel|>x"),
        *("```\n", "```python\n", "~~~\n```\n", "`", "x```\n", "> ```\n", "- ", "    ```py\n"),
        *("<code>\n", "<code>def \n", "<code>\n</code>\n", "<pre><code>def f(\n</code>\n"),
        *("(", "[", '{"a":', "-", "x = (\n", '"""\n', "'", "\\\n", "  " * 40 + "x\n"),
        *("def f(x):\n", "def f(x):\n    return x\n\n", "@a\n", "import x\n\nSome words here.\n\n"),
        *('"""\n```\n', 'a"""\n```\n```python\n', "x = 1 ```python\n", "\u200b", "\u2028", "\r"),
        *("<<<<<<< SEARCH\n", "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n", "=======\n"),
        *("@@ -1 +1 @@\n", "@@ -1 +1 @@\n-x\n+y\n", "--- a\n+++ b\n", "-x\n+y\n"),
        *(
            "```diff\n-x\n```\n",
            "</s>",
            "<|im_end|>",
            "I'm sorry. ",
            "抱歉，",
            "aa ",
            "**a",
            "word's, ",
        ),
    ],
)
@pytest.mark.parametrize("frame", ["{}", "def kernel(x):\n    return x\n```\n{}"])
def test_long_replies_are_read_quickly(unit, frame):
    reply = frame.replace("{}", unit * (_SIZE // len(unit)))
    # Without the collector, which now and then walks all that other tests left in this process.
    gc.disable()
    try:
        begin = time.thread_time()
        with contextlib.suppress(UnusableReply):
            extract_reply(reply, entry="kernel", parent=K)
        assert time.thread_time() - begin < 1
    finally:
        gc.enable()
