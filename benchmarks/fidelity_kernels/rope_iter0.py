"""NKIBench's rope; a guess at AccelOpt's best kernel of its first iteration.

512 columns per step of an affine loop, where the baseline has a Python loop (a guess), with the
halves of x read by a load each instead of one load and a copy; the result is put together and
leaves by one store per step: 512 stores, as the published gpsimd time says. The lower vector time
than the baseline's is that of the missing copy.
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
    i_all = nl.arange(features)[:, None]
    i_low = nl.arange(half)[:, None]
    i_high = half + nl.arange(half)[:, None]
    i_column = nl.arange(STEP)[None, :]

    for step in nl.affine_range(columns // STEP):
        at = STEP * step
        low_in = nl.load(x[i_low, at + i_column])
        high_in = nl.load(x[i_high, at + i_column])
        cos_tile = nl.load(cos[i_low, at + i_column])
        sin_tile = nl.load(sin[i_low, at + i_column])

        low_cos = nisa.tensor_tensor(low_in, cos_tile, op=nl.multiply)
        high_cos = nisa.tensor_tensor(high_in, cos_tile, op=nl.multiply)
        low_sin = nisa.tensor_tensor(low_in, sin_tile, op=nl.multiply)
        high_sin = nisa.tensor_tensor(high_in, sin_tile, op=nl.multiply)

        rotated = nl.ndarray((features, STEP), dtype=x.dtype, buffer=nl.sbuf)
        rotated[i_low, i_column] = nisa.tensor_tensor(low_cos, high_sin, op=nl.subtract)
        rotated[i_high, i_column] = nisa.tensor_tensor(high_cos, low_sin, op=nl.add)
        nl.store(out[i_all, at + i_column], value=rotated[i_all, i_column])

    return out
