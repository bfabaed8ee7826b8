from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelopt.normalize import line_map, normalized_hash, normalized_source
from accelopt.program_tokens import program_tokens

KERNEL = "def kernel(x):\n    y = x + 1\n    return y\n"


@pytest.mark.parametrize(
    "same",
    [
        "# comment\n\n" + KERNEL,
        "def kernel( x ):\n\n    y = x + \\\n        1  # more\n    return y",
        KERNEL.replace("\n", "\r\n"),
        KERNEL.replace("    ", "  "),
        KERNEL.replace("x + 1", "x+1 "),
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
        KERNEL.replace("    return y", "return y"),
        KERNEL.replace("+ 1", "+ 1.0"),
        KERNEL.replace("x + 1", "x ** 1"),
        KERNEL.replace("x + 1", "x * * 1"),
        KERNEL.replace("    y = x + 1", "    assert x\n    y = x + 1"),
    ],
)
def test_another_program_has_another_hash(other):
    assert normalized_hash(other) != normalized_hash(KERNEL)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = f 'a'\n", "y = f'a'\n"),
        ("y = 'a  b'\n", "y = 'a b'\n"),
        ("y = '# a'\n", "y = '#  a'\n"),
        ("if a:\n\tb\n", "if a:\n    b\n    \n\tc\n"),
        ("if a:\n    b\nc\n", "if a:\n    b\n    c\n"),
        ("if a:\n    b\n  c\n", "if a:\n    b\nc\n"),
        ("y = (a,)\n", "y = (a)\n"),
        ("y = x[a,]\n", "y = x[a]\n"),
        ("y = 0xE+1\n", "y = 0xE\n"),
        ("f'{x}'\n", "\n"),
        ("y = [1\n", "y = [1]\n"),
        ("""y = f"{x["a"] + "}  # one"}"\n""", """y = f"{x["a"] + "}  # two"}"\n"""),
        ("""y = "it's"\n""", "y = 'it'\n"),
        ("a\\\nb\n", "a\nb\n"),
        (" ''\n", "''\n"),
        ("#''''\n", "''''\n"),
        ("def f():\n    ''\nx = 1\n", "def f():\nx = 1\n"),
        ("x = 1\n    ''\n", "x = 1\n"),
        ("def f():\n", "def f():\n    ''\n"),
        ("if a:\n    if b:\n        ''\n    c\n", "if a:\n    if b:\n    c\n"),
        ("y = '''a\n\n  b'''\n", "y = '''a\n  b'''\n"),
    ],
)
def test_what_looks_alike_is_kept_apart(one, other):
    assert normalized_hash(one) != normalized_hash(other)


PIECES = [*"abf01.+-*=:,()[]{}#'\"\\ \n\t", "'''", '"""', "    ", "if", "\n  "]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=24))
def test_equal_tokens_mean_equal_programs(parts):
    text = "".join(parts)
    found = program_tokens(text)
    for dropped in (" ", "\n", "#", "\t", "\\"):
        changed = text.replace(dropped, "")
        if found is not None and changed != text and program_tokens(changed) == found:
            assert _tree(text) == _tree(changed)


def _tree(text):
    try:
        return normalized_source(ast.unparse(ast.parse(text)))
    except (SyntaxError, ValueError):
        return None


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
