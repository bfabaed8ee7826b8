"""Which element types a call takes, and which NeuronCore has it (spec 3, 5.2)."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.context import Context
from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.isa import BITWISE_ALU, BITWISE_REDUCTIONS
from accelopt_simulator.trace.schema import Engine, OperandKind

GENERATIONS = {"trn1": 2, "trn2": 3}
_INTEGERS = frozenset(d.name for d in DTYPES if not d.is_float)
_FLOATS = frozenset(d.name for d in DTYPES if d.is_float)
_WORDS = frozenset({"int32", "uint32"})
_FP8 = frozenset({"float8_e4m3", "float8_e5m2"})
_MASKS = frozenset({"uint8", "uint16", "uint32", "int8", "int16", "bool"})
_ROLE_TYPES: dict[str, dict[str, frozenset[str]]] = {
    "tensor_copy_predicated": {"predicate": frozenset({"uint8", "uint16", "uint32", "bool"})},
    "select_reduce": {
        "predicate": _MASKS - {"uint32"},
        "on_true": _FLOATS - {"tfloat32"} | _INTEGERS - _WORDS,
        "reduce_res": _FLOATS,
    },
    "range_select": {
        "data": _FLOATS,
        "bound0": frozenset({"float32"}),
        "bound1": frozenset({"float32"}),
    },
    "nc_find_index8": {"dst": frozenset({"uint16", "uint32"})},
    "nc_match_replace8": {"reduce_res_idx": _INTEGERS},
    "local_gather": {"indices": frozenset({"uint16"})},
    "gather_flattened": {"indices": frozenset({"uint32"})},
    "affine_select": {"data": _FLOATS | _INTEGERS - _WORDS},
    "sequence_bounds": {
        "data": frozenset({"float32", "int32"}), "dst": frozenset({"float32", "int32"}),
    },
    "rand": {"dst": _FLOATS},
    "activation": {"acc": frozenset({"float32"}), "reduce_res_acc": frozenset({"float32"})},
}  # fmt: skip
_SAME_TYPE = {
    "tensor_copy_predicated": ("src", "dst"),
    "nc_stream_shuffle": ("src", "dst"),
    "local_gather": ("src", "dst"),
}


def check_numbers(context: Context) -> Iterator[Diagnostic]:
    """Element types that fit the call, and calls that the device has."""
    for instruction in range(context.trace.num_instructions):
        op, attrs = context.op(instruction), context.trace.attr(instruction)
        types = {
            o.role: DTYPES[context.trace.tensor_dtype[o.tensor]].name
            for o in context.accesses(instruction)
            if o.role != "expr" and not o.role.startswith(("keep_", "index"))
        }
        for role, allowed in _ROLE_TYPES.get(op, {}).items():
            if role in types and types[role] not in allowed:
                yield context.finding(
                    instruction,
                    "unsupported_dtype",
                    f"operand {role!r} of {op} is {types[role]}",
                    required=types[role],
                    limit=" or ".join(sorted(allowed)),
                )
        same = [types[role] for role in _SAME_TYPE.get(op, ()) if role in types]
        if len(set(same)) > 1:
            yield context.finding(
                instruction, "unsupported_dtype", f"{op} from {same[0]} to {same[1]} can't cast"
            )
        stages = [attrs.get(key) for key in ("op", "op0", "op1") if key in attrs]
        bitwise = [s in BITWISE_ALU | BITWISE_REDUCTIONS for s in stages if isinstance(s, str)]
        if any(bitwise):
            yield from _bitwise(context, instruction, types, all(bitwise))
        if "integer" in attrs:
            yield from _integer(context, instruction, types)
        yield from _generation(context, instruction, types)


def _bitwise(
    context: Context, instruction: int, types: dict[str, str], every_stage: bool
) -> Iterator[Diagnostic]:
    op = context.op(instruction)
    if not every_stage:
        yield context.finding(
            instruction, "mixed_operators", f"{op} mixes bit-wise and arithmetic operators"
        )
    wrong = sorted({t for t in types.values() if t not in _INTEGERS})
    numbers = [
        float(context.trace.immediate[ref])
        for _, kind, ref in context.trace.operands(instruction)
        if kind is OperandKind.IMMEDIATE
    ]
    if "reduce_res" in types:
        yield context.finding(
            instruction, "mixed_operators", f"bit-wise {op} with an arithmetic reduction"
        )
    if wrong or any(not n.is_integer() or abs(n) >= 2**32 for n in numbers):
        yield context.finding(
            instruction,
            "bitwise_dtype",
            f"bit-wise {op} on {', '.join(wrong) or 'a number that is no 32-bit integer'}",
            limit="integers",
            hint="cast to an integer type, or reinterpret the bits",
        )


def _integer(context: Context, instruction: int, types: dict[str, str]) -> Iterator[Diagnostic]:
    """Native integer arithmetic is the GpSimd engine's; a forged flag must not pay."""
    trace, op = context.trace, context.op(instruction)
    attrs = trace.attr(instruction)
    sources = {t for role, t in types.items() if role != "dst"}
    stages = {attrs.get(key) for key in ("op", "op0", "op1") if key in attrs}
    numbers = [
        float(trace.immediate[ref])
        for _, kind, ref in trace.operands(instruction)
        if kind is OperandKind.IMMEDIATE
    ]
    fits = (
        attrs["integer"] is True
        and op in ("tensor_tensor", "tensor_scalar")
        and trace.ins_engine[instruction] == Engine.GPSIMD
        and len(sources) == 1
        and sources <= _WORDS
        and stages <= {"add", "subtract", "multiply"}
        and "reduce_res" not in types
        and all(n.is_integer() and abs(n) < 2**32 for n in numbers)
    )
    if not fits:
        yield context.finding(
            instruction,
            "forged_attribute",
            f"{op} is marked as integer arithmetic, which it can't be",
        )


def _generation(context: Context, instruction: int, types: dict[str, str]) -> Iterator[Diagnostic]:
    op, attrs = context.op(instruction), context.trace.attr(instruction)
    generation = GENERATIONS.get(context.device.name, 2)
    needed, what = context.spec(instruction).generation, op
    if op == "nc_matmul" and "perf_mode" in attrs:
        needed, what = 3, "nc_matmul with rows in pairs"
        if not {types["stationary"], types["moving"]} <= _FP8:
            yield context.finding(
                instruction,
                "matmul_dtype",
                f"{what} of {types['stationary']} and {types['moving']}",
                limit="float8_e4m3 or float8_e5m2",
            )
    if op == "nc_matmul" and 32 in attrs.get("tile_size", ()):
        needed, what = 3, "a PE tile of 32 rows or columns"
    if generation < needed:
        yield context.finding(
            instruction,
            "unsupported_generation",
            f"{what} needs NeuronCore-v{needed}",
            required=f"gen{needed}",
            limit=f"gen{generation}",
        )
