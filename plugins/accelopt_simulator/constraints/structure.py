"""Instructions are known, have the operands their table row asks for, and these fit together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints import calls
from accelopt_simulator.constraints.context import Context
from accelopt_simulator.constraints.matmul import matmul_problems
from accelopt_simulator.isa import (
    ACTIVATIONS,
    BINARY_ALU,
    BITWISE_ALU,
    BITWISE_REDUCTIONS,
    LANGUAGE_BINARY_ALU,
    LANGUAGE_UNARY_ALU,
    OPS,
    REDUCTIONS,
    UNARY_ALU,
)
from accelopt_simulator.trace.schema import Engine
from accelopt_simulator.trace.windows import OperandWindows

ALU = BINARY_ALU | UNARY_ALU | BITWISE_ALU | LANGUAGE_BINARY_ALU | LANGUAGE_UNARY_ALU
ALLOWED = {
    "tensor_scalar": ALU,
    "tensor_tensor": BINARY_ALU | LANGUAGE_BINARY_ALU | BITWISE_ALU - {"invert"},
}

_COLUMNS = {
    "tensor_scalar": ("operand0", "operand1", "reduce_res"),
    "scalar_tensor_tensor": ("operand0",),
    "activation": ("bias", "scale", "reduce_res", "acc", "reduce_res_acc"),
    "select_reduce": ("on_false", "reduce_res", "acc", "reduce_res_acc"),
    "range_select": ("bound0", "bound1", "reduce_res", "acc", "reduce_res_acc"),
    "dropout": ("rate",),
    "tensor_tensor_scan": ("initial",),
}
_TILE_OR_NUMBER = {"tensor_copy_predicated": ("src",)}
_OPTIONAL_TILES = ("reduce_res", "acc", "reduce_res_acc", "reduce_res_idx", "seed", "expr")
_OPERATOR_ATTRS = {
    "tensor_tensor": ("op",),
    "tensor_scalar": ("op0",),
    "scalar_tensor_tensor": ("op0", "op1"),
    "tensor_tensor_scan": ("op0", "op1"),
}


def check_structure(context: Context) -> Iterator[Diagnostic]:
    """Unknown instructions are `unsupported_op`; the rest are rules of the instruction set."""
    trace = context.trace
    for instruction in range(trace.num_instructions):
        op = context.op(instruction)
        if op not in OPS:
            yield context.finding(instruction, "unsupported_op", f"no instruction {op!r}")
            continue
        yield from _operands(context, instruction)


def _operands(context: Context, instruction: int) -> Iterator[Diagnostic]:
    spec = context.spec(instruction)
    operands = context.trace.operands(instruction)
    # Index tiles come on top of what the table asks for; `check_indirect` looks after them.
    roles = [role for role, _, _ in operands if not role.startswith("index")]
    required = (*spec.writes, *spec.reads)
    known = (*required, *spec.optional)
    if len(set(roles)) != len(roles) or not set(required) <= set(roles) <= set(known):
        yield context.finding(
            instruction,
            "bad_operands",
            f"{spec.name} has operands {', '.join(roles)}",
            limit=", ".join(known),
        )
        return
    engine = Engine(int(context.trace.ins_engine[instruction]))
    if engine is not Engine.UNKNOWN and engine not in spec.engines:
        yield context.finding(
            instruction,
            "unsupported_engine",
            f"{spec.name} can't run on the {engine.name.lower()} engine",
            limit=", ".join(e.name.lower() for e in spec.engines),
        )
    grids = {
        operand.role: operand.grid
        for operand in context.accesses(instruction)
        if not operand.role.startswith("index")
    }
    if not set(spec.writes) <= set(grids) or any(len(g) < 2 for g in grids.values()):
        yield context.finding(
            instruction, "bad_operands", f"{spec.name} needs tiles of at least two axes"
        )
        return
    numbers = calls.NUMBERS.get(spec.name, ())
    either = (*_COLUMNS.get(spec.name, ()), *numbers, *_TILE_OR_NUMBER.get(spec.name, ()))
    must_be_tiles = [role for role in spec.reads if role not in either]
    must_be_tiles += [role for role in roles if role in _OPTIONAL_TILES]
    must_be_tiles += [role for role in roles if role.startswith("keep_")]
    if any(role not in grids for role in must_be_tiles) or any(n in grids for n in numbers):
        yield context.finding(
            instruction, "bad_operands", f"{spec.name} has a number for a tile, or a tile for one"
        )
        return
    if spec.name == "tensor_scalar":
        second = "op1" in context.trace.attr(instruction)
        if second != ("operand1" in roles):
            yield context.finding(
                instruction, "bad_operands", "tensor_scalar has a second operator or operand alone"
            )
            return
    yield from _operators(context, instruction)
    found = [*_calls(context, instruction, grids), *_shapes(context, instruction, grids)]
    yield from found or _predicate(context, instruction)


def _operators(context: Context, instruction: int) -> Iterator[Diagnostic]:
    op, attrs = context.op(instruction), context.trace.attr(instruction)

    def bad(value: object) -> Diagnostic:
        return context.finding(
            instruction, "unsupported_op", f"{op} with operator {str(value)[:40]!r} has no rule"
        )

    # The reading rules look at the first of the two that is there.
    if "op" in attrs and "op0" in attrs:
        yield bad(attrs["op"])
    for key in _OPERATOR_ATTRS.get(op, ()):
        if not _known(attrs.get(key), ALLOWED.get(op, BINARY_ALU)):
            yield bad(attrs.get(key))
    if op == "tensor_scalar" and "op1" in attrs and not _known(attrs["op1"], ALU):
        yield bad(attrs["op1"])
    if op == "activation" and not _known(attrs.get("op"), ACTIVATIONS):
        yield bad(attrs.get("op"))
    if op == "tensor_reduce" and not _known(attrs.get("op"), REDUCTIONS | BITWISE_REDUCTIONS):
        yield bad(attrs.get("op"))
    if "reduce_op" in attrs and not _known(attrs["reduce_op"], REDUCTIONS):
        yield bad(attrs["reduce_op"])


def _calls(
    context: Context, instruction: int, grids: dict[str, tuple[int, ...]]
) -> Iterator[Diagnostic]:
    """What `calls` and `matmul` know about this instruction, and the operands they rely on."""
    trace, op, attrs = context.trace, context.op(instruction), context.trace.attr(instruction)
    problems = list(calls.reduce_command(op, set(grids), attrs))
    if op in calls.CALLS:
        problems += calls.CALLS[op](grids, attrs)
    if op == "nc_matmul":
        problems += matmul_problems(grids, attrs)
    accesses = {operand.role: operand for operand in context.accesses(instruction)}
    for role, operand in accesses.items():
        expression = role == "expr" or role.startswith("keep_")
        if expression and not calls.is_ramp(trace, operand.access):
            problems.append(("bad_operands", f"operand {role!r} of {op} is no index expression"))
    if op in calls.DATA_LIKE and "expr" in grids and grids["expr"] != grids["data"]:
        problems.append(("shape_mismatch", f"positions of {op} differ in shape from its data"))
    if "old" in accesses:
        old, dst = accesses["old"], accesses["dst"]
        same = trace.access_exprs(old.access) == trace.access_exprs(dst.access)
        if old.tensor != dst.tensor or not same or old.grid != dst.grid:
            problems.append(("bad_operands", f"{op} keeps what it does not write: old is dst"))
    for rule, message in problems:
        yield context.finding(instruction, rule, message)


def _known(operator: object, allowed: frozenset[str]) -> bool:
    """Attributes come from an untrusted trace: an operator may be anything JSON can say."""
    return isinstance(operator, str) and operator in allowed


def _predicate(context: Context, instruction: int) -> Iterator[Diagnostic]:
    """A predicate may only use axes of its instruction's grid."""
    predicate = int(context.trace.ins_pred[instruction])
    if predicate < 0:
        return
    rank = len(OperandWindows(context.trace, instruction).grid)
    atoms = [expr for clause in context.trace.clauses(predicate) for expr, _ in clause]
    if any(axis >= rank for expr in atoms for axis, _ in context.analysis.affine(expr).axes):
        yield context.finding(
            instruction, "mask_shape_mismatch", f"a mask uses an axis beyond the {rank} of the tile"
        )


