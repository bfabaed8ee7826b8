"""out = lhsT.T @ rhs tile by tile, after the description of the AWS matmul tutorial.

Loops: 128 rows > 512 columns > 128 of the contraction. Both operand tiles are read for every
product (128 x 128 and 128 x 512), sums stay in PSUM.
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

    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for m in nl.affine_range(M // TM):
        for n in nl.affine_range(N // TN):
            acc = nl.zeros((nl.par_dim(TM), TN), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TK):
                left = nl.load(lhsT[k * TK : (k + 1) * TK, m * TM : (m + 1) * TM])
                right = nl.load(rhs[k * TK : (k + 1) * TK, n * TN : (n + 1) * TN])
                acc += nisa.nc_matmul(left, right)
            done = nl.copy(acc, dtype=out.dtype)
            nl.store(out[m * TM : (m + 1) * TM, n * TN : (n + 1) * TN], value=done)

    return out
