"""Attributes that loosen a rule or make something free must tell the truth.

A front end sets them, and it shares a process with the candidate: a forged one must not pay.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import AccessOperand, Context
from accelopt_simulator.trace.schema import Space, TensorRole


def check_attributes(context: Context) -> Iterator[Diagnostic]:
    """`accumulate` is a read-modify-write; `in_place_argument` is a parameter becoming a result."""
    for instruction in range(context.trace.num_instructions):
        attrs = context.trace.attr(instruction)
        if "accumulate" in attrs and not _accumulates(context, instruction):
            yield context.finding(
                instruction,
                "forged_attribute",
                f"{context.op(instruction)} is marked as an accumulation and is none",
            )
        if "in_place_argument" in attrs and not _in_place(context, instruction):
            yield context.finding(
                instruction,
                "forged_attribute",
                f"{context.op(instruction)} is marked as a parameter and is none",
            )


def _accumulates(context: Context, instruction: int) -> bool:
    trace, op = context.trace, context.op(instruction)
    operands = {o.role: o for o in context.accesses(instruction)}
    if trace.attr(instruction)["accumulate"] is not True:
        return False
    if op == "nc_matmul":
        return operands["dst"].space is Space.PSUM
    if op == "tensor_copy":
        # The first store of a loop reduction; the accumulation proper stands right behind it.
        after = instruction + 1
        if trace.attr(instruction).get("loop_reduce") is not True:
            return False
        if after >= trace.num_instructions or trace.attr(after).get("loop_reduce") is not True:
            return trace.ins_pred[instruction] < 0 or after >= trace.num_instructions
        target = next(o for o in context.accesses(after) if o.role == "dst")
        return target.access == operands["dst"].access and trace.ins_pred[instruction] >= 0
    sources = [o for role, o in operands.items() if role in ("data", "data1", "data2")]
    return any(_same_place(context, source, operands["dst"]) for source in sources)


def _same_place(context: Context, a: AccessOperand, b: AccessOperand) -> bool:
    trace = context.trace
    same = trace.access_exprs(a.access) == trace.access_exprs(b.access)
    return a.tensor == b.tensor and a.grid == b.grid and same


def _in_place(context: Context, instruction: int) -> bool:
    trace, analysis = context.trace, context.analysis
    operands = {o.role: o for o in context.accesses(instruction)}
    if context.op(instruction) != "dma_copy" or trace.ins_pred[instruction] >= 0:
        return False
    if analysis.innermost[instruction] >= 0:
        return False
    source, target = operands["src"], operands["dst"]
    roles = (trace.tensor_role[source.tensor], trace.tensor_role[target.tensor])
    shape = trace.shape(source.tensor)
    grid = shape if len(shape) >= 2 else (*shape, 1)
    whole = source.grid == target.grid == grid and trace.shape(target.tensor) == shape
    straight = trace.access_exprs(source.access) == trace.access_exprs(target.access)
    plain = all(
        analysis.affine(expr).const == 0 and analysis.affine(expr).axes == ((dim, 1),)
        for dim, expr in enumerate(trace.access_exprs(source.access))
        if shape[dim] > 1
    )
    return roles == (TensorRole.INPUT, TensorRole.OUTPUT) and whole and straight and plain
