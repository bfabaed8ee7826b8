"""out = lhsT.T @ rhs in blocks of all dimensions, after the description of the AWS matmul tutorial.

Blocks of 16 row tiles, 2 column tiles and 8 contraction tiles, fewer where the shape has fewer.
Loops: column block > contraction block (sequential) > row block > column tile > row tile >
contraction tile. rhs is read once per column and contraction block (128 x 1,024 tiles), lhsT for
every block (128 x 2,048 tiles); sums of a column block over the contraction blocks stay in SBUF,
and leave packed in 128 x 1,024 stores.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

TM, TK, TN = 128, 128, 512


@nki.jit
def kernel(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    assert rhs.shape[0] == K
    BM, BN, BK = min(16, M // TM), min(2, N // TN), min(8, K // TK)
    wide_m, wide_n = BM * TM, BN * TN
    blocks_m, blocks_n, blocks_k = M // wide_m, N // wide_n, K // (BK * TK)
    assert blocks_m * wide_m == M
    assert blocks_n * wide_n == N
    assert blocks_k * BK * TK == K

    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for n in nl.affine_range(blocks_n):
        sums = nl.zeros((blocks_m, BM, BN, nl.par_dim(TM), TN), dtype=lhsT.dtype, buffer=nl.sbuf)

        for kb in nl.sequential_range(blocks_k):
            right = nl.ndarray((BK, nl.par_dim(TK), wide_n), dtype=rhs.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(BK):
                at = (kb * BK + k) * TK
                right[k, 0:TK, 0:wide_n] = nl.load(rhs[at : at + TK, n * wide_n : (n + 1) * wide_n])

            for mb in nl.affine_range(blocks_m):
                left = nl.ndarray((BK, nl.par_dim(TK), wide_m), dtype=lhsT.dtype, buffer=nl.sbuf)
                for k in nl.affine_range(BK):
                    at = (kb * BK + k) * TK
                    left[k, 0:TK, 0:wide_m] = nl.load(
                        lhsT[at : at + TK, mb * wide_m : (mb + 1) * wide_m]
                    )

                for bn in nl.affine_range(BN):
                    for bm in nl.affine_range(BM):
                        acc = nl.zeros((nl.par_dim(TM), TN), dtype=nl.float32, buffer=nl.psum)
                        for k in nl.affine_range(BK):
                            acc += nisa.nc_matmul(
                                left[k, 0:TK, bm * TM : (bm + 1) * TM],
                                right[k, 0:TK, bn * TN : (bn + 1) * TN],
                            )
                        sums[mb, bm, bn, 0:TM, 0:TN] += acc

        for mb in nl.affine_range(blocks_m):
            for bm in nl.affine_range(BM):
                packed = nl.ndarray((nl.par_dim(TM), wide_n), dtype=out.dtype, buffer=nl.sbuf)
                for bn in nl.affine_range(BN):
                    packed[0:TM, bn * TN : (bn + 1) * TN] = nl.copy(sums[mb, bm, bn, 0:TM, 0:TN])
                row = (mb * BM + bm) * TM
                nl.store(out[row : row + TM, n * wide_n : (n + 1) * wide_n], value=packed)

    return out
