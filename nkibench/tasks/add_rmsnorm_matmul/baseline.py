import math

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, w, eps, z, g):
    M, K = x.shape
    N = w.shape[1]
    TILE_M = 128
    TILE_K = 128
    TILE_N = 512
    assert w.shape[0] == K
    assert z.shape[0] == M
    assert z.shape[1] == K
    assert g.shape[0] == K

    out = nl.ndarray((M, N), dtype=x.dtype, buffer=nl.shared_hbm)

    i_row = nl.arange(TILE_M)[:, None]
    i_col = nl.arange(K)[None, :]
    g_tile = nl.load(g.reshape((1, K))[nl.arange(1)[:, None], i_col])

    for i in nl.affine_range(M // TILE_M):
        x_tile = nl.load(x[i * TILE_M + i_row, i_col])
        z_tile = nl.load(z[i * TILE_M + i_row, i_col])
        a = nl.add(x_tile, z_tile)

        # Root mean square of each row.
        squared = nl.square(a)
        total = nl.sum(squared, axis=[1])
        mean = total / K
        shifted = nl.add(mean, eps)
        scale = nl.rsqrt(shifted)

        y = nl.multiply(a, scale)
        g_rows = g_tile.broadcast_to((TILE_M, K))
        y[...] = nl.multiply(y, g_rows)

        for n in nl.affine_range(N // TILE_N):
            acc = nl.zeros((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                w_tile = nl.load(
                    w[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N]
                )
                acc += nl.matmul(y[:, k * TILE_K : (k + 1) * TILE_K], w_tile)
            o_tile = nl.copy(acc)
            nl.store(
                out[i * TILE_M : (i + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], value=o_tile
            )

    return out
