"""How much SBUF a kernel's tiles take at once, how many copies there is room for, and what spills.

A tensor's tiles live from its first to its last use. One whose tiles a loop makes afresh takes one
tile times the copies that let iterations overlap; one whose blocks are kept takes all blocks that
a later use may want. What exceeds SBUF where most is live is saved to HBM once and reloaded once,
each time its tensor is made anew; the largest tensors give way first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import folded_dimensions, uses_by_storage
from accelopt_simulator.trace.schema import Space

PARTITIONS = 128


@dataclass(frozen=True)
class Occupancy:
    """SBUF use of a trace.

    Attributes:
        working_set_bytes: most bytes per partition that live at the same time, copies included.
        copies: copies of fresh tiles there is room for, at least 1.
        excess_bytes: bytes per partition that do not fit even with one copy.
        spill_bytes: bytes saved to HBM over the whole kernel; as many are reloaded.
    """

    working_set_bytes: int
    copies: int
    excess_bytes: int
    spill_bytes: int


@dataclass(frozen=True)
class _Residence:
    first: int
    last: int
    tile_bytes: int
    blocks: int
    rounds: int

    def size(self, copies: int) -> int:
        return self.tile_bytes * (copies if self.blocks == 1 else self.blocks)


def occupancy(analysis: Analysis, capacity_bytes: int, most_copies: int) -> Occupancy:
    """SBUF occupancy of a trace.

    Args:
        analysis: facts about the trace.
        capacity_bytes: usable bytes per partition.
        most_copies: copies the compiler gives a fresh tile when there is room.
    """
    residences = list(_residences(analysis))
    copies = most_copies
    peak, live = _peak(residences, copies)
    while copies > 1 and peak > capacity_bytes:
        copies -= 1
        peak, live = _peak(residences, copies)
    excess = max(0, peak - capacity_bytes)
    return Occupancy(peak, copies, excess, _spilled(live, copies, excess) * PARTITIONS)


def _spilled(live: list[_Residence], copies: int, excess_bytes: int) -> int:
    """Bytes per partition saved over the whole kernel: the largest residences give way first."""
    total = 0
    for residence in sorted(live, key=lambda r: r.size(copies), reverse=True):
        part = min(residence.size(copies), excess_bytes)
        total += part * residence.rounds
        excess_bytes -= part
    return total


def _residences(analysis: Analysis) -> Iterator[_Residence]:
    trace = analysis.trace
    for tensor, uses in uses_by_storage(analysis).items():
        if trace.tensor_space[tensor] != Space.SBUF:
            continue
        shape, par = trace.shape(tensor), int(trace.tensor_par_dim[tensor])
        folded = folded_dimensions(analysis, tensor)
        loop = max(*folded.values(), int(trace.tensor_scope[tensor]), -1)
        positions = [use.instruction for use in uses]
        yield _Residence(
            first=min(positions),
            last=max(positions),
            tile_bytes=math.prod(shape[par + 1 :]) * DTYPES[trace.tensor_dtype[tensor]].itemsize,
            blocks=math.prod(n for d, n in enumerate(shape[:par]) if d not in folded),
            rounds=analysis.instances(loop),
        )


def _peak(residences: list[_Residence], copies: int) -> tuple[int, list[_Residence]]:
    """Most bytes live at one position, and what is live there."""
    best, best_live = 0, list[_Residence]()
    for position in sorted({r.first for r in residences}):
        live = [r for r in residences if r.first <= position <= r.last]
        total = sum(r.size(copies) for r in live)
        if total > best:
            best, best_live = total, live
    return best, best_live
