"""Layer normalisation over rows by nl operations, after the description of the AWS tutorial's v1.

out = (x - mean) / sqrt(variance + 1e-5) * gamma + beta. One loop over tiles of 128 whole rows: the
mean and the mean square of the centred row by nl operations, then one operation per step of the
formula. gamma and beta are read once and broadcast for every tile.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

EPSILON = 1e-5


@nki.jit
def kernel(x, gamma, beta):
    count, width = x.shape
    rows = nl.tile_size.pmax
    assert count % rows == 0

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gamma_row = nl.load(gamma.reshape((1, width))[0:1, 0:width])
    beta_row = nl.load(beta.reshape((1, width))[0:1, 0:width])

    for tile in nl.affine_range(count // rows):
        top = tile * rows
        x_tile = nl.load(x[top : top + rows, 0:width])

        mean = nl.mean(x_tile, axis=[1])
        centred = nl.subtract(x_tile, mean)
        variance = nl.mean(nl.square(centred), axis=[1])
        scale = nl.rsqrt(nl.add(variance, EPSILON))
        normal = nl.multiply(centred, scale)

        scaled = nl.multiply(normal, gamma_row.broadcast_to((rows, width)))
        shifted = nl.add(scaled, beta_row.broadcast_to((rows, width)))
        nl.store(out[top : top + rows, 0:width], value=shifted)

    return out
