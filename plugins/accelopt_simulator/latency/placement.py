"""Results of the scalar engine that the compiler places in PSUM instead of SBUF.

A tile that fits a bank and is read by one `tensor_tensor` of the same loop body, whose other input
lies in SBUF, may go to PSUM: the vector engine then reads both inputs at once. Seen in the
published adamw counters: three of the baseline's nine counted results per tile lie in PSUM, four of
the best kernel's. PSUM must hold two copies of each, and one tile more.
"""

from __future__ import annotations

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.hardware import PSUM_BANKS
from accelopt_simulator.isa import OPS
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import Use, uses_by_storage
from accelopt_simulator.trace.schema import Engine, Space, TensorRole

BANK_BYTES = 2048
COPIES = 2
_SCALAR_OPS = frozenset({"activation", "tensor_scalar", "tensor_copy"})
_SCALAR_ALU = frozenset({"multiply", "add"})


def placed_in_psum(analysis: Analysis) -> frozenset[int]:
    """Tensors declared in SBUF whose tiles the compiler is expected to put into PSUM."""
    trace = analysis.trace
    uses = uses_by_storage(analysis)
    banks: dict[int, int] = {}
    for tensor, found in uses.items():
        if trace.tensor_space[tensor] == Space.PSUM:
            loop = max(int(analysis.innermost[use.instruction]) for use in found)
            banks[loop] = banks.get(loop, 0) + 1
    chosen: set[int] = set()
    served: set[int] = set()
    for tensor in sorted(uses, key=lambda t: uses[t][0].instruction):
        reader = _candidate(analysis, tensor, uses[tensor])
        if reader is None or reader in served or _other_in_psum(analysis, reader, tensor):
            continue
        loop = int(analysis.innermost[reader])
        if COPIES * (banks.get(loop, 0) + 2) > PSUM_BANKS:
            continue
        banks[loop] = banks.get(loop, 0) + 1
        served.add(reader)
        chosen.add(tensor)
    return frozenset(chosen)


def _candidate(analysis: Analysis, tensor: int, uses: list[Use]) -> int | None:
    """The one `tensor_tensor` that reads a small tile which the scalar engine alone writes."""
    trace = analysis.trace
    shape, par = trace.shape(tensor), int(trace.tensor_par_dim[tensor])
    size = DTYPES[trace.tensor_dtype[tensor]].itemsize
    for extent in shape[par + 1 :]:
        size *= extent
    if (
        trace.tensor_space[tensor] != Space.SBUF
        or trace.tensor_role[tensor] != TensorRole.LOCAL
        or DTYPES[trace.tensor_dtype[tensor]].itemsize != 4
        or size > BANK_BYTES
    ):
        return None
    readers = {use.instruction for use in uses if not use.write}
    writers = {use.instruction for use in uses if use.write}
    if len(readers) != 1 or not all(on_scalar_engine(analysis, w) for w in writers):
        return None
    reader = readers.pop()
    if _op(analysis, reader) != "tensor_tensor" or reader in writers:
        return None
    inner = analysis.innermost
    return reader if all(inner[w] == inner[reader] for w in writers) else None


def on_scalar_engine(analysis: Analysis, instruction: int) -> bool:
    """Whether an instruction is one that the compiler gives to the scalar engine."""
    trace = analysis.trace
    op = _op(analysis, instruction)
    if op not in _SCALAR_OPS or int(trace.ins_engine[instruction]) not in (
        Engine.UNKNOWN,
        Engine.SCALAR,
    ):
        return False
    if op == "tensor_scalar":
        attrs = trace.attr(instruction)
        return {attrs["op0"], attrs.get("op1", attrs["op0"])} <= _SCALAR_ALU
    return True


def _other_in_psum(analysis: Analysis, reader: int, tensor: int) -> bool:
    trace = analysis.trace
    reads = OPS["tensor_tensor"].reads
    spaces = [
        trace.tensor_space[trace.access_tensor[ref]]
        for role, _, ref in trace.operands(reader)
        if role in reads and analysis.storage(int(trace.access_tensor[ref])) != tensor
    ]
    return any(space == Space.PSUM for space in spaces)


def _op(analysis: Analysis, instruction: int) -> str:
    return str(analysis.trace.ops[analysis.trace.ins_op[instruction]])
