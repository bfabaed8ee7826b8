"""The instruction table: one row per instruction, the same for both dialects.

Front ends may only emit instructions of this table; constraints, numerics and cost rules are keyed
by its names. Facts: spec of `neuronxcc.nki` (SDK 2.26), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from accelopt_simulator.trace.schema import Engine, Space

GridOf = Literal["dst", "data", "matmul"]


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """One instruction.

    Attributes:
        name: opcode.
        writes: operand roles that are written, the main result first.
        reads: operand roles that must be present and are read.
        optional: operand roles that may be absent; written when the name starts with `reduce_res`.
        engines: engines it can run on; the first is the default.
        grid: which operand spans the instruction's iteration grid (a mask is over this grid).
        spaces: allowed memories by role; a role that is not listed takes SBUF or PSUM.
        rowwise: roles that hold something per partition, whatever the grid's free axes are.
        whole: roles that are read entirely, whatever part of the grid a mask leaves.
        generation: first NeuronCore generation that has it.
    """

    name: str
    writes: tuple[str, ...] = ("dst",)
    reads: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    engines: tuple[Engine, ...]
    grid: GridOf = "dst"
    spaces: dict[str, tuple[Space, ...]] = field(default_factory=dict)
    rowwise: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    generation: int = 2

    def allowed_spaces(self, role: str) -> tuple[Space, ...]:
        """Memories an operand may lie in."""
        return self.spaces.get(role, ON_CHIP)


ON_CHIP = (Space.SBUF, Space.PSUM)
ANYWHERE = (Space.HBM, Space.SBUF, Space.PSUM)
V, S, G, T, D = Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.TENSOR, Engine.DMA
_SBUF: tuple[Space, ...] = (Space.SBUF,)
_EXPR: tuple[Space, ...] = (Space.HBM,)
"""Where the ramp lies that an `expr` operand reads index values from: not data, an expression."""

_MATMUL_SPACES: dict[str, tuple[Space, ...]] = {
    "dst": (Space.PSUM,), "stationary": _SBUF, "moving": _SBUF,
}  # fmt: skip
KEEP_ROLES = tuple(f"keep_{compare}{i}" for compare in ("ge", "eq", "ne") for i in range(4))
"""Operands that say which contraction rows of a masked matmul count (`expr >= 0`, ...)."""

_ROWS = (
    OpSpec(
        name="dma_copy",
        reads=("src",),
        engines=(D,),
        spaces={"dst": (Space.HBM, Space.SBUF), "src": (Space.HBM, Space.SBUF)},
    ),
    OpSpec(
        name="nc_matmul",
        reads=("stationary", "moving"),
        engines=(T,),
        optional=KEEP_ROLES,
        grid="matmul",
        spaces=_MATMUL_SPACES | dict.fromkeys(KEEP_ROLES, _EXPR),
        whole=KEEP_ROLES,
    ),
    OpSpec(name="nc_transpose", reads=("data",), engines=(T, V), grid="data"),
    OpSpec(
        name="partition_broadcast",
        reads=("data",),
        engines=(T,),
        spaces={"dst": (Space.PSUM,), "data": _SBUF},
    ),
    OpSpec(
        name="activation",
        reads=("data",),
        optional=("bias", "scale", "reduce_res", "acc", "reduce_res_acc"),
        engines=(S,),
        grid="data",
    ),
    OpSpec(
        name="tensor_tensor",
        reads=("data1", "data2"),
        engines=(V, G),
    ),
    OpSpec(
        name="tensor_scalar",
        reads=("data", "operand0"),
        optional=("operand1", "reduce_res"),
        engines=(V, S, G),
        grid="data",
    ),
    OpSpec(
        name="scalar_tensor_tensor",
        reads=("data", "operand0", "operand1"),
        engines=(V,),
    ),
    OpSpec(name="tensor_tensor_scan", reads=("data0", "data1", "initial"), engines=(V,)),
    OpSpec(name="tensor_reduce", reads=("data",), engines=(V,), grid="data"),
    OpSpec(name="tensor_copy_dynamic", reads=("src",), engines=(V, S, G)),
    OpSpec(name="tensor_copy", reads=("src",), engines=(V, S, G)),
    OpSpec(name="reciprocal", reads=("data",), engines=(V,)),
    OpSpec(name="memset", reads=("value",), engines=(V, G)),
    # Statistics, selections and searches of the vector engine.
    OpSpec(name="bn_stats", reads=("data",), engines=(V,), grid="data", rowwise=("dst",)),
    OpSpec(name="bn_aggr", reads=("data",), engines=(V,), grid="data", rowwise=("dst",)),
    OpSpec(name="tensor_copy_predicated", reads=("src", "predicate", "old"), engines=(V,)),
    OpSpec(
        name="select_reduce",
        reads=("predicate", "on_true", "on_false"),
        optional=("reduce_res", "acc", "reduce_res_acc"),
        engines=(V,),
    ),
    OpSpec(
        name="range_select",
        reads=("data", "expr", "bound0", "bound1"),
        optional=("reduce_res", "acc", "reduce_res_acc"),
        engines=(V,),
        spaces={"expr": _EXPR},
        generation=3,
    ),
    OpSpec(
        name="nc_stream_shuffle",
        reads=("src", "old"),
        optional=("expr",),
        engines=(V,),
        spaces={"expr": _EXPR},
        whole=("src",),
    ),
    OpSpec(name="max8", reads=("data",), engines=(V,), grid="data", rowwise=("dst",)),
    OpSpec(
        name="nc_find_index8",
        reads=("data", "vals"),
        optional=("expr",),
        engines=(V,),
        grid="data",
        spaces={"expr": _EXPR},
        rowwise=("dst", "vals"),
    ),
    OpSpec(
        name="nc_match_replace8",
        reads=("data", "vals", "imm"),
        optional=("expr", "reduce_res_idx"),
        engines=(V,),
        grid="data",
        spaces={"expr": _EXPR},
        rowwise=("vals", "reduce_res_idx"),
    ),
    # Random numbers. `seed` is the tile of the last nl.random_seed.
    OpSpec(name="rand", optional=("seed",), engines=(V,), whole=("seed",)),
    OpSpec(
        name="dropout", reads=("data", "rate"), optional=("seed",), engines=(V,), whole=("seed",)
    ),
    # The GpSimd engine.
    OpSpec(name="iota", reads=("expr",), engines=(G,), spaces={"dst": _SBUF, "expr": _EXPR}),
    OpSpec(
        name="affine_select",
        reads=("data", "expr", "on_false"),
        engines=(G,),
        spaces={"dst": _SBUF, "data": _SBUF, "expr": _EXPR},
    ),
    OpSpec(
        name="tensor_partition_reduce",
        reads=("data",),
        engines=(G,),
        grid="data",
        spaces={"dst": _SBUF, "data": _SBUF},
    ),
    OpSpec(
        name="sequence_bounds",
        reads=("data",),
        engines=(G,),
        grid="data",
        spaces={"dst": _SBUF, "data": _SBUF},
        rowwise=("dst",),
    ),
    OpSpec(
        name="local_gather",
        reads=("src", "indices"),
        engines=(G,),
        spaces={"dst": _SBUF, "src": _SBUF, "indices": _SBUF},
        whole=("src", "indices"),
    ),
    OpSpec(
        name="gather_flattened",
        reads=("data", "indices"),
        engines=(G,),
        spaces={"dst": _SBUF, "data": _SBUF, "indices": _SBUF},
        rowwise=("data",),
    ),
    OpSpec(
        name="dma_transpose",
        reads=("src",),
        engines=(D,),
        spaces={"dst": _SBUF, "src": (Space.HBM, Space.SBUF)},
    ),
)

LANEWISE_DATA_OPS = frozenset({"activation", "tensor_scalar", "nc_match_replace8"})
"""Instructions over the grid of `data` whose result has the same grid."""

ONE_TYPE_OPS = frozenset({"local_gather", "sequence_bounds"})
"""Instructions that can't cast their result while they write it."""

