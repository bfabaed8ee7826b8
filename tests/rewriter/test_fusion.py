from __future__ import annotations

import pytest
from rewriter_kernels import elementwise

from accelopt import TaskError

SIGMOID = [
    "e = nisa.activation(op=nl.exp, data=a, scale=-1.0)",
    "p = nisa.tensor_scalar(data=e, op0=nl.add, operand0=1.0)",
    "r = nisa.reciprocal(data=p)",
]
PLAIN = "r = nl.add(a, b)"


def changed(lines, old, new):
    assert any(old in line for line in lines)
    return [line.replace(old, new) for line in lines]


POSITIVE = [
    ("sigmoid-chain", SIGMOID, "r = nisa.activation(op=nl.sigmoid, data=a)"),
    (
        "sigmoid-chain",
        changed(SIGMOID, "scale=-1.0", "scale=-2.0"),
        "r = nisa.activation(op=nl.sigmoid, data=a, scale=2.0)",
    ),
    (
        "sigmoid-chain",
        ["e = nl.exp(nl.negative(a))", *["n = nl.multiply(a, -1.0)"], *SIGMOID],
        "r = nisa.activation(op=nl.sigmoid, data=a)",
    ),
    (
        "sigmoid-chain",
        changed(SIGMOID, "nisa.reciprocal(data=p)", "nl.reciprocal(p)"),
        "r = nisa.activation(op=nl.sigmoid, data=a)",
    ),
    (
        "silu-chain",
        ["s = nl.sigmoid(a)", "r = nl.multiply(s, a)"],
        "r = nisa.activation(op=nl.silu, data=a)",
    ),
    (
        "silu-chain",
        [
            "s = nisa.activation(op=nl.sigmoid, data=a)",
            "r = nisa.tensor_tensor(a, s, op=np.multiply)",
        ],
        "r = nisa.activation(op=nl.silu, data=a)",
    ),
    (
        "self-scale",
        ["t = a * 0.25", "r = nl.subtract(a, t)"],
        "r = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=0.75)",
    ),
    (
        "self-scale",
        ["t = nl.multiply(0.25, a)", "r = nl.subtract(t, a)"],
        "r = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=-0.75)",
    ),
    (
        "self-scale",
        ["t = nl.multiply(a, 0.25)", "r = nl.add(t, a)"],
        "r = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=1.25)",
    ),
    ("square-activation", ["r = a * a"], "r = nisa.activation(op=nl.square, data=a)"),
    (
        "square-activation",
        ["t = nl.multiply(a, 0.25)", "r = nl.multiply(t, a)"],
        "r = nisa.activation(op=nl.square, data=a, scale=0.5)",
    ),
    (
        "scale-into-activation",
        ["t = a / 4", "r = nl.sqrt(t)"],
        "r = nisa.activation(op=nl.sqrt, data=a, scale=0.25)",
    ),
    (
        "scale-into-activation",
        ["t = nl.multiply(a, 3.0)", "r = nisa.activation(op=nl.exp, data=t, scale=2.0)"],
        "r = nisa.activation(op=nl.exp, data=a, scale=6.0)",
    ),
    (
        "scale-into-activation",
        ["t = nl.multiply(a, c)", "r = nl.exp(t)"],
        "r = nisa.activation(op=nl.exp, data=a, scale=c)",
    ),
    (
        "scale-into-activation",
        ["t = nl.multiply(a, 0.5)", "u = nl.add(t, 2.0)", "r = nl.rsqrt(u)"],
        "r = nisa.activation(op=nl.rsqrt, data=a, bias=bias_column[0:128, 0:1], scale=0.5)",
    ),
    (
        "scale-add",
        ["t = nl.multiply(a, 0.9)", "r = nl.add(t, b)"],
        "r = nisa.scalar_tensor_tensor(data=a, op0=nl.multiply, operand0=0.9, op1=nl.add, "
        "operand1=b)",
    ),
    (
        "scale-add",
        ["t = nl.multiply(a, 0.9)", "r = nl.subtract(b, t)"],
        "r = nisa.scalar_tensor_tensor(data=a, op0=nl.multiply, operand0=0.9, op1=nl.subtract, "
        "operand1=b, reverse1=True)",
    ),
    (
        "scale-add",
        ["t = nl.multiply(a, c)", "t[...] = nl.multiply(t, b)", "r = nl.copy(t)"],
        "t = nisa.scalar_tensor_tensor(data=a, op0=nl.multiply, operand0=c, op1=nl.multiply, "
        "operand1=b)",
    ),
    (
        "chain-tensor-scalar",
        ["t = nl.multiply(a, 0.9)", "r = nl.add(t, 1.0)"],
        "r = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=0.9, op1=nl.add, operand1=1.0)",
    ),
    (
        "chain-tensor-scalar",
        ["t = nl.multiply(a, 2.0)", "u = nl.multiply(t, 4.0)", "r = nl.subtract(1.0, u)"],
        "r = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=8.0, op1=nl.subtract, "
        "operand1=1.0, reverse1=True)",
    ),
    (
        "reduce-fusion",
        ["q = nl.square(a)", "s = nl.sum(q, axis=[1])", "r = nl.multiply(a, s)"],
        "q = nisa.activation_reduce(op=nl.square, data=a, reduce_op=nl.add, "
        "reduce_res=s[0:128, 0:1])",
    ),
    (
        "reduce-fusion",
        ["q = nl.exp(a)", "s = nisa.tensor_reduce(np.add, q, axis=1)", "r = nl.multiply(a, s)"],
        "s = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32, buffer=nl.sbuf)",
    ),
    (
        "drop-copy",
        ["t = nl.exp(a)", "r = nl.copy(t)"],
        "r = nisa.activation(op=nl.exp, data=a)",
    ),
    (
        "reciprocal-to-scalar",
        ["r = nisa.reciprocal(a)"],
        "r = nisa.activation(op=nl.reciprocal, data=a)",
    ),
    (
        "scale-to-scalar",
        ["r = nl.multiply(a, 0.5)"],
        "r = nisa.activation(op=nl.copy, data=a, scale=0.5)",
    ),
    (
        "scale-to-vector",
        ["r = nisa.activation(op=nl.copy, data=a, scale=0.5)"],
        "r = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=0.5, engine=nisa.vector_engine)",
    ),
]

