"""State space scan in pieces of 512 steps, after the description of the AWS tutorial's v3.

The mathematics is that of `mamba_v1`. Loops: batch > tile of 128 channels > state > piece of 512
steps, the last one unrolled. delta and u are read once per channel tile, rows of B and C once per
piece; the work is on 128 x 512 tiles, and the last column of a scan starts the next one.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

PIECE = 512


@nki.jit
def kernel(delta, u, A, B, C):
    batches, channels, steps = delta.shape
    states = A.shape[1]
    rows = nl.tile_size.pmax
    assert channels % rows == 0
    assert steps % PIECE == 0

    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)

    for batch in nl.affine_range(batches):
        for tile in nl.affine_range(channels // rows):
            top = tile * rows
            total = nl.zeros((nl.par_dim(rows), steps), dtype=delta.dtype)
            delta_tile = nl.load(delta[batch, top : top + rows, 0:steps])
            u_tile = nl.load(u[batch, top : top + rows, 0:steps])

            for s in nl.affine_range(states):
                rate = nl.load(A[top : top + rows, s])
                carry = nl.zeros((nl.par_dim(rows), 1), dtype=delta.dtype)

                for piece in nl.static_range(steps // PIECE):
                    at = piece * PIECE
                    decay = nisa.activation(
                        op=nl.exp, data=delta_tile[0:rows, at : at + PIECE], scale=rate
                    )

                    inflow = nl.load(B[batch, s : s + 1, at : at + PIECE])
                    drive = nisa.tensor_tensor(
                        delta_tile[0:rows, at : at + PIECE],
                        u_tile[0:rows, at : at + PIECE],
                        op=nl.multiply,
                    )
                    drive_s = nisa.tensor_tensor(
                        drive, inflow.broadcast_to((rows, PIECE)), op=nl.multiply
                    )

                    hidden = nisa.tensor_tensor_scan(
                        decay, drive_s, initial=carry, op0=nl.multiply, op1=nl.add
                    )
                    carry[0:rows, 0:1] = nl.copy(hidden[0:rows, PIECE - 1 : PIECE])

                    outflow = nl.load(C[batch, s : s + 1, at : at + PIECE])
                    share = nisa.tensor_tensor(
                        hidden, outflow.broadcast_to((rows, PIECE)), op=nl.multiply
                    )
                    total[0:rows, at : at + PIECE] += share

            nl.store(out[batch, top : top + rows, 0:steps], value=total[0:rows, 0:steps])

    return out
