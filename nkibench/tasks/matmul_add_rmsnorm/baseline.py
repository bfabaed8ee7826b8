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
    assert z.shape[1] == N
    assert g.shape[0] == N
    assert M % TILE_M == 0 and K % TILE_K == 0 and N % TILE_N == 0

    out = nl.ndarray((M, N), dtype=x.dtype, buffer=nl.shared_hbm)

    i_row = nl.arange(TILE_M)[:, None]
    i_out = nl.arange(N)[None, :]
    g_tile = nl.load(g.reshape((1, N))[nl.arange(1)[:, None], i_out])

    for i in nl.affine_range(M // TILE_M):
        # One row block of x @ w, collected tile by tile.
        product = nl.ndarray((TILE_M, N), dtype=x.dtype, buffer=nl.sbuf)
        x_tile = nl.load(x[i * TILE_M + i_row, nl.arange(K)[None, :]])
        for n in nl.affine_range(N // TILE_N):
            acc = nl.zeros((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                w_tile = nl.load(
                    w[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N]
                )
                acc += nl.matmul(x_tile[:, k * TILE_K : (k + 1) * TILE_K], w_tile)
            product[:, n * TILE_N : (n + 1) * TILE_N] = nl.copy(acc)

        z_tile = nl.load(z[i * TILE_M + i_row, i_out])
        y = nl.add(product, z_tile)

        # Root mean square of each row.
        squared = nl.square(y)
        total = nl.sum(squared, axis=[1])
        mean = total / N
        shifted = nl.add(mean, eps)
        scale = nl.rsqrt(shifted)

        normalized = nl.multiply(y, scale)
        g_rows = g_tile.broadcast_to((TILE_M, N))
        normalized[...] = nl.multiply(normalized, g_rows)
        nl.store(out[i * TILE_M + i_row, i_out], value=normalized)

    return out
