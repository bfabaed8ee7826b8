"""Run-time indices stand where the hardware can take them, and their tiles are real operands."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import AccessOperand, Context
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.schema import Space, VarKind

ALLOWED = {"dma_copy": Space.HBM, "tensor_copy_dynamic": Space.SBUF}


def check_indirect(context: Context) -> Iterator[Diagnostic]:
    """The index operands of an instruction are just the tiles that its accesses are indexed by."""
    trace = context.trace
    for instruction in range(trace.num_instructions):
        attrs = trace.attr(instruction)
        op = context.op(instruction)
        if ("rmw" in attrs or "oob" in attrs) and op != "dma_copy":
            yield context.finding(instruction, "forged_attribute", f"{op} has DMA attributes")
        used: set[int] = set()
        for operand in context.accesses(instruction):
            if operand.role.startswith("index"):
                continue
            tiles = dynamic_tiles(context, operand.access)
            used |= tiles
            on_chip = operand.space is not Space.HBM
            allowed = op in ALLOWED and on_chip == (ALLOWED[op] is not Space.HBM)
            if tiles and not allowed:
                yield context.finding(
                    instruction,
                    "err_copy_dynamic_indirect_indices_not_natively_supported",
                    f"operand {operand.role!r} of {op} has a run-time index",
                    hint="only DMA in HBM and nisa.tensor_copy_dynamic_* on chip can take one",
                )
            if tiles and _lands_on_a_free_axis(context, operand):
                yield context.finding(
                    instruction,
                    "err_indirect_indices_free_dim",
                    f"operand {operand.role!r} has a run-time index beside its partition axis",
                    hint="a run-time index takes the place of the partition index",
                )
        listed = {o.access: o for o in context.accesses(instruction) if o.role.startswith("index")}
        if used != set(listed):
            yield context.finding(instruction, "bad_operands", "index operands don't match")
        for operand in listed.values():
            rows = operand.grid[0]
            shape = next(o.grid for o in context.accesses(instruction) if o.role == "dst")
            dtype = DTYPES[trace.tensor_dtype[operand.tensor]]
            whole = operand.grid == (rows, 1) and rows in (1, shape[0])
            if not whole or dtype.is_float or operand.space is not Space.SBUF:
                yield context.finding(
                    instruction,
                    "err_indirect_indices_free_dim",
                    f"an index tile of shape {operand.grid}, {dtype.name}",
                    limit="an integer tile of shape (P, 1) in sbuf",
                )


def _lands_on_a_free_axis(context: Context, operand: AccessOperand) -> bool:
    """Whether one dimension has an index per row and another one holds the row axis itself."""
    trace, analysis = context.trace, context.analysis
    exprs = trace.access_exprs(operand.access)
    for dim, expr in enumerate(exprs):
        per_row = any(
            trace.var_kind[var] == VarKind.DYNAMIC
            and trace.access_shape(int(trace.var_a[var]))[0] > 1
            for var, _ in trace.terms(expr)
        )
        others = exprs[:dim] + exprs[dim + 1 :]
        if per_row and any(analysis.affine(other).axis_coefficient(0) for other in others):
            return True
    return False


def dynamic_tiles(context: Context, access: int) -> set[int]:
    """Accesses of the tiles that an access takes its indices from."""
    trace = context.trace
    return {
        int(trace.var_a[var])
        for expr in trace.access_exprs(access)
        for var, _ in trace.terms(expr)
        if trace.var_kind[var] == VarKind.DYNAMIC
    }
