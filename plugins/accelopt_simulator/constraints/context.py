"""What every check works with, and how it reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accelopt.device import DeviceSpec
from accelopt.evaluation import Diagnostic
from accelopt_simulator.isa import OPS, OpSpec
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind, Space, Trace


@dataclass(frozen=True)
class AccessOperand:
    """One tensor operand of an instruction."""

    role: str
    access: int
    tensor: int
    space: Space
    grid: tuple[int, ...]


@dataclass(frozen=True)
class Context:
    """A trace under examination.

    Attributes:
        trace: the trace.
        analysis: facts about it.
        device: the device it is for.
        min_float_bits: least precision of the task, in bits.
    """

    trace: Trace
    analysis: Analysis
    device: DeviceSpec
    min_float_bits: int = 32

    def spec(self, instruction: int) -> OpSpec:
        """Table row of an instruction; structure checks have shown that there is one."""
        return OPS[self.op(instruction)]

    def op(self, instruction: int) -> str:
        """Opcode name."""
        return self.trace.ops[int(self.trace.ins_op[instruction])]

    def accesses(self, instruction: int) -> Iterator[AccessOperand]:
        """Tensor operands of an instruction."""
        for role, kind, ref in self.trace.operands(instruction):
            if kind is OperandKind.ACCESS:
                tensor = int(self.trace.access_tensor[ref])
                space = Space(int(self.trace.tensor_space[tensor]))
                yield AccessOperand(role, ref, tensor, space, self.trace.access_shape(ref))

    def line(self, instruction: int) -> int | None:
        """Kernel line of an instruction."""
        return int(self.trace.ins_line[instruction]) or None

    def tensor_line(self, tensor: int) -> int | None:
        """Kernel line where a tensor was made."""
        return int(self.trace.tensor_line[tensor]) or None

    def finding(
        self,
        instruction: int,
        rule: str,
        message: str,
        *,
        required: object = None,
        limit: object = None,
        hint: str = "",
    ) -> Diagnostic:
        """A diagnostic at an instruction's line."""
        return Diagnostic(
            rule=rule,
            message=message,
            line=self.line(instruction),
            required=None if required is None else str(required),
            limit=None if limit is None else str(limit),
            hint=hint,
        )


def writes(spec: OpSpec, role: str) -> bool:
    """Whether an instruction writes the operand of that role."""
    return role in spec.writes or role.startswith("reduce_res")
