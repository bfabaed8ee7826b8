from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt.errors import ReplyFormatError
from accelopt.replies import (
    NO_OPTIMIZATION,
    extract_kernel,
    extract_title,
    is_no_optimization,
    strip_reasoning,
)

CODE = "import nki\n\ndef kernel(x):\n    return x\n"
OTHER = "def other(x):\n    return 2 * x\n"


@pytest.mark.parametrize("tag", ["python", "python3", "py", "Python", "", " python", "{.python}"])
@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_tags_and_fences(tag, fence):
    assert extract_kernel(f"Sure.\n{fence}{tag}\n{CODE}{fence}\nDone.") == CODE


@pytest.mark.parametrize(
    "reply",
    [
        f"First try:\n```python\n{OTHER}```\nBetter:\n```python\n{CODE}```",
        f"Use `x` and ```inline``` spans.\n```python\n{CODE}```",
        f"```python\n{CODE}```\nCall it so:\n```python\nkernel(1)\n```",
        f"```python\n{CODE}```\nThen run\n```bash\ndef nothing(): pass\n```",
        f"<think>```python\n{OTHER}```</think>\n```python\n{CODE}```",
        f"half a thought ```python\n{OTHER}```\n</think>\n```python\n{CODE}```",
        f"```python\n{CODE}```\nUnfinished:\n```python\ndef later(x):\n    return (x",
        CODE,
        f"\n\n{CODE}\n",
        f"```python\n{CODE}",
        f"```text\nsome prose\n```\n```python\n{CODE}```",
        f"```python\n{OTHER}\n```python\n{CODE}```",
        f"```python\r\n{CODE}```".replace("\n", "\r\n").replace("\r\r", "\r"),
    ],
)
def test_the_last_complete_block_that_defines_a_function_wins(reply):
    assert extract_kernel(reply) == CODE


def test_a_fence_inside_a_string_does_not_end_the_block():
    code = 'def kernel(x):\n    """Use:\n```\nkernel(x)\n```\n    """\n    return x\n'
    assert extract_kernel(f"```python\n{code}```") == code


def test_a_kernel_with_a_syntax_error_goes_to_the_judge():
    broken = "def kernel(x)\n    return x\n"
    assert extract_kernel(f"```python\n{broken}```") == broken


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>I ran out of tok", "empty"),
        ("I can't help with that.", "no code block"),
        ("```python\nx = 1\n```", "defines a function"),
        ("```python\ndef kernel(x):\n    return (x", "cut off"),
        ("```cpp\nint main() {}\n```", "no code block"),
    ],
)
def test_a_useless_reply_says_why(reply, reason):
    with pytest.raises(ReplyFormatError, match=reason):
        extract_kernel(reply)


@given(st.text(alphabet="`~ap\n d<>/think:()", max_size=120))
def test_any_text_gives_code_from_the_text_or_a_format_error(reply):
    try:
        code = extract_kernel(reply)
    except ReplyFormatError:
        return
    assert code.strip("\n") in strip_reasoning(reply)


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        ("**Fuse the\n store**\ntext **bold**", "Fuse the store"),
        ("<think>**no**</think>\n**Yes**", "Yes"),
        ("## Heading\ntext", "Heading"),
        ("just text\nmore", "just text"),
        ("", ""),
    ],
)
def test_titles(reply, title):
    assert extract_title(reply) == title


@pytest.mark.parametrize(
    ("reply", "nothing"),
    [
        (NO_OPTIMIZATION, True),
        ("**No optimisation found.**\n", True),
        ("<think>hm</think>\nNO OPTIMIZATION FOUND", True),
        ("", True),
        ("**Title**\nThere was no optimization found in the loop before.", False),
    ],
)
def test_the_mark_of_no_optimization(reply, nothing):
    assert is_no_optimization(reply) is nothing
