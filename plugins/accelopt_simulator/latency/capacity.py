"""How much SBUF a kernel's tiles take at once, and how many copies of them there is room for.

A tile that a loop makes afresh lives from its first to its last use within an iteration. Iterations
overlap as far as copies of these tiles fit; when even one copy does not fit, the compiler spills.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import uses_by_storage
from accelopt_simulator.trace.schema import Space


@dataclass(frozen=True)
class Occupancy:
    """SBUF bytes per partition.

    Attributes:
        fresh_bytes: most bytes of fresh tiles that live at the same point of an iteration.
        kept_bytes: tiles that outlive the iterations that use them, all blocks.
        copies: copies of the fresh tiles there is room for, at least 1.
        excess_bytes: what does not fit even with one copy.
    """

    fresh_bytes: int
    kept_bytes: int
    copies: int
    excess_bytes: int

    @property
    def working_set_bytes(self) -> int:
        """Everything that is on chip at once."""
        return self.fresh_bytes * self.copies + self.kept_bytes


def occupancy(
    analysis: Analysis, fresh_loops: dict[int, int], capacity_bytes: int, most_copies: int
) -> Occupancy:
    """SBUF occupancy of a trace.

    Args:
        analysis: facts about the trace.
        fresh_loops: storage tensor -> loop at whose every iteration it is fresh; -1 or absent:
            kept.
        capacity_bytes: usable bytes per partition.
        most_copies: copies the compiler gives a fresh tile when there is room.
    """
    trace = analysis.trace
    changes: list[tuple[int, int]] = []
    kept = 0
    uses = uses_by_storage(analysis)
    for tensor, found in uses.items():
        if trace.tensor_space[tensor] != Space.SBUF:
            continue
        shape, par = trace.shape(tensor), int(trace.tensor_par_dim[tensor])
        size = math.prod(shape[par + 1 :]) * DTYPES[trace.tensor_dtype[tensor]].itemsize
        if fresh_loops.get(tensor, -1) < 0:
            kept += size * math.prod(shape[:par])
            continue
        positions = [use.instruction for use in found]
        changes += [(min(positions), size), (max(positions) + 1, -size)]
    live = peak = 0
    for _, change in sorted(changes):
        live += change
        peak = max(peak, live)
    copies = most_copies
    while copies > 1 and peak * copies + kept > capacity_bytes:
        copies -= 1
    return Occupancy(peak, kept, copies, max(0, peak * copies + kept - capacity_bytes))