# Each is one step away from a kernel the rewrite applies to.
NEGATIVE = [
    ("sigmoid-chain", changed(SIGMOID, "operand0=1.0", "operand0=2.0")),
    ("sigmoid-chain", changed(SIGMOID, "nl.exp", "nl.tanh")),
    ("sigmoid-chain", changed(SIGMOID, "nl.add", "nl.multiply")),
    ("sigmoid-chain", changed(SIGMOID, "scale=-1.0", "scale=-1.0, bias=c")),
    ("sigmoid-chain", [*SIGMOID[:2], "k = nl.add(p, b)", SIGMOID[2], "r = nl.add(r, k)"]),
    ("sigmoid-chain", changed(SIGMOID, "data=p)", "data=p, mask=i < 2)")),
    ("silu-chain", ["s = nl.sigmoid(a)", "r = nl.multiply(s, b)"]),
    ("silu-chain", ["s = nl.sigmoid(a)", "r = nl.add(s, a)"]),
    ("silu-chain", ["s = nl.sigmoid(a)", "a[...] = nl.add(a, b)", "r = nl.multiply(s, a)"]),
    ("silu-chain", ["s = nisa.activation(op=nl.sigmoid, data=a, scale=2.0)", "r = s * a"]),
    ("self-scale", ["t = nl.multiply(a, 0.25)", "r = nl.subtract(b, t)"]),
    ("self-scale", ["t = nl.add(a, 0.25)", "r = nl.subtract(a, t)"]),
    ("self-scale", ["t = nl.multiply(a, 0.25)", "r = nl.multiply(a, t)"]),
    ("square-activation", ["t = nl.multiply(a, -0.25)", "r = nl.multiply(t, a)"]),
    ("square-activation", ["r = nl.multiply(a, b)"]),
    ("scale-into-activation", ["t = nl.subtract(1.0, a)", "r = nl.exp(t)"]),
    ("scale-into-activation", ["t = nl.add(a, 0.5)", "r = nisa.activation(nl.reciprocal, t)"]),
    ("scale-into-activation", ["t = a * 2.0", "r = nl.exp(t)", "r = nl.add(r, t)"]),
    ("scale-add", ["t = nl.multiply(a, 0.9)", "r = nl.add(t, t)"]),
    ("scale-add", ["t = nl.multiply(a, 0.9)", "r = nl.add(t, b)", "r = nl.add(r, t)"]),
    ("scale-add", ["t = nl.multiply(a, 0.9)", "a[...] = nl.exp(b)", "r = nl.add(t, a)"]),
    ("chain-tensor-scalar", ["t = a * 0.9", "r = nl.add(t, 1.0)", "r = nl.add(r, t)"]),
    (
        "chain-tensor-scalar",
        ["t = nisa.tensor_scalar(a, nl.multiply, 2.0, op1=nl.add, operand1=1.0)", "r = t * 3.0"],
    ),
    ("reduce-fusion", ["q = nl.square(a)", "s = nl.max(q, axis=[1])", "r = nl.multiply(a, s)"]),
    (
        "reduce-fusion",
        ["q = nl.square(a)", "s = nl.sum(q, axis=[1])", "r = nl.multiply(q, s)"],
    ),
    ("drop-copy", ["t = nl.exp(a)", "r = nl.copy(t)", "r = nl.add(r, t)"]),
    ("drop-copy", ["r = nl.copy(a)"]),
    ("reciprocal-to-scalar", ["r = nisa.activation(op=nl.reciprocal, data=a)"]),
    (
        "reciprocal-to-scalar",
        ["t = nl.exp(a)", "s = nl.add(t, 1.0)", "r = nisa.reciprocal(data=s)"],
    ),
    ("scale-to-scalar", ["r = nl.add(a, 0.5)"]),
    ("scale-to-scalar", ["r = nl.multiply(a, c)"]),
    ("scale-to-vector", ["r = nisa.activation(op=nl.exp, data=a, scale=0.5)"]),
]


