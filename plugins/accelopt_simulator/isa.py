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
    """

    name: str
    writes: tuple[str, ...] = ("dst",)
    reads: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    engines: tuple[Engine, ...]
    grid: GridOf = "dst"
    spaces: dict[str, tuple[Space, ...]] = field(default_factory=dict)

    def allowed_spaces(self, role: str) -> tuple[Space, ...]:
        """Memories an operand may lie in."""
        return self.spaces.get(role, ON_CHIP)


ON_CHIP = (Space.SBUF, Space.PSUM)
ANYWHERE = (Space.HBM, Space.SBUF, Space.PSUM)
V, S, G, T, D = Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.TENSOR, Engine.DMA
_SBUF = (Space.SBUF,)

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
        grid="matmul",
        spaces={"dst": (Space.PSUM,), "stationary": _SBUF, "moving": _SBUF},
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
        optional=("bias", "scale", "reduce_res"),
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
)

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
REDUCTIONS = frozenset(["add", "multiply", "maximum", "minimum"])
