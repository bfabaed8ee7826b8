"""NKIBench's rope, after the description of AccelOpt's optimized sample.

out = (x0 * cos - x1 * sin, x0 * sin + x1 * cos) for the halves x0, x1 of the features. 2,048
columns per step of a Python loop; each of the four products reads both of its operands itself
(eight loads of half the features x 2,048), and the two halves of the result are stored one by one.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

STEP = 2048


@nki.jit
def kernel(x, cos, sin):
    features, columns = x.shape
    half = features // 2
    assert columns % STEP == 0

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_low = nl.arange(half)[:, None]
    i_high = half + nl.arange(half)[:, None]
    i_column = nl.arange(STEP)[None, :]

    for at in range(0, columns, STEP):
        low_cos = nisa.tensor_tensor(
            nl.load(x[i_low, at + i_column]), nl.load(cos[i_low, at + i_column]), op=nl.multiply
        )
        high_sin = nisa.tensor_tensor(
            nl.load(x[i_high, at + i_column]), nl.load(sin[i_low, at + i_column]), op=nl.multiply
        )
        low_sin = nisa.tensor_tensor(
            nl.load(x[i_low, at + i_column]), nl.load(sin[i_low, at + i_column]), op=nl.multiply
        )
        high_cos = nisa.tensor_tensor(
            nl.load(x[i_high, at + i_column]), nl.load(cos[i_low, at + i_column]), op=nl.multiply
        )
        low = nisa.tensor_tensor(low_cos, high_sin, op=nl.subtract)
        high = nisa.tensor_tensor(low_sin, high_cos, op=nl.add)
        nl.store(out[i_low, at + i_column], value=low)
        nl.store(out[i_high, at + i_column], value=high)

    return out