@pytest.mark.parametrize(("name", "lines", "expected"), POSITIVE)
def test_the_pattern_is_rewritten(applied, name, lines, expected):
    result = applied(name, elementwise(*lines))
    assert result.sites
    assert expected in result.lines


@pytest.mark.parametrize(("name", "lines"), NEGATIVE)
def test_a_near_miss_is_left_alone(applied, name, lines):
    result = applied(name, elementwise(*lines))
    assert not result.sites
    assert not result.changed


@pytest.mark.parametrize("name", sorted({name for name, _, _ in POSITIVE}))
def test_a_kernel_without_the_pattern_is_left_alone(applied, name):
    assert not applied(name, elementwise(PLAIN)).changed


def test_what_is_no_longer_used_disappears_and_the_rest_stays(applied):
    text = elementwise(*SIGMOID).replace(
        "    for i", "    unused = nl.ndarray((128, 4), dtype=nl.float32)\n    # why\n    for i"
    )
    lines = applied("sigmoid-chain", text).lines
    assert not [line for line in lines if line.startswith(("e =", "p ="))]
    assert "unused = nl.ndarray((128, 4), dtype=nl.float32)" in lines
    assert "# why" in lines


def test_a_mask_shared_by_the_chain_is_kept(applied):
    lines = [line.replace(")", ", mask=i < 2)", 1) for line in SIGMOID[:1]]
    lines += [
        "p = nisa.tensor_scalar(data=e, op0=nl.add, operand0=1.0, mask=i < 2)",
        "r = nisa.reciprocal(data=p, mask=i < 2)",
    ]
    result = applied("sigmoid-chain", elementwise(*lines))
    assert "r = nisa.activation(op=nl.sigmoid, data=a, mask=i < 2)" in result.lines


def test_the_bias_column_is_made_once_before_the_loops(applied):
    text = elementwise("t = nl.add(a, 2.0)", "r = nl.rsqrt(t)")
    lines = applied("scale-into-activation", text).lines
    column = "bias_column = nisa.memset(shape=(128, 1), value=2.0, dtype=nl.float32)"
    assert lines.index(column) < lines.index("for i in nl.affine_range(4):")


def test_named_sizes_keep_their_names(applied):
    text = elementwise("t = a / K", "r = nl.sqrt(t)").replace(
        "    out =", "    K = x.shape[1]\n    out ="
    )
    lines = applied("scale-into-activation", text).lines
    assert "r = nisa.activation(op=nl.sqrt, data=a, scale=1.0 / K)" in lines


def test_isa_is_imported_where_it_was_not(applied):
    text = elementwise("s = nl.sigmoid(a)", "r = nl.multiply(s, a)").replace(
        "import neuronxcc.nki.isa as nisa\n", ""
    )
    assert "import neuronxcc.nki.isa as nisa" in applied("silu-chain", text).lines


def test_other_names_for_the_modules_are_used(applied):
    text = elementwise("s = nl.sigmoid(a)", "r = nl.multiply(s, a)")
    text = text.replace("nisa", "isa").replace("nl.", "lang.").replace(" as nl", " as lang")
    result = applied("silu-chain", text)
    assert "r = isa.activation(op=lang.silu, data=a)" in result.lines


