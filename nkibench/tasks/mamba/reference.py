"""State space scan over M steps, for C channels with S states each.

h[c,s,i] = exp(delta[c,i] * a[c,s]) * h[c,s,i-1] + delta[c,i] * u[c,i] * b[s,i], from h = 0;
out[c,i] = sum over s of c[s,i] * h[c,s,i].
"""

import numpy as np

C = 256
M = 7168
S = 16


def get_inputs(seed):
    rng = np.random.RandomState(seed)
    delta = rng.normal(0, 0.05, (C, M)).astype(np.float32)
    u = rng.normal(0, 0.05, (C, M)).astype(np.float32)
    a = rng.normal(0, 0.05, (C, S)).astype(np.float32)
    b = rng.normal(0, 0.05, (S, M)).astype(np.float32)
    c = rng.normal(0, 0.05, (S, M)).astype(np.float32)
    return [delta, u, a, b, c]


def forward(delta, u, a, b, c):
    # Steps first: each step of the scan then reads contiguous rows.
    steps, drive = delta.T.copy(), (delta * u).T.copy()
    to_state, from_state = b.T.copy(), c.T.copy()
    out = np.empty((M, C), dtype=delta.dtype)
    state = np.zeros((C, S), dtype=delta.dtype)
    for i in range(M):
        state *= np.exp(steps[i, :, None] * a)
        state += drive[i, :, None] * to_state[i]
        out[i] = state @ from_state[i]
    return np.ascontiguousarray(out.T)


# Decays as they are in a trained model: exponents far from zero, where a truncated series fails.
STRESS = {"strong_decay": {"relative_l2": 3e-5}}


def stress_inputs(name, seed):
    delta, u, a, b, c = (array * np.float32(20) for array in get_inputs(seed))
    return [np.abs(delta), u, -2 * np.abs(a), b, c]


def transform_to_nki_inputs(inputs):
    return list(inputs)


def transform_nki_outputs(outputs, reference):
    return [output.reshape(reference.shape) for output in outputs]


def signature():
    return [(C, M), (C, M), (C, S), (S, M), (S, M)], (C, M)


def work():
    return {
        "hbm_bytes": 4 * (3 * C * M + C * S + 2 * S * M),
        "matmul_flops": 0,
        "vector_flops": 8 * M * C * S,
    }
