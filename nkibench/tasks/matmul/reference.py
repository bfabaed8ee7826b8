"""out = lhs @ rhs."""

import numpy as np

M = 4096
K = 5120
N = 12288
P = 128


def get_inputs(seed):
    rng = np.random.RandomState(seed)
    lhs = rng.normal(0, 1, (M, K)).astype(np.float32)
    rhs = rng.normal(0, 1, (K, N)).astype(np.float32)
    return [lhs, rhs]


def forward(lhs, rhs):
    return lhs @ rhs


def transform_to_nki_inputs(inputs):
    lhs, rhs = inputs
    return [lhs.reshape(M // P, P, K // P, P), rhs.reshape(K // P, P, N)]


def transform_nki_outputs(outputs, reference):
    return [output.reshape(reference.shape) for output in outputs]


def signature():
    return [(M // P, P, K // P, P), (K // P, P, N)], (M, N)


def work():
    return {
        "hbm_bytes": 4 * (M * N + N * K + M * K),
        "matmul_flops": 2 * M * N * K,
        "vector_flops": 0,
    }