def test_a_buffer_indexed_by_the_loops_is_followed_by_its_subscripts(applied):
    at = "i, nl.arange(128)[:, None], nl.arange(512)[None, :]"
    text = elementwise(f"t[{at}] = nl.sigmoid(a)", f"r = nl.multiply(t[{at}], a)").replace(
        "    for i",
        "    t = nl.ndarray((4, nl.par_dim(128), 512), nl.float32, buffer=nl.sbuf)\n    for i",
    )
    assert "r = nisa.activation(op=nl.silu, data=a)" in applied("silu-chain", text).lines
    other = text.replace("nl.multiply(t[i,", "nl.multiply(t[0,")
    assert not applied("silu-chain", other).changed


CHAIN = ["s = nl.sigmoid(a)", "r = nl.multiply(s, a)"]


@pytest.mark.parametrize(
    "reader",
    [
        "u: object = nl.exp(s)",
        "u = w = nl.exp(s)",
        "u, w = nl.exp(s), 1",
        "assert s.shape[0] == 128",
        "helper(s)",
        "u = [nl.exp(s) for _ in (0,)]",
        "if s is None: pass",
        "def inner(): return s",
        "u = nl.load(x[s, 0:1])",
    ],
)
def test_any_other_reader_of_the_result_keeps_it(applied, reader):
    assert applied("silu-chain", elementwise(*CHAIN)).changed
    assert not applied("silu-chain", elementwise(CHAIN[0], reader, CHAIN[1])).changed
    assert not applied("silu-chain", elementwise(*CHAIN, reader)).changed


@pytest.mark.parametrize(
    "writer",
    [
        "helper(a)",
        "nisa.tensor_copy_dynamic_dst(dst=a[0:128, 0:512], src=b)",
        "a[0:128, 0:1] = nl.copy(c)",
        "a += b",
        "a, k = nl.exp(b), 1",
        "q = nisa.activation_reduce(op=nl.exp, data=b, reduce_op=nl.add, reduce_res=a[:, 0:1])",
    ],
)
def test_any_writer_of_the_input_in_between_keeps_the_statements_apart(applied, writer):
    assert not applied("silu-chain", elementwise(CHAIN[0], writer, CHAIN[1])).changed


def test_a_producer_in_another_block_is_not_folded(applied):
    text = elementwise("if i < 2:", "    s = nl.sigmoid(a)", "r = nl.multiply(s, a)")
    assert not applied("silu-chain", text).changed


def test_a_name_for_tiles_of_two_shapes_is_not_trusted(applied):
    lines = ["t = nl.exp(a)", "t = nl.sum(t, axis=[1])", "u = nl.multiply(t, 0.9)", "r = u + b"]
    assert not applied("scale-add", elementwise(*lines)).changed


def test_the_wider_dtype_of_a_folded_step_is_kept(applied):
    lines = ["t = nl.multiply(a, 0.9, dtype=nl.float32)", "r = nl.add(t, 1.0)"]
    result = applied("chain-tensor-scalar", elementwise(*lines))
    assert [line for line in result.lines if line.endswith("dtype=nl.float32)")]


def test_the_entry_must_be_a_plain_function(applied):
    text = elementwise(*CHAIN).replace("@nki.jit\n", "") + "\nfast = nki.jit(kernel)\n"
    with pytest.raises(TaskError, match="not a plain function"):
        applied("silu-chain", text)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("sigmoid-chain", [*SIGMOID[:2], "a[...] = nl.exp(b)", SIGMOID[2]]),
        (
            "scale-into-activation",
            ["t = a * 2.0", "u = nl.add(t, 1.0)", "a[...] = nl.exp(b)", "r = nl.exp(u)"],
        ),
    ],
)
def test_a_long_chain_does_not_move_past_a_change_of_its_input(applied, name, lines):
    moved = [line for line in lines if "a[...]" not in line]
    assert "data=a" in applied(name, elementwise(*moved)).lines[-3]
    assert "data=a" not in applied(name, elementwise(*lines)).lines[-3]


def test_a_sum_does_not_move_past_a_reader_of_its_old_value(applied):
    lines = [
        "s = nl.max(b, axis=[1])",
        "q = nl.square(a)",
        "v = nl.exp(s)",
        "s = nl.sum(q, axis=[1])",
        "r = nl.multiply(a, s)",
    ]
    assert not applied("reduce-fusion", elementwise(*lines)).changed
    del lines[2]
    assert applied("reduce-fusion", elementwise(*lines)).changed
