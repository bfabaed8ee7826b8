"""NKIBench's transpose_matmul, reconstructed from the published counters of AccelOpt's best.

out = lhs.T @ rhs, the contraction index being depth * partition + i. Loops as in the baseline:
1,024 rows > 1,024 columns > 128 rows > 512 columns > i. The last column block is a nest of its
own: it reads and stores its 704 columns only, and its last products are 256 columns wide instead
of 512, over a few columns of zeros.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

P, SUB, WIDE, STEP = 128, 512, 1024, 256


@nki.jit
def kernel(lhs, rhs):
    rows, depth, M = lhs.shape
    N = rhs.shape[2]
    full, tail = N // WIDE, N % WIDE
    per_group = WIDE // P
    assert M % WIDE == 0

    out = nl.ndarray((M // P, P, N), dtype=lhs.dtype, buffer=nl.shared_hbm)

    # Widths of the tail's products, and of the tile that holds their right-hand sides.
    widths = [min(SUB, -(-(tail - at) // STEP) * STEP) for at in range(0, tail, SUB)]
    padded = sum(widths)

    for group in nl.affine_range(M // WIDE):
        left = nl.ndarray((depth, nl.par_dim(rows), WIDE), dtype=lhs.dtype, buffer=nl.sbuf)
        for i in nl.affine_range(depth):
            left[i, 0:rows, 0:WIDE] = nl.load(lhs[0:rows, i, group * WIDE : (group + 1) * WIDE])

        for n in nl.affine_range(full):
            right = nl.ndarray((depth, nl.par_dim(rows), WIDE), dtype=rhs.dtype, buffer=nl.sbuf)
            for i in nl.affine_range(depth):
                right[i, 0:rows, 0:WIDE] = nl.load(rhs[0:rows, i, n * WIDE : (n + 1) * WIDE])

            for m in nl.affine_range(per_group):
                y_tile = nl.ndarray((nl.par_dim(P), WIDE), dtype=lhs.dtype, buffer=nl.sbuf)
                for h in nl.affine_range(WIDE // SUB):
                    acc = nl.zeros((nl.par_dim(P), SUB), dtype=nl.float32, buffer=nl.psum)
                    for i in nl.affine_range(depth):
                        acc += nisa.nc_matmul(
                            left[i, 0:rows, m * P : (m + 1) * P],
                            right[i, 0:rows, h * SUB : (h + 1) * SUB],
                        )
                    y_tile[0:P, h * SUB : (h + 1) * SUB] = nl.copy(acc)
                nl.store(out[per_group * group + m, 0:P, n * WIDE : (n + 1) * WIDE], value=y_tile)

        if tail:
            rest = nl.ndarray((depth, nl.par_dim(rows), padded), dtype=rhs.dtype, buffer=nl.sbuf)
            for i in nl.affine_range(depth):
                rest[i, 0:rows, 0:tail] = nl.load(rhs[0:rows, i, full * WIDE : N])
                if padded > tail:
                    rest[i, 0:rows, tail:padded] = nisa.memset(
                        (rows, padded - tail), value=0, dtype=rhs.dtype
                    )

            for m in nl.affine_range(per_group):
                y_rest = nl.ndarray((nl.par_dim(P), padded), dtype=lhs.dtype, buffer=nl.sbuf)
                for h, width in enumerate(widths):
                    at = h * SUB
                    acc_rest = nl.zeros((nl.par_dim(P), width), dtype=nl.float32, buffer=nl.psum)
                    for i in nl.affine_range(depth):
                        acc_rest += nisa.nc_matmul(
                            left[i, 0:rows, m * P : (m + 1) * P],
                            rest[i, 0:rows, at : at + width],
                        )
                    y_rest[0:P, at : at + width] = nl.copy(acc_rest)
                nl.store(
                    out[per_group * group + m, 0:P, full * WIDE : N], value=y_rest[0:P, 0:tail]
                )

    return out
