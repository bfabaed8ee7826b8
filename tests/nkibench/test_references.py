"""References, inputs and layouts, against formulas written down plainly a second time."""

from __future__ import annotations

import numpy as np
import pytest

from nkibench.suite import folders, suite

TASK_NAMES = [folder.path.name for folder in folders()]
ALL_VARIANTS = [name for name in suite() if "@" in name]

# Shapes of the natural inputs of the small variants, in the order they are drawn.
DRAWS = {
    "swiglu": [(1024, 512), (512, 1024), (1024, 512), (512, 1024)],
    "matmul_add_rmsnorm": [(256, 256), (256, 1024), (256, 1024), (1024,)],
    "add_rmsnorm_matmul": [(256, 256), (256, 1024), (256, 256), (256,)],
    "matmul": [(256, 2048), (2048, 2048)],
    "gqa_full": [(1, 1024, 4, 128), (1, 1024, 2, 128), (1, 1024, 2, 128)],
    "rmsnorm_matmul": [(2048, 512), (512, 1024)],
    "rope_single_freq_apply": [(128, 2048), (64, 2048), (64, 2048)],
    "bmm": [(2, 1024, 64), (2, 64, 2048)],
    "bmm_softmax": [(2, 1024, 64), (2, 64, 2048)],
    "transpose_matmul": [(256, 1024), (256, 1728)],
    "lora": [(1024, 1024), (1024, 1024), (1024, 64), (64, 1024)],
    "adamw": [(192, 2048)] * 4,
    "silu": [(256, 2048)],
    "mamba": [(256, 512), (256, 512), (256, 4), (4, 512), (4, 512)],
}


def small(name):
    return suite()[f"{name}@small"]()


@pytest.mark.parametrize("name", TASK_NAMES)
def test_inputs_are_the_published_stream_in_the_published_order(name):
    drawn = small(name).reference.inputs(42)
    arrays = [value for value in drawn if isinstance(value, np.ndarray)]
    np.random.seed(42)
    sigma = 0.05 if name == "mamba" else 1
    expected = [np.random.normal(0, sigma, s).astype(np.float32) for s in DRAWS[name]]
    if name == "adamw":
        expected[3] = np.abs(expected[3])
    for array, want in zip(arrays, expected, strict=True):
        assert np.array_equal(array, want)
    # Two tasks take eps as their third argument.
    scalars = [(i, v) for i, v in enumerate(drawn) if not isinstance(v, np.ndarray)]
    assert scalars == ([(2, 1e-5)] if "add" in name else [])


def swiglu(x, w_up, w_down, w_gate):
    gate = x @ w_gate
    with np.errstate(over="ignore"):
        return (gate / (1 + np.exp(-gate)) * (x @ w_up)) @ w_down


def matmul_add_rmsnorm(x, w, eps, z, g):
    y = x @ w + z
    return y * g / np.sqrt((y**2).mean(axis=1) + eps)[:, None]


def add_rmsnorm_matmul(x, w, eps, z, g):
    y = x + z
    return (y * g / np.sqrt((y**2).mean(axis=1) + eps)[:, None]) @ w


def gqa_full(q, k, v):
    # Query head h uses key and value head h // group.
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    weights = np.exp(np.einsum("bihd,bjhd->bhij", q, k, optimize=True) / np.sqrt(q.shape[3]))
    out = np.einsum("bhij,bjhd->bhid", weights, v, optimize=True)
    return out / weights.sum(axis=3, keepdims=True)


def rmsnorm_matmul(x, w):
    return (x / np.sqrt((x**2).mean(axis=1))[:, None]) @ w


def rope(x, cos, sin):
    # Rotation of the complex number x0 + i x1.
    half = len(x) // 2
    turned = (x[:half] + 1j * x[half:]) * (cos + 1j * sin)
    return np.concatenate([turned.real, turned.imag])


def bmm(lhs, rhs):
    return np.einsum("bik,bkj->bij", lhs, rhs, optimize=True)


def bmm_softmax(lhs, rhs):
    weights = np.exp(bmm(lhs, rhs))
    return weights / weights.sum(axis=2, keepdims=True)


def adamw(theta, g, m, v):
    lr, decay = 1e-3, 0.01
    first = (0.9 * m + 0.1 * g) / 0.1
    second = (0.999 * v + 0.001 * g**2) / 0.001
    return theta * (1 - lr * decay) - lr * first / (np.sqrt(second) + 1e-8)


def mamba(delta, u, a, b, c):
    h = np.zeros(a.shape)
    out = np.empty_like(delta)
    for i in range(delta.shape[1]):
        step = delta[:, i, None]
        h = np.exp(step * a) * h + step * u[:, i, None] * b[None, :, i]
        out[:, i] = (h * c[None, :, i]).sum(axis=1)
    return out


