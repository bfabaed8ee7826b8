from __future__ import annotations

import ast

import pytest
from rewriter_kernels import ARGUMENTS, elementwise

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.bottleneck import busy_fractions
from accelopt_rewriter.edit import Edits, apply_edits
from accelopt_rewriter.indexing import Affine, Point, Span
from accelopt_rewriter.static import dtype_bytes, evaluate, parse_arguments


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("(128, 32, 7168) float32", (128, 32, 7168)),
        ("[1024] float32", (1024,)),
        ("128x512 bfloat16", (128, 512)),
        ("1e-05", 1e-05),
        ("3", 3),
        ("1e-05 float", 1e-05),
        ("a tensor", None),
    ],
)
def test_argument_lines_are_read(line, value):
    assert parse_arguments([line]) == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(M + 127) // 128", 86),
        ("x.shape[1] // 1024", 2),
        ("np.dtype(np.float32).type(-1.5)", -1.5),
        ("nl.par_dim(nl.tile_size.pmax)", 128),
        ("1 / 0", None),
        ("unknown + 1", None),
        ("True", None),
        ("x.shape[7]", None),
    ],
)
def test_expressions_known_before_the_kernel_runs(text, value):
    env = {"M": 10944, "x": (10944, 2048)}
    assert evaluate(ast.parse(text, mode="eval").body, env) == value


@pytest.mark.parametrize(
    ("dtype", "size"), [("np.float32", 4), ("nl.bfloat16", 2), ("nl.int8", 1), (None, 4)]
)
def test_bytes_of_a_dtype(dtype, size):
    assert dtype_bytes(dtype) == size


def elements(subscript, lines=()):
    kernel = Kernel(elementwise(*lines, "r = nl.exp(a)"), ARGUMENTS)
    node = ast.parse(f"x[{subscript}]", mode="eval").body
    return kernel.reader.elements(node.slice, (128, 2048))


def test_subscripts_in_every_style_are_affine():
    at = Affine(3, (("i", 512),))
    columns = Span(at, 512, 1, 2)
    assert elements("nl.arange(128)[:, None], 3 + 512 * i + nl.arange(512)[None, :]") == (
        Span(Affine(), 128, 0, 2),
        columns,
    )
    assert elements("0:128, i * 512 + 3:(i + 1) * 512 + 3")[1] == Span(at, 512)
    assert elements("0:128, nl.ds(512 * i + 3, 512)")[1] == Span(at, 512)
    assert elements(":, 3:")[1] == Span(Affine(3), 2045)
    assert elements("i + i, 0") == (Point(Affine(0, (("i", 2),))), Point(Affine()))
    assert elements("...") is None


def test_index_aliases_are_looked_through():
    lines = ["cols = nl.arange(512)[None, :]", "start = 512 * i"]
    assert elements("0, start + cols", lines)[1] == Span(Affine(0, (("i", 512),)), 512, 1, 2)


def test_an_index_that_is_not_affine_is_not_understood():
    (element,) = elements("i * i")
    assert element.source == "i * i"
    assert element.names == {"i"}


def test_shapes_follow_from_the_calls():
    kernel = Kernel(
        elementwise(
            "d = nl.sum(a, axis=[1])",
            "e = nisa.nc_transpose(a[0:128, 0:64])",
            "f = nl.matmul(a[0:128, 0:64], b)",
            "h = c.broadcast_to((128, 7))",
            "r = nl.exp(a)",
        ),
        ARGUMENTS,
    )
    assert [kernel.shape_of(n) for n in "acdefh"] == [
        (128, 512),
        (128, 1),
        (128, 1),
        (64, 128),
        (128, 512),
        (128, 7),
    ]
    assert [kernel.memory_of(n) for n in ("x", "out", "a", "e", "f")] == [
        "hbm",
        "hbm",
        "sbuf",
        "psum",
        "psum",
    ]


SOURCE = """x = 1  # one
def f(a):
  # before
  y = a; z = y
  if a:
    y = 2
  elif z:
    y = 3
  else:
    for i in range(3):
      y = 4
      'end'
  return y
"""


def test_edits_keep_everything_they_do_not_name():
    edits = Edits()
    assert apply_edits(SOURCE, edits) == SOURCE
    edits.replace[8] = ["y = 33", "z = 5"]
    edits.insert(10, "n = 3")
    edits.loop_iter[10] = "range(n)"
    edits.delete(11)
    expected = (
        SOURCE.replace("    y = 3\n", "    y = 33\n    z = 5\n")
        .replace("    for i in range(3)", "    n = 3\n    for i in range(n)")
        .replace("      y = 4\n", "")
    )
    assert apply_edits(SOURCE, edits) == expected


def test_an_unwrapped_loop_leaves_its_body():
    edits = Edits()
    edits.unwrap.add(10)
    assert "  else:\n    y = 4\n    'end'\n" in apply_edits(SOURCE, edits)


def test_a_loop_without_a_body_disappears():
    text = "a = 1\nfor i in x:\n  b = 2\nc = 3\n"
    edits = Edits()
    edits.delete(3)
    assert apply_edits(text, edits) == "a = 1\nc = 3\n"


def test_text_that_does_not_parse_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        apply_edits("a = (\n", Edits())


def test_busy_fractions_come_from_counters_and_the_named_bottleneck():
    profile = ("dma_active_time_percent: 0.25", "vector_engine_active_time_percent: 50 %")
    busy = busy_fractions(profile, "The latency is bound by: dma. Busy share: vector 50 %.")
    assert busy == {"dma": 0.5, "vector": 0.5, "scalar": 0.0, "tensor": 0.0, "latency": 0.5}
    assert busy_fractions((), "")["latency"] == 0.0
