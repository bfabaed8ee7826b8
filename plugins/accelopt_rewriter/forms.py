"""Normal forms of element-wise statements: many spellings, one meaning.

`nl.multiply(a, 2)`, `a * 2` and `nisa.tensor_scalar(a, op0=np.multiply, operand0=2)` are all one
`Scalar`. `reading.form_of` reads them, rewrites match and build them, `emit` writes them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.parts import Op, Ref


@dataclass(frozen=True)
class Const:
    """A scalar known before the kernel runs; `value` is None when only its name is known."""

    text: str
    value: float | None
    literal: bool = True

    def times(self, other: Const) -> Const:
        """The product."""
        if self.value == 1.0:
            return other
        if other.value == 1.0:
            return self
        return self._combined(other, "*")

    def plus(self, other: Const) -> Const:
        """The sum."""
        return self._combined(other, "+")

    def _combined(self, other: Const, sign: str) -> Const:
        value = None
        if self.value is not None and other.value is not None:
            value = self.value * other.value if sign == "*" else self.value + other.value
        if self.literal and other.literal and value is not None:
            return number(value)
        # Named sizes and arguments keep their names, so that the kernel stays general.
        return Const(f"({self.text}) {sign} ({other.text})", value, literal=False)


def number(value: float) -> Const:
    """A literal."""
    return Const(repr(float(value)), float(value))


ONE = number(1.0)


@dataclass(frozen=True)
class Step:
    """One `tile op operand`, or `operand op tile` when reversed."""

    op: str
    operand: Const | Ref
    reverse: bool = False


@dataclass(frozen=True)
class Activation:
    """`fn(x * scale + bias)` on the Scalar engine."""

    fn: str
    x: Ref
    scale: Const | Ref = ONE
    bias: Ref | str | None = None


@dataclass(frozen=True)
class Scalar:
    """One or two steps with scalars or per-partition columns."""

    x: Ref
    steps: tuple[Step, ...]
    engine: str = ""


@dataclass(frozen=True)
class Binary:
    """`a op b`, both tiles of the same shape."""

    op: str
    a: Ref
    b: Ref


@dataclass(frozen=True)
class ScalarBinary:
    """`(x step) op y`, or `y op (x step)` when reversed."""

    x: Ref
    step: Step
    op: str
    y: Ref
    reverse: bool = False


@dataclass(frozen=True)
class Reciprocal:
    """1 / x on the Vector engine."""

    x: Ref


@dataclass(frozen=True)
class Copy:
    """A copy from one tile to another."""

    x: Ref


@dataclass(frozen=True)
class Reduce:
    """A reduction over the free axis to one column."""

    op: str
    x: Ref


Form = Activation | Scalar | Binary | ScalarBinary | Reciprocal | Copy | Reduce


def emit(kernel: Kernel, form: Form, like: Op, folded: Op | None = None) -> str:
    """Source of a form, under the mask and with the dtype of the statement it replaces.

    Args:
        kernel: whose statement is replaced.
        form: what to compute.
        like: the statement.
        folded: the statement folded into it; its dtype counts where `like` leaves it to the input.
    """
    nl, nisa = kernel.names.nl, kernel.names.nisa
    tail = ""
    for name in ("mask", "dtype"):
        node = kernel.names.keyword(like.call, name)
        if node is None and folded is not None and name == "dtype":
            node = kernel.names.keyword(folded.call, name)
        if node is not None:
            tail += f", {name}={ast.unparse(node)}"
    match form:
        case Activation(fn=fn, x=x, scale=scale, bias=bias):
            text = f"{nisa}.activation(op={nl}.{fn}, data={x.text}"
            if bias is not None:
                text += f", bias={bias if isinstance(bias, str) else bias.text}"
            if scale != ONE:
                text += f", scale={scale.text}"
            return f"{text}{tail})"
        case Scalar(x=x, steps=steps, engine=engine):
            text = f"{nisa}.tensor_scalar(data={x.text}"
            for position, step in enumerate(steps):
                text += f", op{position}={nl}.{step.op}, operand{position}={step.operand.text}"
                text += f", reverse{position}=True" if step.reverse else ""
            if engine:
                tail += f", engine={nisa}.{engine}"
            return f"{text}{tail})"
        case Binary(op=op, a=a, b=b):
            return f"{nisa}.tensor_tensor(data1={a.text}, data2={b.text}, op={nl}.{op}{tail})"
        case ScalarBinary(x=x, step=step, op=op, y=y, reverse=reverse):
            text = f"{nisa}.scalar_tensor_tensor(data={x.text}, op0={nl}.{step.op}"
            text += f", operand0={step.operand.text}, op1={nl}.{op}, operand1={y.text}"
            text += ", reverse0=True" if step.reverse else ""
            text += ", reverse1=True" if reverse else ""
            return f"{text}{tail})"
        case Reciprocal(x=x):
            return f"{nisa}.reciprocal(data={x.text}{tail})"
        case Copy(x=x):
            return f"{nl}.copy({x.text}{tail})"
        case Reduce(op=op, x=x):
            return f"{nisa}.tensor_reduce(op={nl}.{op}, data={x.text}, axis=[1]{tail})"
