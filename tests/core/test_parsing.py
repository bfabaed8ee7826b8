"""Parsing from several threads: the same trees as from one, and no SystemError."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from accelopt.parsing import parse_python


def test_many_threads_parse_deep_and_shallow_sources_side_by_side():
    deep = "x = " + "(" * 60 + "1" + ")" * 60
    sources = [deep, "def f(a):\n    return [b for b in a if b]\n", "y = 1"] * 200
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse_python, sources))
    assert [ast.dump(tree) for tree in trees[:3]] == [ast.dump(ast.parse(s)) for s in sources[:3]]
    assert len({ast.dump(tree) for tree in trees}) == 3


def test_an_expression_can_be_parsed_alone():
    assert isinstance(parse_python("a + 1", mode="eval").body, ast.BinOp)


def test_the_lock_is_free_again_after_an_error():
    with pytest.raises(SyntaxError):
        parse_python("def f(:")
    assert parse_python("a = 1").body
