"""Rotary embedding with given coefficients, feature axis first.

out = (x0 * cos - x1 * sin, x0 * sin + x1 * cos) for the halves x0, x1 of the features.
"""

import numpy as np

B = 1
H = 64
N = 4096
D = 128
L = B * H * N


def get_inputs(seed):
    rng = np.random.RandomState(seed)
    x = rng.normal(0, 1, (D, L)).astype(np.float32)
    cos = rng.normal(0, 1, (D // 2, L)).astype(np.float32)
    sin = rng.normal(0, 1, (D // 2, L)).astype(np.float32)
    # The coefficients are normal draws too: the rotation is not orthogonal.
    return [x, cos, sin]


def forward(x, cos, sin):
    first, second = x[: D // 2], x[D // 2 :]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos])


def transform_to_nki_inputs(inputs):
    return list(inputs)


def transform_nki_outputs(outputs, reference):
    return [output.reshape(reference.shape) for output in outputs]


def signature():
    return [(D, L), (D // 2, L), (D // 2, L)], (D, L)


def work():
    return {
        "hbm_bytes": 12 * B * H * N * D,
        "matmul_flops": 0,
        "vector_flops": 3 * B * H * N * D,
    }
