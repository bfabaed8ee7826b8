"""Memories, partitions and sizes (spec sections 1.3, 1.5, 1.6; performance model section 7)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import AccessOperand, Context, writes
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.isa import DMA_OPS
from accelopt_simulator.trace.schema import Engine, Space, TensorRole

PSUM_BANK_BYTES = 2048
GEMM_STATIONARY_FMAX = 128
GEMM_MOVING_FMAX = 512
TWO_INPUT_OPS = {
    "tensor_tensor": ("data1", "data2"),
    "scalar_tensor_tensor": ("data", "operand1"),
    "tensor_tensor_scan": ("data0", "data1"),
    "tensor_copy_predicated": ("src", "predicate"),
    "select_reduce": ("on_true", "predicate"),
}


def check_tensors(context: Context) -> Iterator[Diagnostic]:
    """On-chip tensors fit their memory: partitions, PSUM bank, SBUF bytes per partition."""
    trace = context.trace
    for tensor in range(trace.num_tensors):
        space = Space(int(trace.tensor_space[tensor]))
        if space is Space.HBM:
            continue
        shape, par = trace.shape(tensor), int(trace.tensor_par_dim[tensor])
        line = context.tensor_line(tensor)
        partitions = shape[par]
        if partitions > context.device.num_partitions:
            yield Diagnostic(
                rule="err_num_partition_exceed_arch_limit",
                message=f"size of partition dimension {partitions} exceeds architecture limitation "
                f"of {context.device.num_partitions}",
                line=line,
                required=str(partitions),
                limit=str(context.device.num_partitions),
                hint="cut the partition dimension into tiles of at most nl.tile_size.pmax",
            )
        dtype = DTYPES[trace.tensor_dtype[tensor]]
        free_bytes = math.prod(shape[par + 1 :]) * dtype.itemsize
        limit = PSUM_BANK_BYTES if space is Space.PSUM else context.device.sbuf_bytes_per_partition
        if free_bytes > limit:
            yield Diagnostic(
                rule="err_size_of_dimension_exceed_arch_limit",
                message=f"one {space.name.lower()} tile takes {free_bytes} bytes per partition, "
                f"{'a bank' if space is Space.PSUM else 'a partition'} holds {limit}",
                line=line,
                required=str(free_bytes),
                limit=str(limit),
                hint="use a smaller free dimension",
            )


def check_operands(context: Context) -> Iterator[Diagnostic]:
    """Operands lie where the instruction reaches them, start where they may, are not inputs."""
    for instruction in range(context.trace.num_instructions):
        spec = context.spec(instruction)
        operands = list(context.accesses(instruction))
        for operand in operands:
            allowed = spec.allowed_spaces(operand.role)
            if operand.space not in allowed:
                yield context.finding(
                    instruction,
                    "err_unsupported_memory",
                    f"expected operand {operand.role!r} of {spec.name} to be in "
                    f"{' or '.join(s.name.lower() for s in allowed)}, it is in "
                    f"{operand.space.name.lower()}",
                    required=operand.space.name.lower(),
                    limit=" or ".join(s.name.lower() for s in allowed),
                    hint="load it with nl.load, or copy it with nl.copy",
                )
            yield from _written(context, instruction, operand)
            yield from _scope(context, instruction, operand)
            if operand.space is not Space.HBM:
                yield from _partitions(context, instruction, operand)
        yield from _engine_access(context, instruction, operands)
        if spec.name == "nc_matmul":
            yield from _matmul(context, instruction, operands)
        if spec.name == "nc_transpose":
            yield from _transpose(context, instruction, operands)


def _written(context: Context, instruction: int, operand: AccessOperand) -> Iterator[Diagnostic]:
    storage = context.analysis.storage(operand.tensor)
    role = context.trace.tensor_role[storage]
    if writes(context.spec(instruction), operand.role) and role in (
        TensorRole.INPUT,
        TensorRole.CONSTANT,
    ):
        yield context.finding(
            instruction,
            "err_cannot_update_immutable_parameter",
            "the kernel writes to one of its inputs",
            hint="create an output with nl.ndarray(..., buffer=nl.shared_hbm) and return it",
        )


def _scope(context: Context, instruction: int, operand: AccessOperand) -> Iterator[Diagnostic]:
    scope = int(context.trace.tensor_scope[operand.tensor])
    if scope >= 0 and scope not in context.analysis.loops_of(instruction):
        yield context.finding(
            instruction,
            "err_local_variable_used_out_of_scope",
            "a tile made inside a loop is used after the loop",
            hint="declare it before the loop",
        )


def _partitions(context: Context, instruction: int, operand: AccessOperand) -> Iterator[Diagnostic]:
    """Partition axis: grid axis 0, contiguous, and a legal start partition."""
    trace, analysis = context.trace, context.analysis
    par = int(trace.tensor_par_dim[operand.tensor])
    exprs = trace.access_exprs(operand.access)
    affine = analysis.affine(exprs[par])
    count = operand.grid[0]
    # A size-1 source may be read by every partition (coefficient 0): only broadcasts do that.
    broadcast = context.op(instruction) == "partition_broadcast" and operand.role == "data"
    wanted = 0 if broadcast else 1
    others = any(a != 0 and c for a, c in affine.axes)
    mixed = any(analysis.affine(e).axis_coefficient(0) for d, e in enumerate(exprs) if d != par)
    if count > 1 and (affine.axis_coefficient(0) != wanted or others or mixed):
        yield context.finding(
            instruction,
            "partition_access_pattern",
            f"operand {operand.role!r} does not address its partitions one after the other",
            hint="index the partition dimension with start + nl.arange(n)[:, None]",
        )
        return
    low, high = analysis.interval(exprs[par], operand.grid)
    if high - low >= context.device.num_partitions:
        return  # an out-of-bounds finding says more
    if context.op(instruction) in DMA_OPS:
        return  # DMA reaches any partition
    if count > context.device.num_partitions:
        return
    step = 128 if count > 64 else 64 if count > 32 else 32
    starts = {low}
    if affine.loops or affine.others:
        loops = analysis.iterations(analysis.loops_of(instruction))
        starts = {int(v) for v in set(_values(analysis.evaluate(exprs[par], loops)))}
    bad = sorted(s for s in starts if s % step)
    if bad:
        yield context.finding(
            instruction,
            "start_partition",
            f"operand {operand.role!r} of {count} partitions starts at partition {bad[0]}",
            required=bad[0],
            limit=f"a multiple of {step}",
            hint="more than 64 partitions start at 0, 33 to 64 at 0 or 64, up to 32 at 0/32/64/96",
        )


def _values(values: object) -> list[int]:
    return values.tolist() if hasattr(values, "tolist") else [int(values)]  # type: ignore[call-overload]


def _engine_access(
    context: Context, instruction: int, operands: list[AccessOperand]
) -> Iterator[Diagnostic]:
    by_role = {o.role: o for o in operands}
    pair = TWO_INPUT_OPS.get(context.op(instruction), ())
    if pair and all(r in by_role and by_role[r].space is Space.PSUM for r in pair):
        yield context.finding(
            instruction,
            "both_operands_in_psum",
            f"both inputs of {context.op(instruction)} are in psum",
            hint="copy one of them to sbuf",
        )
    if context.trace.ins_engine[instruction] == Engine.GPSIMD and any(
        o.space is Space.PSUM for o in operands
    ):
        yield context.finding(
            instruction, "gpsimd_psum_access", "the gpsimd engine can't reach psum"
        )


def _matmul(
    context: Context, instruction: int, operands: list[AccessOperand]
) -> Iterator[Diagnostic]:
    by_role = {o.role: o for o in operands}
    for role, limit in (("stationary", GEMM_STATIONARY_FMAX), ("moving", GEMM_MOVING_FMAX)):
        pairs = 2 if "perf_mode" in context.trace.attr(instruction) else 1
        free = math.prod(by_role[role].grid[1:]) // pairs
        if free > limit:
            yield context.finding(
                instruction,
                "err_size_of_dimension_exceed_arch_limit",
                f"the free size of the {role} operand of a matmul is {free}",
                required=free,
                limit=limit,
                hint=f"cut it into tiles of at most {limit}",
            )
        dtype = DTYPES[context.trace.tensor_dtype[by_role[role].tensor]]
        if not dtype.is_float:
            yield context.finding(
                instruction,
                "matmul_dtype",
                f"the {role} operand of a matmul is {dtype.name}",
                limit="a floating type",
            )


def _transpose(
    context: Context, instruction: int, operands: list[AccessOperand]
) -> Iterator[Diagnostic]:
    data = next(o for o in operands if o.role == "data")
    vector = context.trace.ins_engine[instruction] == Engine.VECTOR
    limit = 32 if vector else 128
    if max(data.grid) > limit:
        yield context.finding(
            instruction,
            "err_size_of_dimension_exceed_arch_limit",
            f"a transpose of {data.grid} on the {'vector' if vector else 'tensor'} engine",
            required=max(data.grid),
            limit=limit,
        )