def _shapes(
    context: Context, instruction: int, grids: dict[str, tuple[int, ...]]
) -> Iterator[Diagnostic]:
    op = context.op(instruction)
    dst = grids["dst"]

    def mismatch(role: str, shape: tuple[int, ...], wanted: object) -> Diagnostic:
        partitions = isinstance(wanted, tuple) and shape[0] != wanted[0]
        return context.finding(
            instruction,
            "err_num_partition_mismatch" if partitions else "shape_mismatch",
            f"operand {role!r} of {op} has shape {shape}, {wanted} is needed",
            required=shape,
            limit=wanted,
        )

    if op == "nc_matmul":
        stationary, moving = grids["stationary"], grids["moving"]
        if stationary[0] != moving[0]:
            yield mismatch("moving", moving, (stationary[0], *moving[1:]))
        first = 2 if "perf_mode" in context.trace.attr(instruction) else 1
        columns = math.prod(stationary[first:])
        if dst != (columns, *moving[first:]):
            yield mismatch("dst", dst, (columns, *moving[first:]))
        return
    if op == "nc_transpose":
        data = grids["data"]
        if len(data) != 2 or dst != (data[1], data[0]):
            yield mismatch("dst", dst, (data[-1], data[0]))
        return
    if op == "tensor_reduce":
        axes = context.trace.attr(instruction).get("axes")
        data = grids["data"]
        if not isinstance(axes, list) or not axes or sorted(set(axes)) != axes:
            yield context.finding(instruction, "bad_reduction_axis", f"axes are {axes}")
            return
        if any(type(a) is not int or not 1 <= a < len(data) for a in axes):
            yield context.finding(
                instruction, "bad_reduction_axis", f"axes {axes} of a tile with {len(data)} axes"
            )
            return
        kept = tuple(n for a, n in enumerate(data) if a not in axes)
        kept = kept if len(kept) > 1 else (*kept, 1)
        if dst not in (kept, tuple(1 if a in axes else n for a, n in enumerate(data))):
            yield mismatch("dst", dst, kept)
        return
    if op in calls.CALLS:
        grids = {
            role: grid
            for role, grid in grids.items()
            if role in ("dst", *_COLUMNS.get(op, ()), *calls.LANEWISE.get(op, ()))
        }
        if op in calls.DATA_LIKE or op not in calls.LANEWISE:
            return
    for role, grid in grids.items():
        if role in _COLUMNS.get(op, ()):
            if grid != (dst[0], 1):
                yield mismatch(role, grid, (dst[0], 1))
        elif grid != dst:
            yield mismatch(role, grid, dst)
