import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def kernel(delta, u, a, b, c):
    channels, steps = delta.shape
    states = a.shape[1]
    P = nl.tile_size.pmax
    blocks = channels // P
    assert channels % P == 0

    out = nl.ndarray((channels, steps), dtype=delta.dtype, buffer=nl.shared_hbm)

    # Sum over the states, one tile per block of channels.
    total = nl.zeros((blocks, nl.par_dim(P), steps), dtype=delta.dtype)

    for s in nl.affine_range(states):
        for block in nl.affine_range(blocks):
            first = block * P

            # exp(delta * a): the decay of the state at each step.
            delta_tile = nl.load(delta[first : first + P, 0:steps])
            a_column = nl.load(a[first : first + P, s])
            decay = nisa.activation(op=nl.exp, data=delta_tile, scale=a_column)

            # delta * u * b: what each step adds to the state.
            u_tile = nl.load(u[first : first + P, 0:steps])
            b_row = nl.load(b[s : s + 1, 0:steps])
            delta_u = nisa.tensor_tensor(delta_tile, u_tile, op=nl.multiply)
            b_rows = b_row.broadcast_to((P, steps))
            driven = nisa.tensor_tensor(delta_u, b_rows, op=nl.multiply)

            state = nisa.tensor_tensor_scan(
                data0=decay, data1=driven, initial=0, op0=np.multiply, op1=np.add
            )

            c_row = nl.load(c[s : s + 1, 0:steps])
            c_rows = c_row.broadcast_to((P, steps))
            weighted = nisa.tensor_tensor(state, c_rows, op=nl.multiply)
            total[block, 0:P, 0:steps] += weighted

    for block in nl.affine_range(blocks):
        first = block * P
        nl.store(out[first : first + P, 0:steps], value=total[block, 0:P, 0:steps])

    return out
