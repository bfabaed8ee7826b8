"""NKIBench's bmm, reconstructed from the published counters of AccelOpt's best kernel.

out[b] = lhs[b] @ rhs[b]. Loops: batch > tile of 128 rows > 1,024 columns > 512. All of a batch's
rhs (64 x 1,024 tiles) and lhs (128 x 64 tiles) are read once, lhs is transposed once, then come
the products and the stores of 128 x 1,024.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

P, SUB, WIDE = 128, 512, 1024


@nki.jit
def kernel(lhs, rhs):
    batches, M, K = lhs.shape
    N = rhs.shape[2]
    tiles = M // P
    assert M % P == 0
    assert N % WIDE == 0

    out = nl.ndarray((batches, tiles, P, N), dtype=lhs.dtype, buffer=nl.shared_hbm)
    identity = nl.load(nl.shared_constant(np.identity(P, np.float32)))

    for b in nl.affine_range(batches):
        right = nl.ndarray((nl.par_dim(K), N), dtype=rhs.dtype, buffer=nl.sbuf)
        for n in nl.affine_range(N // WIDE):
            right[0:K, n * WIDE : (n + 1) * WIDE] = nl.load(rhs[b, 0:K, n * WIDE : (n + 1) * WIDE])

        left = nl.ndarray((nl.par_dim(K), M), dtype=lhs.dtype, buffer=nl.sbuf)
        for m in nl.affine_range(tiles):
            rows = nl.load(lhs[b, m * P : (m + 1) * P, 0:K])
            flipped = nisa.nc_matmul(rows, identity, is_moving_onezero=True, is_transpose=True)
            left[0:K, m * P : (m + 1) * P] = nl.copy(flipped)

        for m in nl.affine_range(tiles):
            for n in nl.affine_range(N // WIDE):
                y_tile = nl.ndarray((nl.par_dim(P), WIDE), dtype=lhs.dtype, buffer=nl.sbuf)
                for h in nl.affine_range(WIDE // SUB):
                    at = n * WIDE + h * SUB
                    product = nisa.nc_matmul(
                        left[0:K, m * P : (m + 1) * P], right[0:K, at : at + SUB]
                    )
                    y_tile[0:P, h * SUB : (h + 1) * SUB] = nl.copy(product)
                nl.store(out[b, m, 0:P, n * WIDE : (n + 1) * WIDE], value=y_tile)

    return out
