"""out = lhsT.T @ rhs with hoisted loads, after the description of the AWS matmul tutorial.

Loops: 128 rows > 512 columns > 128 of the contraction. All tiles of lhsT for the rows (128 x 128
each) are read once per row tile, all tiles of rhs for the columns (128 x 512 each) once per output
tile.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

TM, TK, TN = 128, 128, 512


@nki.jit
def kernel(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    depth = K // TK
    assert rhs.shape[0] == K

    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for m in nl.affine_range(M // TM):
        left = nl.ndarray((depth, nl.par_dim(TK), TM), dtype=lhsT.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(depth):
            left[k, 0:TK, 0:TM] = nl.load(lhsT[k * TK : (k + 1) * TK, m * TM : (m + 1) * TM])

        for n in nl.affine_range(N // TN):
            right = nl.ndarray((depth, nl.par_dim(TK), TN), dtype=rhs.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(depth):
                right[k, 0:TK, 0:TN] = nl.load(rhs[k * TK : (k + 1) * TK, n * TN : (n + 1) * TN])

            acc = nl.zeros((nl.par_dim(TM), TN), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth):
                acc += nisa.nc_matmul(left[k, 0:TK, 0:TM], right[k, 0:TK, 0:TN])
            done = nl.copy(acc, dtype=out.dtype)
            nl.store(out[m * TM : (m + 1) * TM, n * TN : (n + 1) * TN], value=done)

    return out
