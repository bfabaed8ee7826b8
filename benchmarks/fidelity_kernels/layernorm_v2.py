"""Layer normalisation by bn_stats and bn_aggr, after the description of the AWS tutorial's v2.

out = (x - mean) / sqrt(variance + 1e-5) * gamma + beta. One loop over tiles of 128 whole rows;
bn_stats on pieces of up to 512 columns, one bn_aggr for mean and variance, then one tensor_scalar
that scales and shifts, before gamma and beta as in v1.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

EPSILON = 1e-5
PIECE = 512


@nki.jit
def kernel(x, gamma, beta):
    count, width = x.shape
    rows = nl.tile_size.pmax
    piece = min(PIECE, width)
    pieces = width // piece
    assert count % rows == 0
    assert width % piece == 0

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gamma_row = nl.load(gamma.reshape((1, width))[0:1, 0:width])
    beta_row = nl.load(beta.reshape((1, width))[0:1, 0:width])

    for tile in nl.affine_range(count // rows):
        top = tile * rows
        x_tile = nl.load(x[top : top + rows, 0:width])

        stats = nl.ndarray((nl.par_dim(rows), 6 * pieces), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.affine_range(pieces):
            stats[0:rows, 6 * i : 6 * i + 6] = nisa.bn_stats(
                x_tile[0:rows, piece * i : piece * i + piece], dtype=nl.float32
            )
        moments = nisa.bn_aggr(stats, dtype=nl.float32)

        # x * scale + shift, with shift = -mean * scale.
        scale = nl.rsqrt(nl.add(moments[0:rows, 1:2], EPSILON))
        shift = nisa.tensor_scalar(
            moments[0:rows, 0:1], op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=-1.0
        )
        normal = nisa.tensor_scalar(
            x_tile, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=shift
        )

        scaled = nl.multiply(normal, gamma_row.broadcast_to((rows, width)))
        shifted = nl.add(scaled, beta_row.broadcast_to((rows, width)))
        nl.store(out[top : top + rows, 0:width], value=shifted)

    return out
