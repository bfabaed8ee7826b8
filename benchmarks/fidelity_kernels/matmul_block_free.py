"""out = lhsT.T @ rhs in 256 x 1,024 blocks, after the description of the AWS matmul tutorial.

Loops: block of 2 row tiles > block of 2 column tiles > row tile > column tile > 128 of the
contraction. lhsT is read once per row block (tiles of 128 x 128), rhs once per pair of blocks
(tiles of 128 x 512), each for the whole contraction.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

TM, TK, TN = 128, 128, 512
BM, BN = 2, 2


@nki.jit
def kernel(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    depth = K // TK
    assert rhs.shape[0] == K
    assert M % (BM * TM) == 0
    assert N % (BN * TN) == 0

    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for m in nl.affine_range(M // (BM * TM)):
        left = nl.ndarray((BM, depth, nl.par_dim(TK), TM), dtype=lhsT.dtype, buffer=nl.sbuf)
        for bm in nl.affine_range(BM):
            row = (m * BM + bm) * TM
            for k in nl.affine_range(depth):
                left[bm, k, 0:TK, 0:TM] = nl.load(lhsT[k * TK : (k + 1) * TK, row : row + TM])

        for n in nl.affine_range(N // (BN * TN)):
            right = nl.ndarray((BN, depth, nl.par_dim(TK), TN), dtype=rhs.dtype, buffer=nl.sbuf)
            for bn in nl.affine_range(BN):
                column = (n * BN + bn) * TN
                for k in nl.affine_range(depth):
                    right[bn, k, 0:TK, 0:TN] = nl.load(
                        rhs[k * TK : (k + 1) * TK, column : column + TN]
                    )

            for bm in nl.affine_range(BM):
                for bn in nl.affine_range(BN):
                    row = (m * BM + bm) * TM
                    column = (n * BN + bn) * TN
                    acc = nl.zeros((nl.par_dim(TM), TN), dtype=nl.float32, buffer=nl.psum)
                    for k in nl.affine_range(depth):
                        acc += nisa.nc_matmul(left[bm, k, 0:TK, 0:TM], right[bn, k, 0:TK, 0:TN])
                    done = nl.copy(acc, dtype=out.dtype)
                    nl.store(out[row : row + TM, column : column + TN], value=done)

    return out