DMA_OPS = frozenset({"dma_copy", "dma_transpose"})
"""Instructions that DMA engines run: they reach HBM and any partition."""

OPS = MappingProxyType({row.name: row for row in _ROWS})

# Functions the scalar engine evaluates (spec 5.1).
ACTIVATIONS = frozenset(
    [
        "copy",
        "square",
        "sigmoid",
        "relu",
        "gelu",
        "gelu_dx",
        "gelu_apprx_tanh",
        "gelu_apprx_sigmoid",
        "silu",
        "silu_dx",
        "tanh",
        "softplus",
        "mish",
        "erf",
        "erf_dx",
        "exp",
        "log",
        "sin",
        "arctan",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sign",
        "abs",
    ]
)

# Arithmetic operators of the vector engine (spec 5.2), by arity.
BINARY_ALU = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "maximum",
        "minimum",
        "equal",
        "not_equal",
        "greater_equal",
        "greater",
        "less_equal",
        "less",
        "logical_and",
        "logical_or",
        "logical_xor",
        "power",
    ]
)
UNARY_ALU = frozenset(["rsqrt", "reciprocal", "abs", "logical_not"])
BITWISE_ALU = frozenset(
    ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"]
)
LANGUAGE_BINARY_ALU = frozenset(["mod", "fmod"])
LANGUAGE_UNARY_ALU = frozenset(["floor", "ceil", "trunc"])
"""What `nl` functions need on top of the documented ALU table; `nisa` calls refuse them."""

BITWISE_REDUCTIONS = frozenset(["bitwise_and", "bitwise_or", "bitwise_xor"])
REDUCTIONS = frozenset(
    ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"]
)
PARTITION_REDUCTIONS = frozenset(["add", "maximum", "bitwise_or", "bitwise_and"])
RANGE_COMPARISONS = frozenset(["equal", "less", "less_equal", "greater", "greater_equal"])
