"""Reads statements into normal forms."""

from __future__ import annotations

import ast

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.forms import (
    ONE,
    Activation,
    Binary,
    Const,
    Copy,
    Form,
    Reciprocal,
    Reduce,
    Scalar,
    Step,
    number,
)
from accelopt_rewriter.parts import Op, Ref
from accelopt_rewriter.static import evaluate

_ARITHMETIC = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
_BINARY = frozenset({"add", "subtract", "multiply", "divide"})
_FUNCTIONS = frozenset(
    {"exp", "sigmoid", "silu", "sqrt", "rsqrt", "square", "tanh", "relu", "gelu", "log", "copy"}
    | {"reciprocal"}
)


def constant(kernel: Kernel, node: ast.expr | None) -> Const | None:
    """A scalar operand, or None when `node` is a tensor or unknown."""
    if node is None or any(True for _ in kernel.refs(node)):
        return None
    value = evaluate(node, kernel.env)
    if isinstance(value, int | float):
        named = any(isinstance(n, ast.Name) and (n.id in kernel.env) for n in ast.walk(node))
        return Const(ast.unparse(node), float(value), literal=not named)
    return None


def form_of(kernel: Kernel, op: Op) -> Form | None:
    """The normal form of an assignment, or None when it has none."""
    if op.order not in kernel.forms:
        kernel.forms[op.order] = _read(kernel, op)
    form: Form | None = kernel.forms[op.order]
    return form


def _read(kernel: Kernel, op: Op) -> Form | None:
    if op.target is None or op.augmented or op.value is None:
        return None
    if isinstance(op.value, ast.BinOp):
        name = _ARITHMETIC.get(type(op.value.op), "")
        return _two_operands(kernel, name, op.value.left, op.value.right)
    call = op.call
    if call is None:
        return None
    names = kernel.names
    callee = names.callee(call)

    def ref(name: str) -> Ref | None:
        node = names.argument(call, name)
        return None if node is None else kernel.ref(node)

    module, _, function = callee.partition(".")
    if callee == "nisa.activation":
        return _activation(kernel, call)
    if callee == "nisa.tensor_scalar":
        return _tensor_scalar(kernel, call)
    if callee == "nisa.tensor_tensor":
        a, b = ref("data1"), ref("data2")
        return _same_shape(names.token(names.argument(call, "op")), a, b)
    if callee == "nisa.reciprocal":
        x = ref("data")
        return None if x is None else Reciprocal(x)
    if callee in ("nl.copy", "nisa.tensor_copy"):
        x = ref("src")
        return None if x is None else Copy(x)
    if callee in ("nl.sum", "nisa.tensor_reduce"):
        return _reduce(kernel, call, callee)
    if module == "nl" and function in _BINARY:
        left, right = names.argument(call, "x"), names.argument(call, "y")
        return _two_operands(kernel, function, left, right) if left and right else None
    if module == "nl" and function in _FUNCTIONS:
        x = ref("x")
        return None if x is None else Activation(function, x)
    return None


def _activation(kernel: Kernel, call: ast.Call) -> Activation | None:
    names = kernel.names
    if any(names.keyword(call, k) is not None for k in ("reduce_op", "reduce_res", "reduce_cmd")):
        return None
    data = names.argument(call, "data")
    x = None if data is None else kernel.ref(data)
    fn = names.token(names.argument(call, "op"))
    scale: Const | Ref | None = ONE
    given = names.keyword(call, "scale")
    if given is not None:
        scale = constant(kernel, given) or kernel.ref(given)
    bias: Ref | None = None
    column = names.keyword(call, "bias")
    if column is not None and not (isinstance(column, ast.Constant) and column.value is None):
        bias = kernel.ref(column)
        if bias is None:
            return None
        if is_zero(kernel, bias):
            bias = None
    return None if x is None or scale is None or not fn else Activation(fn, x, scale, bias)


