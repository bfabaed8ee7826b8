"""The short cut for plain replies gives what the long way gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reply_corpus import CORPUS, K

from accelopt.plugins import installed
from accelopt.replies import _read_closely
from accelopt.reply_errors import UnusableReply
from accelopt.reply_plain import plain_kernel


def closely(reply, entry, parent):
    try:
        return _read_closely(reply, entry, parent).source
    except UnusableReply as error:
        return error


def fenced(code, tag="python"):
    return f"Here it is.\n\n```{tag}\n{code}```\nIt is faster.\n"


@pytest.mark.parametrize("task", ["adamw", "gqa_full", "lora", "swiglu", "silu", "mamba"])
def test_a_real_kernel_is_read_without_parsing(task):
    found = installed().task(f"nkibench/{task}").baseline
    reply = fenced(found.text)
    assert plain_kernel(reply, "kernel", found.text) == found.text.strip("\n") + "\n"
    assert closely(reply, "kernel", found.text) == found.text.strip("\n") + "\n"


@pytest.mark.parametrize(
    "reply",
    [
        fenced(K.replace("import", "# import")),
        fenced(K) + fenced(K),
        fenced(K.replace("def kernel(", "def kernel2(")),
        fenced("# ... rest of the kernel\n" + K),
        fenced(K, "diff"),
        f"<think>```python\n{K}```</think>\n",
        fenced(K)[:-20],
        fenced(K).replace("Here", "H\u200bere"),
    ],
)
def test_what_is_not_plain_is_left_to_the_long_way(reply):
    assert plain_kernel(reply, "kernel", K) is None


PIECES = [
    K,
    "```python\n",
    "```\n",
    "text\n",
    "def kernel(x):\n    return x\n",
    "import a\n",
    "@@\n",
]


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.sampled_from([case.reply for case in CORPUS if len(case.reply) < 5000]),
        st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
        st.sampled_from(PIECES).map(fenced),
    ),
    st.sampled_from([K, "import a\ndef kernel(x):\n    return x\n"]),
)
def test_where_the_short_cut_goes_it_ends_where_the_long_way_ends(reply, parent):
    plain = plain_kernel(reply, "kernel", parent)
    if plain is not None:
        assert closely(reply, "kernel", parent) == plain
