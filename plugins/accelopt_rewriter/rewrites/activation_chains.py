"""Chains of simple operations that are one activation function."""

from __future__ import annotations

from math import sqrt

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.edit import Edits
from accelopt_rewriter.flow import producer_of, target_text
from accelopt_rewriter.forms import (
    ONE,
    Activation,
    Binary,
    Const,
    Form,
    Reciprocal,
    Scalar,
    emit,
    number,
)
from accelopt_rewriter.parts import Op, Ref
from accelopt_rewriter.reading import form_of
from accelopt_rewriter.rewrite import Rewrite, Site


def fold(kernel: Kernel, consumer: Op, producers: list[Op], form: Form, what: str) -> Site:
    """A site that computes `form` in the consumer's place and drops the producers."""
    edits = Edits()
    edits.delete(*(producer.line for producer in producers))
    first = producers[0] if producers else None
    target = target_text(consumer, first)
    edits.replace[consumer.line] = [f"{target} = {emit(kernel, form, consumer, first)}"]
    return Site(consumer.line, what, edits)


class SigmoidChain(Rewrite):
    """exp(-x), + 1, 1/x -> sigmoid(x)."""

    name = "sigmoid-chain"
    title = "replace exp, add 1 and reciprocal by one sigmoid activation"
    why = "three passes over the tile, two of them on the Vector engine, become one on the Scalar"
    relieves = frozenset({"vector", "scalar"})
    priority = 10

    def sites(self, kernel: Kernel) -> list[Site]:
        """Reciprocals of 1 + exp(-s * x)."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            inverse = isinstance(form, Reciprocal) or (
                isinstance(form, Activation)
                and form.fn == "reciprocal"
                and form.scale == ONE
                and form.bias is None
            )
            if not inverse or not isinstance(form, Reciprocal | Activation):
                continue
            plus = producer_of(kernel, form.x, op)
            added = form_of(kernel, plus) if plus is not None else None
            if plus is None or not isinstance(added, Scalar) or not _adds_one(added):
                continue
            exp = producer_of(kernel, added.x, plus, until=op)
            power = form_of(kernel, exp) if exp is not None else None
            if exp is None or not isinstance(power, Activation) or power.fn != "exp":
                continue
            if power.bias is not None or not isinstance(power.scale, Const):
                continue
            if power.scale.value is None:
                continue
            scale = number(-power.scale.value)
            sigmoid = Activation("sigmoid", power.x, ONE if scale.value == 1.0 else scale)
            found.append(fold(kernel, op, [plus, exp], sigmoid, "1 / (1 + exp(-x)) is sigmoid(x)"))
        return found


def _adds_one(form: Scalar) -> bool:
    if len(form.steps) != 1:
        return False
    step = form.steps[0]
    return step.op == "add" and isinstance(step.operand, Const) and step.operand.value == 1.0


class SiluChain(Rewrite):
    """x * sigmoid(x) -> silu(x)."""

    name = "silu-chain"
    title = "replace x * sigmoid(x) by one silu activation"
    why = "the product leaves the Vector engine, and one tile less is written and read"
    relieves = frozenset({"vector"})
    priority = 11

    def sites(self, kernel: Kernel) -> list[Site]:
        """Products of a tile and its own sigmoid."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Binary) or form.op != "multiply":
                continue
            for x, gate in ((form.a, form.b), (form.b, form.a)):
                producer = producer_of(kernel, gate, op)
                inner = form_of(kernel, producer) if producer is not None else None
                if producer is None or not isinstance(inner, Activation):
                    continue
                plain = inner.scale == ONE and inner.bias is None
                if inner.fn == "sigmoid" and plain and inner.x.key == x.key:
                    silu = Activation("silu", x)
                    found.append(fold(kernel, op, [producer], silu, "x * sigmoid(x) is silu(x)"))
                    break
        return found