def is_zero(kernel: Kernel, ref: Ref) -> bool:
    """Whether a tensor is filled with zero once and never changed."""
    writers = kernel.writers.get(ref.name, [])
    declared = kernel.buffers.get(ref.name)
    if not writers:
        return (
            declared is not None
            and declared.op.call is not None
            and (kernel.names.callee(declared.op.call) == "nl.zeros")
        )
    if len(writers) != 1 or writers[0].call is None or writers[0].augmented:
        return False
    call = writers[0].call
    if kernel.names.callee(call) != "nisa.memset" or kernel.mask_of(writers[0]) is not None:
        return False
    value = constant(kernel, kernel.names.argument(call, "value"))
    return value is not None and value.value == 0.0


def _tensor_scalar(kernel: Kernel, call: ast.Call) -> Scalar | None:
    names = kernel.names
    data = names.argument(call, "data")
    x = None if data is None else kernel.ref(data)
    if x is None:
        return None
    steps = []
    for position in ("0", "1"):
        op = names.token(names.argument(call, f"op{position}"))
        if not op:
            break
        node = names.argument(call, f"operand{position}")
        operand: Const | Ref | None = constant(kernel, node)
        if operand is None and node is not None:
            operand = kernel.ref(node)
        if operand is None or op not in _BINARY - {"divide"}:
            return None
        reverse = names.argument(call, f"reverse{position}")
        flag = isinstance(reverse, ast.Constant) and bool(reverse.value)
        steps.append(Step(op, operand, flag and op == "subtract"))
    engine = names.keyword(call, "engine")
    hint = "" if engine is None else ast.unparse(engine).split(".")[-1]
    return Scalar(x, tuple(steps), hint) if steps else None


def _reduce(kernel: Kernel, call: ast.Call, callee: str) -> Reduce | None:
    names = kernel.names
    data = names.argument(call, "x" if callee == "nl.sum" else "data")
    axis = names.argument(call, "axis")
    x = None if data is None else kernel.ref(data)
    if x is None or axis is None or x.shape is None or len(x.shape) != 2:
        return None
    if evaluate(axis, kernel.env) not in (1, (1,)):
        return None
    negate = names.keyword(call, "negate")
    if negate is not None and not (isinstance(negate, ast.Constant) and not negate.value):
        return None
    token = "add" if callee == "nl.sum" else names.token(names.argument(call, "op"))
    return Reduce("add" if token == "sum" else token, x)


def _two_operands(kernel: Kernel, op: str, left: ast.expr, right: ast.expr) -> Form | None:
    if op not in _BINARY:
        return None
    a, b = kernel.ref(left), kernel.ref(right)
    if a is not None and b is not None:
        if a.is_column and not b.is_column and b.shape is not None and op != "divide":
            return _with_column(op, b, a, reverse=op == "subtract")
        if b.is_column and not a.is_column and a.shape is not None and op != "divide":
            return _with_column(op, a, b, reverse=False)
        return _same_shape(op, a, b)
    if a is not None:
        operand = constant(kernel, right)
        if operand is None:
            return None
        if op == "divide":
            value = None if not operand.value else 1.0 / operand.value
            if value is None:
                return None
            literal = number(value)
            inverse = (
                literal
                if operand.literal
                else Const(
                    f"1.0 / {operand.text}"
                    if operand.text.isidentifier()
                    else f"1.0 / ({operand.text})",
                    value,
                    literal=False,
                )
            )
            return Scalar(a, (Step("multiply", inverse),))
        return Scalar(a, (Step(op, operand),))
    if b is not None and op != "divide":
        operand = constant(kernel, left)
        if operand is not None:
            return Scalar(b, (Step(op, operand, reverse=op == "subtract"),))
    return None


def _with_column(op: str, tile: Ref, column: Ref, *, reverse: bool) -> Scalar | None:
    if tile.shape is None or column.shape is None or tile.shape[0] != column.shape[0]:
        return None
    return Scalar(tile, (Step(op, column, reverse),))


def _same_shape(op: str, a: Ref | None, b: Ref | None) -> Binary | None:
    if a is None or b is None or a.shape is None or a.shape != b.shape or op not in _BINARY:
        return None
    return None if op == "divide" else Binary(op, a, b)
