"""A trace as text for people: the loop tree with instructions, engines, tile shapes and lines."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.isa import OPS
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Compare, Engine, OperandKind, Space, Trace, VarKind

_COMPARE = {Compare.GE: ">= 0", Compare.EQ: "== 0", Compare.NE: "!= 0"}


def render(trace: Trace) -> str:
    """The whole trace, one line per loop and instruction."""
    return "\n".join(_lines(trace, Analysis(trace)))


def _lines(trace: Trace, analysis: Analysis) -> Iterator[str]:
    yield f"kernel {trace.entry} ({trace.dialect})"
    for tensor in range(trace.num_tensors):
        yield "  " + _tensor(trace, tensor)
    yield from _body(trace, analysis, -1, 1)


def _tensor(trace: Trace, tensor: int) -> str:
    space = Space(int(trace.tensor_space[tensor])).name.lower()
    par = int(trace.tensor_par_dim[tensor])
    shape = trace.shape(tensor)
    blocks = f"[{', '.join(map(str, shape[:par]))} | " if par > 0 else "["
    extents = "x".join(map(str, shape[max(par, 0) :]))
    name = trace.tensor_names[tensor] or "-"
    dtype = DTYPES[trace.tensor_dtype[tensor]].name
    line = int(trace.tensor_line[tensor])
    at = f"  line {line}" if line else ""
    return f"t{tensor:<3} {space:<5} {dtype:<8} {blocks}{extents}]  {name}{at}"


def _body(trace: Trace, analysis: Analysis, loop: int, depth: int) -> Iterator[str]:
    first = int(trace.loop_first[loop]) if loop >= 0 else 0
    last = int(trace.loop_last[loop]) if loop >= 0 else trace.num_instructions
    children = [c for c in range(trace.num_loops) if trace.loop_parent[c] == loop]
    pad, position = "  " * depth, first
    for child in children:
        for instruction in range(position, int(trace.loop_first[child])):
            yield pad + _instruction(trace, instruction)
        kind = "affine" if trace.loop_kind[child] == 0 else "sequential"
        low, high = analysis.loop_range[child]
        step = int(trace.loop_step[child])
        stride = f" step {step}" if step != 1 else ""
        line = int(trace.loop_line[child])
        yield f"{pad}for i{child} in {low}..{high}{stride}  ({kind}, line {line})"
        yield from _body(trace, analysis, child, depth + 1)
        position = int(trace.loop_last[child])
    for instruction in range(position, last):
        yield pad + _instruction(trace, instruction)


def _instruction(trace: Trace, instruction: int) -> str:
    name = trace.ops[trace.ins_op[instruction]]
    hint = Engine(int(trace.ins_engine[instruction]))
    spec = OPS.get(name)
    default = spec.engines[0] if spec is not None else Engine.UNKNOWN
    engine = (default if hint is Engine.UNKNOWN else hint).name.lower()
    attrs = trace.attr(instruction)
    options = " ".join(f"{key}={value}" for key, value in attrs.items())
    operands = ", ".join(
        f"{role}={_operand(trace, kind, ref)}" for role, kind, ref in trace.operands(instruction)
    )
    predicate = int(trace.ins_pred[instruction])
    guard = f"  if {_predicate(trace, predicate)}" if predicate >= 0 else ""
    line = int(trace.ins_line[instruction])
    options = f"  {options}" if options else ""
    return f"{name} [{engine}] {operands}{options}{guard}  line {line}"


def _operand(trace: Trace, kind: OperandKind, ref: int) -> str:
    if kind is OperandKind.IMMEDIATE:
        return f"{float(trace.immediate[ref]):g}"
    index = ", ".join(_expr(trace, expr) for expr in trace.access_exprs(ref))
    grid = "x".join(map(str, trace.access_shape(ref)))
    return f"t{int(trace.access_tensor[ref])}[{index}]({grid})"


def _expr(trace: Trace, expr: int) -> str:
    parts = [_term(trace, var, coef) for var, coef in trace.terms(expr)]
    const = int(trace.expr_const[expr])
    if const or not parts:
        parts.append(str(const))
    return " + ".join(parts).replace("+ -", "- ")


def _term(trace: Trace, var: int, coef: int) -> str:
    kind, a, b = VarKind(int(trace.var_kind[var])), int(trace.var_a[var]), int(trace.var_b[var])
    if kind is VarKind.LOOP:
        name = f"i{a}"
    elif kind is VarKind.AXIS:
        name = f"{'pfghk'[a]}" if a < 5 else f"a{a}"
    elif kind is VarKind.PROGRAM:
        name = f"program{a}"
    elif kind is VarKind.DYNAMIC:
        name = f"value({_operand(trace, OperandKind.ACCESS, a)})"
    else:
        name = f"({_expr(trace, a)}) {'//' if kind is VarKind.FLOORDIV else '%'} {b}"
    return name if coef == 1 else f"{coef}*{name}"


def _predicate(trace: Trace, predicate: int) -> str:
    clauses = []
    for clause in trace.clauses(predicate):
        atoms = " or ".join(f"{_expr(trace, expr)} {_COMPARE[cmp]}" for expr, cmp in clause)
        clauses.append(f"({atoms})" if len(clause) > 1 else atoms)
    return " and ".join(clauses)