FORMULAS = {
    "swiglu": swiglu,
    "matmul_add_rmsnorm": matmul_add_rmsnorm,
    "add_rmsnorm_matmul": add_rmsnorm_matmul,
    "matmul": lambda lhs, rhs: lhs @ rhs,
    "gqa_full": gqa_full,
    "rmsnorm_matmul": rmsnorm_matmul,
    "rope_single_freq_apply": rope,
    "bmm": bmm,
    "bmm_softmax": bmm_softmax,
    "transpose_matmul": lambda lhs, rhs: np.einsum("km,kn->mn", lhs, rhs, optimize=True),
    "lora": lambda x, w, a, b: x @ (w + a @ b),
    "adamw": adamw,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "mamba": mamba,
}


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_a_reference_is_its_formula_and_has_the_declared_signature(name):
    # One test, because drawing and computing take most of its time.
    task = suite()[name]()
    inputs = task.reference.inputs(21)
    for spec, argument in zip(task.arguments, task.reference.kernel_inputs(inputs), strict=True):
        if spec.value is None:
            assert (argument.shape, argument.dtype.name) == (spec.shape, spec.dtype)
        else:
            assert argument == spec.value
    output = task.reference.forward(inputs)
    assert (output.shape, output.dtype) == (task.output_shape, np.float32)

    exact = [v.astype(np.float64) if isinstance(v, np.ndarray) else v for v in inputs]
    want = FORMULAS[name.partition("@")[0]](*exact)
    # A tenth of the tolerance: the reference may not use it up.
    limit = 0.1 * task.relative_l2_tolerance
    assert np.linalg.norm(output.astype(np.float64) - want) < limit * np.linalg.norm(want)


def test_adamw_draws_a_non_negative_second_moment():
    assert small("adamw").reference.inputs(63)[3].min() >= 0


def test_ragged_variants_are_ragged():
    assert small("adamw").output_shape[0] % 128 == 64
    assert small("transpose_matmul").output_shape[1] % 512 == 192
    # Here a whole half block lies past the last column.
    assert suite()["transpose_matmul@ragged"]().output_shape[1] % 1024 == 300


def laid_out(name):
    task = small(name)
    inputs = task.reference.inputs(21)
    return inputs, task.reference.kernel_inputs(inputs)


def test_swiglu_splits_rows_into_blocks_of_512_and_columns_into_chunks_of_128():
    (x, w_up, w_down, w_gate), (kx, ku, kd, kg) = laid_out("swiglu")
    assert kx[1, 2, 5, 3, 7] == x[512 + 2 * 128 + 5, 3 * 128 + 7]
    assert ku[2, 5, 700] == w_up[2 * 128 + 5, 700]
    assert kd[6, 5, 300] == w_down[6 * 128 + 5, 300]
    assert kg[2, 5, 700] == w_gate[2 * 128 + 5, 700]


def test_matmul_splits_rows_and_contraction_into_chunks_of_128():
    (lhs, rhs), (kl, kr) = laid_out("matmul")
    assert kl[1, 5, 9, 7] == lhs[128 + 5, 9 * 128 + 7]
    assert kr[9, 5, 1500] == rhs[9 * 128 + 5, 1500]


def test_gqa_full_splits_positions_into_tiles():
    (q, k, v), (kq, kk, kv) = laid_out("gqa_full")
    assert kq[3, 5, 2, 7] == q[0, 3 * 128 + 5, 2, 7]
    assert kk[0, 1, 2, 5, 1, 7] == k[0, 512 + 2 * 128 + 5, 1, 7]
    assert kv[0, 6, 5, 128 + 7] == v[0, 6 * 128 + 5, 1, 7]


def test_gqa_full_puts_the_members_of_a_group_side_by_side():
    task = small("gqa_full")
    reference = np.zeros(task.output_shape, np.float32)
    result = np.arange(reference.size, dtype=np.float32).reshape(1, 2, 2, 8, 128, 128)
    natural = task.reference.natural_output([result], reference)
    assert natural[0, 3, 128 + 5, 7] == result[0, 1, 1, 1, 5, 7]


def test_rmsnorm_matmul_splits_rows_into_chunks_of_128():
    (x, w), (kx, kw) = laid_out("rmsnorm_matmul")
    assert kx[3, 5, 300] == x[3 * 128 + 5, 300]
    assert kw[2, 5, 700] == w[2 * 128 + 5, 700]


def test_transpose_matmul_gives_each_partition_consecutive_rows():
    (lhs, rhs), (kl, kr) = laid_out("transpose_matmul")
    assert kl[5, 1, 300] == lhs[2 * 5 + 1, 300]
    assert kr[5, 1, 1700] == rhs[2 * 5 + 1, 1700]


def test_lora_splits_rows_into_blocks_of_512_and_columns_into_chunks_of_128():
    (x, w, a, b), (kx, kw, ka, kb) = laid_out("lora")
    assert kx[1, 2, 5, 3, 7] == x[512 + 2 * 128 + 5, 3 * 128 + 7]
    assert kw[2, 5, 700] == w[2 * 128 + 5, 700]
    assert ka[2, 5, 60] == a[2 * 128 + 5, 60]
    assert kb is b


def test_silu_gives_each_partition_consecutive_rows():
    (x,), (kx,) = laid_out("silu")
    assert np.array_equal(kx[5, 1], x[2 * 5 + 1])


@pytest.mark.parametrize(
    "name",
    ["matmul_add_rmsnorm", "add_rmsnorm_matmul", "rope_single_freq_apply", "bmm", "adamw", "mamba"],
)
def test_other_tasks_pass_their_inputs_unchanged(name):
    inputs, arguments = laid_out(name)
    assert all(a is b for a, b in zip(inputs, arguments, strict=True))


@pytest.mark.parametrize("name", TASK_NAMES)
def test_an_output_is_put_back_in_order(name):
    task = small(name)
    reference = np.arange(np.prod(task.output_shape), dtype=np.float32).reshape(task.output_shape)
    natural = task.reference.natural_output([reference.reshape(-1)], reference)
    assert np.array_equal(natural, reference)
