"""`nl.loop_reduce`: a reduction over loop iterations, resolved by the assignment it is part of.

`dst[...] = nl.loop_reduce(x, op, [i, j])` means `dst = op(dst, x)`, except in the first iteration
of all the listed loops, which stores `x` (spec section 2.7). It lowers to two instructions under
complementary predicates: a copy and an accumulation.
"""

from __future__ import annotations

from typing import Any

from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.index import Index
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile
from accelopt_simulator.frontend.types import op_name
from accelopt_simulator.isa import REDUCTIONS
from accelopt_simulator.trace.builder import Access, Affine, Predicate
from accelopt_simulator.trace.schema import Compare


class LoopReduction:
    """A deferred reduction.

    Args:
        data: the tile of this iteration.
        op: operator token.
        loop_indices: one loop index, or a list of them; plain numbers (unrolled loops) may occur.
        predicate: the call's mask over the tile's grid.
    """

    def __init__(self, data: Tile, op: Any, loop_indices: Any, predicate: Predicate) -> None:
        self.data = data
        self.op = op_name(op)
        self.predicate = predicate
        if self.op not in REDUCTIONS:
            raise KernelFault(
                "unsupported_operator",
                f"nl.loop_reduce can't reduce with {self.op!r}",
                limit=", ".join(sorted(REDUCTIONS)),
            )
        listed = loop_indices if isinstance(loop_indices, (list, tuple)) else [loop_indices]
        self.loops = [loop for index in listed for loop in _loops_of(index)]

    def into(self, target: Tile, data: Access, destination: Access) -> None:
        """Emit the two instructions.

        Args:
            target: where the running value is.
            data: the tile as an operand.
            destination: the target as an operand, over the same grid.
        """
        session = current()
        attrs = {"accumulate": True, "loop_reduce": True}
        first: Predicate = tuple(
            ((Affine.var(("loop", loop)) - session.builder.loops[loop].start, Compare.EQ),)
            for loop in self.loops
        )
        later: Predicate = (tuple((affine, Compare.NE) for ((affine, _),) in first),)
        session.emit(
            "tensor_copy",
            [("dst", destination), ("src", data)],
            attrs=attrs,
            predicate=first + self.predicate,
        )
        if self.loops:
            session.emit(
                "tensor_tensor",
                [("dst", destination), ("data1", destination), ("data2", data)],
                attrs={"op": self.op} | attrs,
                predicate=later + self.predicate,
            )


def _loops_of(index: Any) -> list[int]:
    if not isinstance(index, Index):
        return []
    loops = [key[1] for key, _ in index.affine.terms if key[0] == "loop"]
    if index.ndim or not loops:
        raise KernelFault(
            "bad_loop_reduce", "nl.loop_reduce takes loop indices", hint="pass [i] of the loop"
        )
    still_open = current().builder.open_loops
    if any(loop not in still_open for loop in loops):
        raise KernelFault("bad_loop_reduce", "nl.loop_reduce names a loop that has ended")
    return loops
