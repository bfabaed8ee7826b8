"""What a kernel that places its tensors itself must not do (spec 1.21 and section 4)."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.session import Session
from accelopt_simulator.trace.builder import Access
from accelopt_simulator.trace.schema import Engine, Space, TensorRole


def check_allocation(session: Session) -> None:
    """Check the rules once the kernel has been traced; nothing to do without direct allocation.

    Raises:
        KernelFault: with the line of the offending instruction in `line`.
    """
    if not session.placed:
        return
    for fault, line in _faults(session):
        fault.line = line
        raise fault


def _faults(session: Session) -> Iterator[tuple[KernelFault, int]]:
    tensors = session.builder.tensors
    for instruction in session.builder.instructions:
        roles = {role for role, _ in instruction.operands}
        if instruction.op == "activation" and "bias" not in roles:
            yield (
                KernelFault(
                    "err_bias_tensor_must_be_specified_in_allocation",
                    "an activation without a bias tensor in a kernel with direct allocation",
                    hint="pass bias=, a (P, 1) tile of zeros that the kernel places",
                ),
                instruction.line,
            )
        if instruction.op == "nc_transpose" and instruction.engine is Engine.TENSOR:
            yield (
                KernelFault(
                    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
                    "a transpose on the tensor engine in a kernel with direct allocation",
                    hint="use nc_matmul with an identity, or nl.matmul(..., transpose_x=True)",
                ),
                instruction.line,
            )
        for _, value in instruction.operands:
            if not isinstance(value, Access):
                continue
            row = tensors[value.tensor]
            if row.space is not Space.HBM and value.tensor not in session.placed:
                yield (
                    KernelFault(
                        "mixed_allocation",
                        "a tile is placed by the compiler in a kernel with direct allocation",
                        hint="place every intermediate, or none",
                    ),
                    instruction.line,
                )
            if row.space is Space.HBM and row.role is TensorRole.LOCAL:
                yield (
                    KernelFault(
                        "hbm_temporary_in_allocated_kernel",
                        "an HBM tensor that is not returned, in a kernel with direct allocation",
                    ),
                    instruction.line,
                )
