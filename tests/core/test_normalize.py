from __future__ import annotations

import pytest

from accelopt.normalize import line_map, normalized_hash, normalized_source

KERNEL = "def kernel(x):\n    y = x + 1\n    return y\n"


@pytest.mark.parametrize(
    "same",
    [
        "# comment\n\n" + KERNEL,
        "def kernel( x ):\n\n    y = (x\n         + 1)  # more\n    return y",
        '"""Module."""\n' + KERNEL.replace("x):\n", 'x):\n    """Doc."""\n'),
        KERNEL.replace("    return", "    'note to self'\n    return"),
    ],
)
def test_comments_strings_and_formatting_do_not_matter(same):
    assert normalized_hash(same) == normalized_hash(KERNEL)


@pytest.mark.parametrize(
    "other",
    [
        KERNEL.replace("+ 1", "+ 2"),
        KERNEL.replace("kernel", "kernel2"),
        KERNEL.replace("return y", "return 'y'"),
        KERNEL.replace("    return y\n", ""),
    ],
)
def test_another_program_has_another_hash(other):
    assert normalized_hash(other) != normalized_hash(KERNEL)


def test_a_function_of_nothing_but_a_docstring_stays_valid():
    assert normalized_source('def f():\n    "doc"\n') == "def f():\n    pass"


@pytest.mark.parametrize("text", ["def (", "a\0b", "  indented\n x"])
def test_text_that_does_not_parse_is_stripped(text):
    assert normalized_source(f"\n{text}\n\n") == text.strip()


def test_deep_nesting_does_not_raise():
    text = "x = " + "(" * 3000 + "1" + ")" * 3000
    assert normalized_hash(text) == normalized_hash(text + "\n")


def test_line_map_follows_the_program_not_the_layout():
    moved = "# one\n# two\n" + KERNEL.replace("    y =", '    "doc"\n\n    y =')
    assert line_map(KERNEL, moved) == {1: 3, 2: 6, 3: 7}
    assert line_map(KERNEL, "def (") == {}
