"""NKIBench's mamba, sequence outermost, after the description of AccelOpt's optimized sample.

Loops: piece of 512 steps (sequential) > tile of 128 channels > state, on 128 x 512 tiles. delta
and u are read once per piece and channel tile; the last scan column of every channel tile and
state waits in one buffer that starts at zero. The column of `a` is read every time.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

PIECE = 512


@nki.jit
def kernel(delta, u, a, b, c):
    channels, steps = delta.shape
    states = a.shape[1]
    rows = nl.tile_size.pmax
    tiles = channels // rows
    assert channels % rows == 0
    assert steps % PIECE == 0

    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    carries = nl.zeros((tiles, nl.par_dim(rows), states), dtype=delta.dtype)

    for piece in nl.sequential_range(steps // PIECE):
        at = piece * PIECE
        for tile in nl.affine_range(tiles):
            top = tile * rows
            delta_tile = nl.load(delta[top : top + rows, at : at + PIECE])
            u_tile = nl.load(u[top : top + rows, at : at + PIECE])
            total = nl.zeros((nl.par_dim(rows), PIECE), dtype=delta.dtype)

            for s in nl.affine_range(states):
                rate = nl.load(a[top : top + rows, s])
                decay = nisa.activation(op=nl.exp, data=delta_tile, scale=rate)

                inflow = nl.load(b[s : s + 1, at : at + PIECE])
                drive = nisa.tensor_tensor(delta_tile, u_tile, op=nl.multiply)
                drive_s = nisa.tensor_tensor(
                    drive, inflow.broadcast_to((rows, PIECE)), op=nl.multiply
                )

                hidden = nisa.tensor_tensor_scan(
                    decay,
                    drive_s,
                    initial=carries[tile, 0:rows, s : s + 1],
                    op0=nl.multiply,
                    op1=nl.add,
                )
                carries[tile, 0:rows, s : s + 1] = nl.copy(hidden[0:rows, PIECE - 1 : PIECE])

                outflow = nl.load(c[s : s + 1, at : at + PIECE])
                share = nisa.tensor_tensor(
                    hidden, outflow.broadcast_to((rows, PIECE)), op=nl.multiply
                )
                total[0:rows, 0:PIECE] += share

            nl.store(out[top : top + rows, at : at + PIECE], value=total[0:rows, 0:PIECE])

    return out
