"""Batched matmul: out[b] = lhs[b] @ rhs[b]."""

import numpy as np

B = 16
M = 4096
K = 64
N = 4096


def get_inputs(seed):
    rng = np.random.RandomState(seed)
    lhs = rng.normal(0, 1, (B, M, K)).astype(np.float32)
    rhs = rng.normal(0, 1, (B, K, N)).astype(np.float32)
    return [lhs, rhs]


def forward(lhs, rhs):
    return np.matmul(lhs, rhs)


def transform_to_nki_inputs(inputs):
    return list(inputs)


def transform_nki_outputs(outputs, reference):
    return [output.reshape(reference.shape) for output in outputs]


def signature():
    return [(B, M, K), (B, K, N)], (B, M, N)


def work():
    return {
        "hbm_bytes": 4 * B * (M * N + N * K + M * K),
        "matmul_flops": 2 * B * M * N * K,
        "vector_flops": 0,
    }
