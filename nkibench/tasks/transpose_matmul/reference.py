"""out = lhs^T @ rhs."""

import numpy as np

M = 4096
K = 2048
N = 10944
P = 128


def get_inputs(seed):
    rng = np.random.RandomState(seed)
    lhs = rng.normal(0, 1, (K, M)).astype(np.float32)
    rhs = rng.normal(0, 1, (K, N)).astype(np.float32)
    return [lhs, rhs]


def forward(lhs, rhs):
    return lhs.T @ rhs


def transform_to_nki_inputs(inputs):
    # Each partition owns K / P consecutive rows: k = (K / P) * p + i.
    lhs, rhs = inputs
    return [lhs.reshape(P, K // P, M), rhs.reshape(P, K // P, N)]


def transform_nki_outputs(outputs, reference):
    return [output.reshape(reference.shape) for output in outputs]


def signature():
    return [(P, K // P, M), (P, K // P, N)], (M, N)


def work():
    return {
        "hbm_bytes": 4 * (M * N + N * K + M * K),
        "matmul_flops": 2 * M * N * K,
        "vector_flops": 0,
    }
