"""Iterations of an affine loop do not depend on each other; every result is written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import Context, writes
from accelopt_simulator.constraints.races import Races
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.folding import Use, uses_by_storage
from accelopt_simulator.trace.schema import LoopKind, Space, TensorRole
from accelopt_simulator.trace.windows import OperandWindows

MAX_COMPARISONS = 4000
"""Pairs of accesses that are looked at for races; unrolled kernels may have many more."""

RACE = "err_unexpected_output_dependencies"


def check_output_dependencies(context: Context) -> Iterator[Diagnostic]:
    """`err_unexpected_output_dependencies`: a write that ignores the index of an affine loop, or an
    element that two of its iterations write, or one writes and another reads.
    """
    flawed = set()
    for instruction, finding in _missing_indices(context):
        flawed.add(instruction)
        yield finding
    yield from _races(context, flawed)


def _missing_indices(context: Context) -> Iterator[tuple[int, Diagnostic]]:
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
                yield (
                    instruction,
                    context.finding(
                        instruction,
                        RACE,
                        f"missing indices in the dst access: the affine loop(s) in line {lines}",
                        hint="index the destination with every enclosing affine index, declare it "
                        "inside the loop, or use nl.sequential_range",
                    ),
                )


def _races(context: Context, flawed: set[int]) -> Iterator[Diagnostic]:
    """One finding per tensor and loop, where it is certain; `flawed` writes are known already."""
    trace, analysis = context.trace, context.analysis
    races, comparisons = Races(analysis), 0
    for storage, uses in uses_by_storage(analysis).items():
        plain = [use for use in uses if not _accumulates(context, use)]
        writing = [
            use
            for use in plain
            if use.write
            and use.instruction not in flawed
            and context.op(use.instruction) != "memset"
        ]
        inside = set(analysis.chain(int(trace.tensor_scope[storage])))
        if trace.tensor_space[storage] == Space.HBM:
            inside = set()
        loops = sorted(
            {lp for use in writing for lp in analysis.loops_of(use.instruction)} - inside
        )
        for loop in loops:
            if trace.loop_kind[loop] != LoopKind.AFFINE or analysis.max_trips(loop) < 2:
                continue
            first, last = int(trace.loop_first[loop]), int(trace.loop_last[loop])
            body = [use for use in plain if first <= use.instruction < last]
            # Different writes first: two iterations that write one element say more.
            body.sort(key=lambda use: not use.write)
            pairs = (
                (write, other)
                for other in body
                for write in writing
                if first <= write.instruction < last
                if not (other.write and context.op(other.instruction) == "memset")
            )
            for write, other in pairs:
                comparisons += 1
                if comparisons > MAX_COMPARISONS:
                    return
                if races.meet(write, other, loop):
                    yield _race(context, write, other, loop)
                    break


def _race(context: Context, write: Use, other: Use, loop: int) -> Diagnostic:
    line = int(context.trace.loop_line[loop])
    where = f"in line {line}" if line else "of the grid"
    at = context.line(write.instruction)
    if other.write:
        message = f"two iterations of the affine loop {where} write the same elements"
        hint = "make the iterations write different places, or use nl.sequential_range"
    else:
        message = (
            f"an iteration of the affine loop {where} reads elements that another one writes"
            + (f" (in line {at})" if at else "")
        )
        hint = "use nl.sequential_range, or give each iteration its own tile"
    return context.finding(other.instruction, RACE, message, hint=hint)


def _accumulates(context: Context, use: Use) -> bool:
    """Whether a use is part of an accumulation: its target, read or written."""
    trace = context.trace
    if trace.attr(use.instruction).get("accumulate") is not True:
        return False
    target = next(o.access for o in context.accesses(use.instruction) if o.role == "dst")
    return use.write or use.access == target


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
        storage
        for storage in outputs
        if any(u.write and _may_run(context, u) for u in uses_by_storage(analysis).get(storage, ()))
    }
    for tensor in sorted(outputs - written):
        yield Diagnostic(
            rule="err_tensor_output_not_written_to",
            message="an output of the kernel is never written",
            line=context.tensor_line(tensor),
            hint="store the result to it",
        )


def _may_run(context: Context, use: Use) -> bool:
    """Whether some iteration of a use's loops satisfies its condition."""
    trace, analysis = context.trace, context.analysis
    nest = analysis.loops_of(use.instruction)
    if any(analysis.max_trips(loop) == 0 for loop in nest):
        return False
    predicate = int(trace.ins_pred[use.instruction])
    if predicate < 0:
        return True
    grid = OperandWindows(trace, use.instruction).grid
    _, _, alive, _ = analysis.axis_window(predicate, grid, analysis.iterations(nest))
    return bool(np.any(alive))


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
