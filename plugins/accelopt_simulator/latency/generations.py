"""Which tiles are made afresh in each iteration of a loop, so that copies of them can overlap."""

from __future__ import annotations

from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import folded_dimensions
from accelopt_simulator.trace.schema import Space


def fresh_tile_loops(analysis: Analysis) -> dict[int, int]:
    """On-chip storage tensor -> deepest loop at whose every iteration its tiles are fresh.

    That is the loop the tensor is declared in (-1: none), or the deepest loop that alone indexes a
    block dimension, provided that no block dimension remains that other loops index.
    """
    trace = analysis.trace
    result: dict[int, int] = {}
    for tensor in range(trace.num_tensors):
        if trace.tensor_space[tensor] == Space.HBM or trace.tensor_alias[tensor] >= 0:
            continue
        folded = folded_dimensions(analysis, tensor)
        blocks = [d for d in range(int(trace.tensor_par_dim[tensor])) if trace.shape(tensor)[d] > 1]
        scope = int(trace.tensor_scope[tensor])
        alone = all(d in folded for d in blocks)
        result[tensor] = max(*folded.values(), scope, -1) if alone else scope
    return result
