"""Low-rank adapted matmul: out = x @ w + (x @ a) @ b."""

import numpy as np

M = 4096
N = 12288
K = 5120
R = 128
P = 128


def get_inputs(seed):
    rng = np.random.RandomState(seed)
    x = rng.normal(0, 1, (M, K)).astype(np.float32)
    w = rng.normal(0, 1, (K, N)).astype(np.float32)
    a = rng.normal(0, 1, (K, R)).astype(np.float32)
    b = rng.normal(0, 1, (R, N)).astype(np.float32)
    return [x, w, a, b]


def forward(x, w, a, b):
    return x @ w + (x @ a) @ b


def transform_to_nki_inputs(inputs):
    x, w, a, b = inputs
    return [
        # row = 512 * block + 128 * tile + partition; column = 128 * chunk + element
        x.reshape(M // 512, 4, P, K // P, P),
        w.reshape(K // P, P, N),
        a.reshape(K // P, P, R),
        b,
    ]


def transform_nki_outputs(outputs, reference):
    return [output.reshape(reference.shape) for output in outputs]


def signature():
    x, w, a = (M // 512, 4, P, K // P, P), (K // P, P, N), (K // P, P, R)
    return [x, w, a, (R, N)], (M, N)


def work():
    return {
        "hbm_bytes": 4 * (M * K + K * N + K * R + R * N + M * N),
        "matmul_flops": 2 * M * N * K + 2 * M * K * R + 2 * M * N * R,
        "vector_flops": M * N,
    }
