"""`mamba_v2` with the arguments of NKIBench's mamba, after the description of AccelOpt's sample.

No batch axis: delta, u [channels, steps], a [channels, states], b, c [states, steps]. Loops: tile
of 128 channels > state; tiles are 128 x the whole sequence.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(delta, u, a, b, c):
    channels, steps = delta.shape
    states = a.shape[1]
    rows = nl.tile_size.pmax
    assert channels % rows == 0

    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)

    for tile in nl.affine_range(channels // rows):
        top = tile * rows
        total = nl.zeros((nl.par_dim(rows), steps), dtype=delta.dtype)
        delta_tile = nl.load(delta[top : top + rows, 0:steps])
        u_tile = nl.load(u[top : top + rows, 0:steps])

        for s in nl.affine_range(states):
            rate = nl.load(a[top : top + rows, s])
            decay = nisa.activation(op=nl.exp, data=delta_tile, scale=rate)

            inflow = nl.load(b[s : s + 1, 0:steps])
            drive = nisa.tensor_tensor(delta_tile, u_tile, op=nl.multiply)
            drive_s = nisa.tensor_tensor(drive, inflow.broadcast_to((rows, steps)), op=nl.multiply)

            hidden = nisa.tensor_tensor_scan(decay, drive_s, initial=0, op0=nl.multiply, op1=nl.add)

            outflow = nl.load(c[s : s + 1, 0:steps])
            share = nisa.tensor_tensor(hidden, outflow.broadcast_to((rows, steps)), op=nl.multiply)
            total[0:rows, 0:steps] += share

        nl.store(out[top : top + rows, 0:steps], value=total[0:rows, 0:steps])

    return out
