"""NKIBench's rope, reconstructed from the published counters of AccelOpt's best kernel.

512 columns per step of an affine loop (a guess: the counters do not tell the kind of loop). Each
half of x comes by a load of its own to partition 0, and each half of the result leaves by a store
of its own from a tile of its own: 1,024 stores in all, as the published gpsimd time says, and the
published bytes.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

STEP = 512


@nki.jit
def kernel(x, cos, sin):
    features, columns = x.shape
    half = features // 2
    assert columns % STEP == 0

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_low = nl.arange(half)[:, None]
    i_high = half + nl.arange(half)[:, None]
    i_column = nl.arange(STEP)[None, :]

    for step in nl.affine_range(columns // STEP):
        at = STEP * step
        low_in = nl.load(x[i_low, at + i_column])
        high_in = nl.load(x[i_high, at + i_column])
        cos_tile = nl.load(cos[i_low, at + i_column])
        sin_tile = nl.load(sin[i_low, at + i_column])

        low = nisa.tensor_tensor(
            nisa.tensor_tensor(low_in, cos_tile, op=nl.multiply),
            nisa.tensor_tensor(high_in, sin_tile, op=nl.multiply),
            op=nl.subtract,
        )
        nl.store(out[i_low, at + i_column], value=low)

        high = nisa.tensor_tensor(
            nisa.tensor_tensor(high_in, cos_tile, op=nl.multiply),
            nisa.tensor_tensor(low_in, sin_tile, op=nl.multiply),
            op=nl.add,
        )
        nl.store(out[i_high, at + i_column], value=high)

    return out
