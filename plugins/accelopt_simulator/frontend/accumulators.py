"""Accumulator registers that live across instructions: `reduce_cmd` (spec 3.2, 3.3).

Each of the scalar and the vector engine has one register per partition. In the trace a register
that outlives its instruction is a hidden tile, so that the order of its users is a dependence like
any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from accelopt_simulator.dtypes import FLOAT32
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile, new_tensor
from accelopt_simulator.trace.builder import Instruction
from accelopt_simulator.trace.schema import Engine, Space

IDLE, RESET, REDUCE, RESET_REDUCE = range(4)
_NAMES = ("idle", "reset", "reduce", "reset_reduce")


@dataclass
class Register:
    """An engine's register since it was last reset.

    Attributes:
        instruction: what reset it.
        rows: partitions it was reset for.
        scope: innermost loop at the time; -1 at the top.
        branch: innermost symbolic branch at the time.
        tile: the hidden tile, once another instruction needs it.
    """

    instruction: Instruction
    rows: int
    scope: int
    branch: int
    tile: Tile | None = None


def use_register(engine: Engine, instruction: Instruction, command: int, rows: int) -> None:
    """Give an instruction with a `reduce_cmd` the register operands it needs.

    Raises:
        KernelFault: it goes on with a register that nothing has reset.
    """
    session = current()
    if command in (RESET, RESET_REDUCE):
        loops = session.builder.open_loops
        session.registers[engine] = Register(
            instruction, rows, loops[-1] if loops else -1, session.branch
        )
        if command == RESET:
            instruction.attrs = instruction.attrs | {"reduce_cmd": "reset"}
        return
    register = session.registers.get(engine)
    if not isinstance(register, Register):
        raise KernelFault(
            "accumulator_not_reset",
            f"reduce_cmd={_NAMES[command]} before anything has reset the accumulator",
            hint="start with reduce_cmd.reset_reduce",
        )
    if register.rows != rows:
        raise KernelFault(
            "err_num_partition_mismatch",
            f"{rows} partitions go on with an accumulator of {register.rows}",
            required=rows,
            limit=register.rows,
        )
    tile = _materialize(register) if register.tile is None else register.tile
    instruction.attrs = instruction.attrs | {"reduce_cmd": _NAMES[command]}
    instruction.operands.append(("acc", tile.access()))
    if command == REDUCE:
        instruction.operands.append(("reduce_res_acc", tile.access()))


def _materialize(register: Register) -> Tile:
    """The hidden tile, as if it had been made where the register was reset."""
    tile = new_tensor((register.rows, 1), FLOAT32, Space.SBUF, name="accumulator")
    tile.scope, tile.branch = register.scope, register.branch
    current().builder.tensors[tile.tensor].scope = register.scope
    register.tile = tile
    register.instruction.operands.append(("reduce_res_acc", tile.access()))
    return tile
