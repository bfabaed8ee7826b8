"""Fusion of operations with constants and columns into the instruction that follows."""

from __future__ import annotations

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.edit import Edits
from accelopt_rewriter.flow import is_touched_between, producer_of, target_text
from accelopt_rewriter.forms import (
    Activation,
    Binary,
    Const,
    Reduce,
    Scalar,
    ScalarBinary,
    Step,
    emit,
    number,
)
from accelopt_rewriter.parts import Op, Ref
from accelopt_rewriter.reading import form_of
from accelopt_rewriter.rewrite import Rewrite, Site
from accelopt_rewriter.rewrites.activation_chains import fold


def one_step(kernel: Kernel, ref: Ref, consumer: Op, uses: int = 1) -> tuple[Op, Scalar] | None:
    """The foldable producer of `ref` when it is a single step with a constant or a column."""
    producer = producer_of(kernel, ref, consumer, uses=uses)
    form = form_of(kernel, producer) if producer is not None else None
    if producer is None or not isinstance(form, Scalar) or len(form.steps) != 1:
        return None
    return producer, form


class SelfScale(Rewrite):
    """x - c * x -> (1 - c) * x, and the same for sums."""

    name = "self-scale"
    title = "combine a tile with its own multiple in one multiplication"
    why = "one pass with one operand instead of two passes, one of them with two operands"
    relieves = frozenset({"vector", "scalar"})
    priority = 12

    def sites(self, kernel: Kernel) -> list[Site]:
        """Sums and differences of x and c * x."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Binary) or form.op not in ("add", "subtract"):
                continue
            for x, scaled, swapped in ((form.a, form.b, False), (form.b, form.a, True)):
                match = one_step(kernel, scaled, op)
                if match is None or match[1].x.key != x.key:
                    continue
                producer, inner = match
                step = inner.steps[0]
                if step.op != "multiply" or not isinstance(step.operand, Const):
                    continue
                c = step.operand.value
                if c is None:
                    continue
                factor = 1 + c if form.op == "add" else (c - 1 if swapped else 1 - c)
                made = Scalar(x, (Step("multiply", number(factor)),))
                found.append(fold(kernel, op, [producer], made, f"one factor {factor!r}"))
                break
        return found


class ScaleAdd(Rewrite):
    """(x op0 constant) op1 y -> scalar_tensor_tensor."""

    name = "scale-add"
    title = "fuse a scaling into the tensor operation that follows (scalar_tensor_tensor)"
    why = "the tensor operation costs the same with a scaling in front; the extra pass disappears"
    relieves = frozenset({"vector", "scalar"})
    priority = 16

    def sites(self, kernel: Kernel) -> list[Site]:
        """Tensor operations one of whose operands was just scaled or shifted."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Binary):
                continue
            for scaled, other, second in ((form.a, form.b, False), (form.b, form.a, True)):
                match = one_step(kernel, scaled, op)
                if match is None or other.name == scaled.name:
                    continue
                producer, inner = match
                psum = [kernel.memory_of(r.name) == "psum" for r in (inner.x, other)]
                if all(psum) or len(inner.x.shape or ()) != 2:
                    continue
                reverse = second and form.op == "subtract"
                made = ScalarBinary(inner.x, inner.steps[0], form.op, other, reverse)
                found.append(fold(kernel, op, [producer], made, f"line {producer.line} moves in"))
                break
        return found


class ChainTensorScalar(Rewrite):
    """Two operations with constants or columns in a row -> one tensor_scalar."""

    name = "chain-tensor-scalar"
    title = "fuse two operations with constants into one tensor_scalar"
    why = "an instruction with two operators costs the same as with one"
    relieves = frozenset({"vector", "scalar", "latency"})
    priority = 17

    def sites(self, kernel: Kernel) -> list[Site]:
        """Steps whose input is another step."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Scalar):
                continue
            producer = producer_of(kernel, form.x, op)
            inner = form_of(kernel, producer) if producer is not None else None
            if producer is None or not isinstance(inner, Scalar):
                continue
            steps = _merged((*inner.steps, *form.steps))
            operands = {s.operand.name for s in form.steps if isinstance(s.operand, Ref)}
            if len(steps) > 2 or form.x.name in operands:
                continue
            made = Scalar(inner.x, steps, form.engine)
            found.append(fold(kernel, op, [producer], made, f"with line {producer.line}"))
        return found


def _merged(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Neighbouring multiplications (or additions) by constants become one."""
    merged: list[Step] = []
    for step in steps:
        last = merged[-1] if merged else None
        if last is not None and last.op == step.op and step.op in ("multiply", "add"):
            a, b = last.operand, step.operand
            if isinstance(a, Const) and isinstance(b, Const):
                merged[-1] = Step(step.op, a.times(b) if step.op == "multiply" else a.plus(b))
                continue
        merged.append(step)
    return tuple(merged)


class ReduceFusion(Rewrite):
    """An activation and the sum over its result -> activation_reduce."""

    name = "reduce-fusion"
    title = "sum the result of an activation while it is computed (activation_reduce)"
    why = "the separate reduction pass on the Vector engine disappears"
    relieves = frozenset({"vector", "latency"})
    priority = 13

    def sites(self, kernel: Kernel) -> list[Site]:
        """Sums over the free axis of a tile that an activation has just computed."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Reduce) or form.op != "add" or op.target is None:
                continue
            producer = producer_of(kernel, form.x, op)
            inner = form_of(kernel, producer) if producer is not None else None
            if producer is None or producer.target is None or form.x.shape is None:
                continue
            if not isinstance(inner, Activation):
                continue
            if is_touched_between(kernel, op.target.name, producer, op):
                continue
            nl, rows = kernel.names.nl, form.x.shape[0]
            edits = Edits()
            result = op.target.text
            if op.binds:
                edits.insert(
                    producer.line,
                    f"{op.binds} = {nl}.ndarray(({nl}.par_dim({rows}), 1), dtype={nl}.float32, "
                    f"buffer={nl}.sbuf)",
                )
                result = f"{op.binds}[0:{rows}, 0:1]"
            call = emit(kernel, inner, producer).replace(".activation(", ".activation_reduce(", 1)
            call = f"{call[:-1]}, reduce_op={nl}.add, reduce_res={result})"
            edits.replace[producer.line] = [f"{target_text(producer)} = {call}"]
            edits.delete(op.line)
            found.append(Site(op.line, f"the sum joins line {producer.line}", edits))
        return found
