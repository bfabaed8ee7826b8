"""NKIBench's gqa_full, reconstructed from the published counters of AccelOpt's best kernel.

out = softmax(q @ k.T / sqrt(D)) @ v, per query head, with the key and value head of its group. q
and k are read and transposed once, v is read once, all up front. Loops: member of the group > tile
of 128 queries > key/value head > blocks of 512 keys. The scores of one head and query tile are
made and used up before the next ones, by the baseline's instructions: none of them has to leave
the chip.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

P, BLOCK = 128, 512


@nki.jit
def kernel(q, k, v):
    tiles, _, heads, D = q.shape
    _, blocks, per_block, _, groups, _ = k.shape
    members = heads // groups
    half = heads // 2
    factor = np.float32(1.0) / np.sqrt(np.float32(D))

    out = nl.ndarray((1, groups, members, tiles, P, D), dtype=q.dtype, buffer=nl.shared_hbm)
    identity = nl.load(nl.shared_constant(np.identity(P, np.float32)))

    # Features on the partitions: q by head and tile, k by head and block of keys.
    qT = nl.ndarray((tiles, heads, nl.par_dim(D), P), dtype=q.dtype, buffer=nl.sbuf)
    for t in nl.affine_range(tiles):
        for side in nl.affine_range(2):
            q_tile = nl.load(q[t, 0:P, side * half : (side + 1) * half, 0:D])
            for h in nl.affine_range(half):
                flipped = nisa.nc_matmul(
                    q_tile[0:P, h, 0:D], identity, is_moving_onezero=True, is_transpose=True
                )
                qT[t, side * half + h, 0:D, 0:P] = nl.copy(flipped)

    kT = nl.ndarray((blocks, groups, nl.par_dim(D), BLOCK), dtype=k.dtype, buffer=nl.sbuf)
    v_tiles = nl.ndarray((tiles, nl.par_dim(P), groups * D), dtype=v.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(blocks):
        for b in nl.affine_range(per_block):
            k_tile = nl.load(k[0, j, b, 0:P, 0:groups, 0:D])
            for g in nl.affine_range(groups):
                flipped = nisa.nc_matmul(
                    k_tile[0:P, g, 0:D], identity, is_moving_onezero=True, is_transpose=True
                )
                kT[j, g, 0:D, b * P : (b + 1) * P] = nl.copy(flipped)
    for t in nl.affine_range(tiles):
        v_tiles[t, 0:P, 0 : groups * D] = nl.load(v[0, t, 0:P, 0 : groups * D])

    for r in nl.affine_range(members):
        for t in nl.affine_range(tiles):
            for g in nl.affine_range(groups):
                scores = nl.ndarray((blocks, nl.par_dim(P), BLOCK), dtype=q.dtype, buffer=nl.sbuf)
                tops = nl.ndarray((blocks, nl.par_dim(P), 1), dtype=q.dtype, buffer=nl.sbuf)
                top = nl.ndarray((nl.par_dim(P), 1), dtype=q.dtype, buffer=nl.sbuf)
                for j in nl.affine_range(blocks):
                    product = nisa.nc_matmul(
                        qT[t, members * g + r, 0:D, 0:P], kT[j, g, 0:D, 0:BLOCK]
                    )
                    scores[j, 0:P, 0:BLOCK] = nisa.tensor_scalar(
                        product, op0=nl.multiply, operand0=factor
                    )
                    tops[j, 0:P, 0:1] = nisa.tensor_reduce(
                        nl.max, data=scores[j, 0:P, 0:BLOCK], axis=[1], keepdims=True
                    )
                    top[0:P, 0:1] = nl.loop_reduce(tops[j, 0:P, 0:1], op=np.max, loop_indices=[j])
                below = nisa.tensor_scalar(
                    top,
                    op0=nl.maximum,
                    operand0=np.float32(-3.4028235e38),
                    op1=nl.multiply,
                    operand1=np.float32(-1.0),
                )

                powers = nl.ndarray((blocks, nl.par_dim(P), BLOCK), dtype=q.dtype, buffer=nl.sbuf)
                parts = nl.ndarray((blocks, nl.par_dim(P), 1), dtype=q.dtype, buffer=nl.sbuf)
                total = nl.ndarray((nl.par_dim(P), 1), dtype=q.dtype, buffer=nl.sbuf)
                for j in nl.affine_range(blocks):
                    powers[j, 0:P, 0:BLOCK] = nisa.activation(
                        op=nl.exp, data=scores[j, 0:P, 0:BLOCK], bias=below
                    )
                    parts[j, 0:P, 0:1] = nisa.tensor_reduce(
                        nl.add, data=powers[j, 0:P, 0:BLOCK], axis=[1], keepdims=True
                    )
                    total[0:P, 0:1] = nl.loop_reduce(
                        parts[j, 0:P, 0:1], op=np.add, loop_indices=[j]
                    )
                share = nisa.reciprocal(total)

                weights = nl.ndarray(
                    (blocks, per_block, nl.par_dim(P), P), dtype=q.dtype, buffer=nl.sbuf
                )
                for j in nl.affine_range(blocks):
                    normal = nisa.tensor_scalar(
                        powers[j, 0:P, 0:BLOCK], op0=nl.multiply, operand0=share
                    )
                    for b in nl.affine_range(per_block):
                        flipped = nisa.nc_matmul(
                            normal[0:P, b * P : (b + 1) * P],
                            identity,
                            is_moving_onezero=True,
                            is_transpose=True,
                        )
                        weights[j, b, 0:P, 0:P] = nl.copy(flipped)

                acc = nl.zeros((nl.par_dim(P), D), dtype=nl.float32, buffer=nl.psum)
                for j in nl.affine_range(blocks):
                    for b in nl.affine_range(per_block):
                        acc += nisa.nc_matmul(
                            weights[j, b, 0:P, 0:P],
                            v_tiles[per_block * j + b, 0:P, g * D : (g + 1) * D],
                        )
                o_tile = nl.copy(acc)
                nl.store(out[0, g, r, t, 0:P, 0:D], value=o_tile)

    return out
