"""Block dimensions that one enclosing loop alone indexes, and the uses of a tensor.

Both the executor (which need not store such blocks) and the latency model (where such tiles rotate
through a few physical copies) rest on this fact.
"""

from __future__ import annotations

from dataclasses import dataclass

from accelopt_simulator.isa import OPS
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind, Space


@dataclass(frozen=True)
class Use:
    """One access of a tensor's storage by an instruction."""

    instruction: int
    access: int
    write: bool
    through_alias: bool


def uses_by_storage(analysis: Analysis) -> dict[int, list[Use]]:
    """All uses of each storage tensor, in program order; computed once per analysis."""
    cached = analysis.cache.get("uses")
    if cached is not None:
        return cached  # type: ignore[no-any-return]
    trace = analysis.trace
    uses: dict[int, list[Use]] = {}
    for instruction in range(trace.num_instructions):
        spec = OPS[trace.ops[trace.ins_op[instruction]]]
        for role, kind, ref in trace.operands(instruction):
            if kind is OperandKind.ACCESS:
                tensor = int(trace.access_tensor[ref])
                owner = analysis.storage(tensor)
                write = role in spec.writes or role.startswith("reduce_res")
                uses.setdefault(owner, []).append(Use(instruction, ref, write, owner != tensor))
    analysis.cache["uses"] = uses
    return uses


def folded_dimensions(analysis: Analysis, tensor: int) -> dict[int, int]:
    """Block dimension of an on-chip tensor -> the loop that alone indexes it, in every use."""
    trace = analysis.trace
    uses = uses_by_storage(analysis).get(tensor, [])
    if trace.tensor_space[tensor] == Space.HBM or not uses or any(u.through_alias for u in uses):
        return {}
    common = set(analysis.loops_of(uses[0].instruction))
    for use in uses[1:]:
        common &= set(analysis.loops_of(use.instruction))
    candidates: dict[int, int] = {}
    for dim in range(int(trace.tensor_par_dim[tensor])):
        exprs = {trace.access_exprs(use.access)[dim] for use in uses}
        affine = analysis.affine(exprs.pop())
        if exprs or affine.axes or affine.others or len(affine.loops) != 1:
            continue
        loop, coef = affine.loops[0]
        if coef and loop in common:
            candidates[dim] = loop
    # A loop only counts when the loops around it do too: otherwise it is entered again and would
    # meet the blocks of its first run.
    scope = int(trace.tensor_scope[tensor])
    inside_scope = set(analysis.chain(scope)) if scope >= 0 else set()
    while True:
        counted = set(candidates.values()) | inside_scope
        loose = [d for d, lp in candidates.items() if set(analysis.chain(lp)) - {lp} - counted]
        if not loose:
            return candidates
        for dim in loose:
            del candidates[dim]
