"""Selective state space scan, state outermost, after the description of the AWS tutorial's v1.

out[c, t] = sum over s of C[s, t] * h[c, s, t], with h[c, s, t] = exp(delta[c, t] * A[c, s]) * h[c,
s, t - 1] + delta[c, t] * u[c, t] * B[s, t]. Loops: batch > state > tile of 128 channels; tiles are
128 x the whole sequence. Every state reads delta and u again; one sum per channel tile stays on
chip.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(delta, u, A, B, C):
    batches, channels, steps = delta.shape
    states = A.shape[1]
    rows = nl.tile_size.pmax
    tiles = channels // rows
    assert channels % rows == 0

    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)

    for batch in nl.affine_range(batches):
        sums = nl.zeros((tiles, nl.par_dim(rows), steps), dtype=delta.dtype)
        for s in nl.affine_range(states):
            for tile in nl.affine_range(tiles):
                top = tile * rows

                # How much of the state stays from one step to the next.
                delta_tile = nl.load(delta[batch, top : top + rows, 0:steps])
                rate = nl.load(A[top : top + rows, s])
                decay = nisa.activation(op=nl.exp, data=delta_tile, scale=rate)

                # What each step adds to the state.
                u_tile = nl.load(u[batch, top : top + rows, 0:steps])
                inflow = nl.load(B[batch, s : s + 1, 0:steps])
                drive = nisa.tensor_tensor(delta_tile, u_tile, op=nl.multiply)
                drive_s = nisa.tensor_tensor(
                    drive, inflow.broadcast_to((rows, steps)), op=nl.multiply
                )

                hidden = nisa.tensor_tensor_scan(
                    decay, drive_s, initial=0, op0=nl.multiply, op1=nl.add
                )

                outflow = nl.load(C[batch, s : s + 1, 0:steps])
                share = nisa.tensor_tensor(
                    hidden, outflow.broadcast_to((rows, steps)), op=nl.multiply
                )
                sums[tile, 0:rows, 0:steps] += share

        for tile in nl.affine_range(tiles):
            top = tile * rows
            nl.store(out[batch, top : top + rows, 0:steps], value=sums[tile, 0:rows, 0:steps])

    return out