class SquareActivation(Rewrite):
    """x * x -> square(x); c * x * x -> square(sqrt(c) * x)."""

    name = "square-activation"
    title = "compute a (scaled) square with one activation"
    why = "the product of a tile with itself leaves the Vector engine; a scale costs nothing there"
    relieves = frozenset({"vector"})
    priority = 14

    def sites(self, kernel: Kernel) -> list[Site]:
        """Products of a tile with itself, scaled or not."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Binary) or form.op != "multiply":
                continue
            if form.a.key == form.b.key:
                found.append(fold(kernel, op, [], Activation("square", form.a), "x * x"))
                continue
            for x, scaled in ((form.a, form.b), (form.b, form.a)):
                made = self._scaled(kernel, op, x, scaled)
                if made is not None:
                    found.append(made)
                    break
        return found

    def _scaled(self, kernel: Kernel, op: Op, x: Ref, scaled: Ref) -> Site | None:
        producer = producer_of(kernel, scaled, op)
        inner = form_of(kernel, producer) if producer is not None else None
        if producer is None or not isinstance(inner, Scalar) or len(inner.steps) != 1:
            return None
        step = inner.steps[0]
        if step.op != "multiply" or not isinstance(step.operand, Const):
            return None
        factor = step.operand.value
        if factor is None or factor <= 0 or inner.x.key != x.key:
            return None
        form = Activation("square", x, number(sqrt(factor)))
        return fold(kernel, op, [producer], form, f"{factor:g} * x * x is (sqrt({factor:g}) * x)^2")


class AffineIntoActivation(Rewrite):
    """Scales and offsets in front of an activation move into its scale and bias."""

    name = "scale-into-activation"
    title = "fold a scale, an offset or a division into the activation that follows"
    why = "the Scalar engine applies scale and bias for free; short dependent steps disappear"
    relieves = frozenset({"vector", "scalar", "latency"})
    priority = 15

    def sites(self, kernel: Kernel) -> list[Site]:
        """Activations whose input is scaled, shifted, or both, by constants."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if isinstance(form, Activation) and isinstance(form.scale, Const):
                made = self._site(kernel, op, form)
                if made is not None:
                    found.append(made)
        return found

    def _site(self, kernel: Kernel, op: Op, form: Activation) -> Site | None:
        producers: list[Op] = []
        assert isinstance(form.scale, Const)  # noqa: S101 - checked by the caller
        scale, offset, base, reader = form.scale, None, form.x, op
        column = None
        while True:
            producer = producer_of(kernel, base, reader, until=op)
            inner = form_of(kernel, producer) if producer is not None else None
            if producer is None or not isinstance(inner, Scalar):
                break
            steps = list(reversed(inner.steps))
            if any(s.op == "subtract" or not isinstance(s.operand, Const) for s in steps):
                only = inner.steps[0]
                if len(steps) == 1 and only.op == "multiply" and scale == ONE and offset is None:
                    column, base = only.operand, inner.x
                    producers.append(producer)
                break
            if form.fn == "reciprocal" and any(s.op == "add" for s in steps):
                break  # this function takes no bias
            if form.bias is not None and any(s.op == "add" for s in steps):
                break
            for step in steps:
                assert isinstance(step.operand, Const)  # noqa: S101 - checked above
                if step.op == "multiply":
                    scale = scale.times(step.operand)
                else:
                    shift = step.operand.times(scale)
                    offset = shift if offset is None else offset.plus(shift)
            producers.append(producer)
            base, reader = inner.x, producer
        if not producers or base.shape is None:
            return None
        edits = Edits()
        bias: Ref | str | None = form.bias
        if offset is not None:
            line = op.loops[0].line if op.loops else producers[-1].line
            name = kernel.fresh("bias_column")
            rows, nl = base.shape[0], kernel.names.nl
            edits.insert(
                line,
                f"{name} = {kernel.names.nisa}.memset(shape=({rows}, 1), value={offset.text}, "
                f"dtype={nl}.float32)",
            )
            bias = f"{name}[0:{rows}, 0:1]"
        folded = Activation(form.fn, base, column if isinstance(column, Ref) else scale, bias)
        site = fold(kernel, op, producers, folded, f"scale and offset of {form.fn}")
        site.edits.before.update(edits.before)
        return site
