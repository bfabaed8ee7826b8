"""Iterations of an affine loop write different places; every result is written."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import Context, writes
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.folding import uses_by_storage
from accelopt_simulator.trace.schema import LoopKind, TensorRole


def check_output_dependencies(context: Context) -> Iterator[Diagnostic]:
    """`err_unexpected_output_dependencies`: a write in an affine loop that ignores its index."""
    trace, analysis = context.trace, context.analysis
    for instruction in range(trace.num_instructions):
        if trace.attr(instruction).get("accumulate") is True:
            continue
        chain = analysis.loops_of(instruction)
        for operand in context.accesses(instruction):
            if not writes(context.spec(instruction), operand.role):
                continue
            scope = int(trace.tensor_scope[operand.tensor])
            inner = chain[chain.index(scope) + 1 :] if scope in chain else chain
            used = {
                loop
                for expr in trace.access_exprs(operand.access)
                for loop in analysis.loops_in(expr)
            }
            missing = [
                loop
                for loop in inner
                if trace.loop_kind[loop] == LoopKind.AFFINE
                and loop not in used
                and analysis.max_trips(loop) > 1
            ]
            if missing and not _only_constant(context, instruction, operand.tensor, missing):
                lines = ", ".join(
                    str(int(trace.loop_line[loop]) or "of the grid") for loop in missing
                )
                yield context.finding(
                    instruction,
                    "err_unexpected_output_dependencies",
                    f"missing indices in the dst access: the affine loop(s) in line {lines}",
                    hint="index the destination with every enclosing affine index, declare it "
                    "inside the loop, or use nl.sequential_range",
                )


def _only_constant(context: Context, instruction: int, tensor: int, loops: list[int]) -> bool:
    """Whether a memset is the only write of its tensor in `loops`: then the order is no matter."""
    if context.op(instruction) != "memset":
        return False
    first = min(int(context.trace.loop_first[loop]) for loop in loops)
    last = max(int(context.trace.loop_last[loop]) for loop in loops)
    uses = uses_by_storage(context.analysis)[context.analysis.storage(tensor)]
    return not any(
        use.write and use.instruction != instruction and first <= use.instruction < last
        for use in uses
    )


def check_outputs_written(context: Context) -> Iterator[Diagnostic]:
    """`err_tensor_output_not_written_to`."""
    trace, analysis = context.trace, context.analysis
    outputs = {
        tensor
        for tensor in range(trace.num_tensors)
        if trace.tensor_role[tensor] == TensorRole.OUTPUT
    }
    if not outputs:
        yield Diagnostic(
            rule="err_tensor_output_not_written_to",
            message="the kernel has no output",
            hint="return a shared_hbm tensor",
        )
    written = {
        analysis.storage(operand.tensor)
        for instruction in range(trace.num_instructions)
        for operand in context.accesses(instruction)
        if writes(context.spec(instruction), operand.role)
    }
    for tensor in sorted(outputs - written):
        yield Diagnostic(
            rule="err_tensor_output_not_written_to",
            message="an output of the kernel is never written",
            line=context.tensor_line(tensor),
            hint="store the result to it",
        )


def check_precision(context: Context) -> Iterator[Diagnostic]:
    """No floating type on chip or in HBM below the task's precision."""
    trace = context.trace
    for tensor in range(trace.num_tensors):
        dtype = DTYPES[trace.tensor_dtype[tensor]]
        if dtype.is_float and dtype.float_bits < context.min_float_bits:
            yield Diagnostic(
                rule="precision_below_task",
                message=f"a tensor is {dtype.name}, the task computes in "
                f"{context.min_float_bits}-bit floating point",
                line=context.tensor_line(tensor),
                required=dtype.name,
                limit=f"{context.min_float_bits} bits",
                hint="keep every tensor in nl.float32",
            )
