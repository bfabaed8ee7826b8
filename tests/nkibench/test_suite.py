from __future__ import annotations

import ast
import shutil

import numpy as np
import pytest

from accelopt import TaskError
from accelopt.plugins import installed
from accelopt.user_task import load_user_task
from nkibench.loader import fill_in, read_folder
from nkibench.suite import TASKS, folders, suite

TASK_NAMES = [folder.path.name for folder in folders()]
SMALL = [f"{name}@small" for name in TASK_NAMES]


def test_every_folder_is_registered_under_its_name_with_a_small_variant():
    names = installed().task_names()
    for name in ("silu", "adamw", "add_rmsnorm_matmul"):
        assert f"nkibench/{name}" in names
        assert f"nkibench/{name}@small" in names


def test_tasks_come_in_the_order_of_the_published_table():
    assert [n for n in suite() if "@" not in n] == TASK_NAMES
    assert [folder.number for folder in folders()] == sorted(f.number for f in folders())


@pytest.mark.parametrize(
    ("name", "vector", "matmul", "hbm"),
    [
        ("silu", 88_080_384, 0, 234_881_024),
        ("adamw", 156_893_184, 0, 448_266_240),
        ("add_rmsnorm_matmul", 25_165_824, 17_179_869_184, 75_501_568),
    ],
)
def test_roofline_work_is_the_published_one(name, vector, matmul, hbm):
    work = suite()[name]().work
    assert (work.vector_flops, work.matmul_flops, work.hbm_bytes) == (vector, matmul, hbm)
    assert not work.from_bytes_alone


@pytest.mark.parametrize(
    ("name", "shapes", "output"),
    [
        ("silu", [(128, 32, 7168)], (4096, 7168)),
        ("adamw", [(10944, 2048)] * 4, (10944, 2048)),
        (
            "add_rmsnorm_matmul",
            [(4096, 1024), (1024, 2048), (), (4096, 1024), (1024,)],
            (4096, 2048),
        ),
    ],
)
def test_full_shapes_are_the_published_ones(name, shapes, output):
    task = suite()[name]()
    assert [a.shape for a in task.arguments] == shapes
    assert task.output_shape == output
    assert task.seeds == (0, 21, 42, 63, 84)
    assert task.relative_l2_tolerance == 2e-5
    assert task.locator == f"task:nkibench/{name}"
    assert task.min_float_bits == 32


@pytest.mark.parametrize("name", SMALL)
def test_the_declared_signature_is_what_is_drawn(name):
    task = suite()[name]()
    inputs = task.reference.inputs(21)
    laid_out = task.reference.kernel_inputs(inputs)
    for spec, argument in zip(task.arguments, laid_out, strict=True):
        if spec.value is None:
            assert (argument.shape, argument.dtype.name) == (spec.shape, spec.dtype)
        else:
            assert argument == spec.value
    output = task.reference.forward(inputs)
    assert (output.shape, output.dtype) == (task.output_shape, np.float32)


def test_inputs_are_the_published_stream_in_the_published_order():
    task = suite()["add_rmsnorm_matmul@small"]()
    x, w, eps, z, g = task.reference.inputs(42)
    np.random.seed(42)
    expected = [
        np.random.normal(0, 1, s).astype(np.float32)
        for s in ((256, 256), (256, 1024), (256, 256), (256,))
    ]
    for drawn, want in zip((x, w, z, g), expected, strict=True):
        assert np.array_equal(drawn, want)
    assert eps == 1e-5


def test_adamw_draws_theta_g_m_and_a_non_negative_v():
    task = suite()["adamw@small"]()
    drawn = task.reference.inputs(63)
    rng = np.random.RandomState(63)
    raw = [rng.normal(0, 1, (192, 2048)).astype(np.float32) for _ in range(4)]
    for array, want in zip(drawn, [*raw[:3], np.abs(raw[3])], strict=True):
        assert np.array_equal(array, want)
    assert drawn[3].min() >= 0


def test_drawing_leaves_the_global_generator_alone():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    suite()["silu@small"]().reference.inputs(0)
    assert np.array_equal(np.random.get_state()[1], before)


def test_adamw_small_keeps_a_ragged_last_row_tile():
    assert suite()["adamw@small"]().output_shape[0] % 128 == 64


def test_silu_reference_is_x_times_sigmoid():
    task = suite()["silu@small"]()
    (x,) = task.reference.inputs(0)
    want = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    assert np.allclose(task.reference.forward([x]), want, rtol=1e-6, atol=1e-7)


def test_silu_gives_each_partition_consecutive_rows():
    task = suite()["silu@small"]()
    (x,) = task.reference.inputs(0)
    (laid_out,) = task.reference.kernel_inputs([x])
    assert np.array_equal(laid_out[5, 1], x[2 * 5 + 1])
    assert np.array_equal(task.reference.natural_output([laid_out], x), x)


def test_the_text_a_planner_reads_states_the_variants_sizes():
    full, small = suite()["silu"](), suite()["silu@small"]()
    assert "M = 4096\n" in full.reference_source
    assert "M = 256\n" in small.reference_source
    assert full.fingerprint != small.fingerprint
    assert full.baseline == small.baseline


def test_published_figures_belong_to_the_full_shape_only():
    assert suite()["silu"]().published["trn1_baseline_latency_us"] == 1333.232
    assert suite()["silu@small"]().published == {}


@pytest.mark.parametrize("folder", folders(), ids=TASK_NAMES)
def test_the_reference_file_states_the_sizes_of_the_toml(folder):
    text = (folder.path / "reference.py").read_text()
    assert fill_in(text, folder.sizes, folder.path) == text


@pytest.mark.parametrize("folder", folders(), ids=TASK_NAMES)
def test_a_task_folder_also_works_as_a_persons_own_kernel(folder):
    task = load_user_task(folder.path / "baseline.py", folder.path / "reference.py")
    assert task.arguments == folder.build().arguments


@pytest.mark.parametrize("folder", folders(), ids=TASK_NAMES)
def test_a_baseline_takes_its_sizes_from_its_arguments(folder):
    # 128 and 512 are tile sizes; the published extents must not appear.
    tree = ast.parse((folder.path / "baseline.py").read_text())
    numbers = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    sizes = {n for n in folder.sizes.values() if n != 1024}
    assert not numbers & sizes


def test_adding_a_task_means_adding_a_folder(tmp_path):
    shutil.copytree(TASKS / "silu", tmp_path / "tasks" / "swish")
    made = suite(tmp_path / "tasks")
    assert list(made) == ["swish", "swish@small"]
    assert made["swish"]().name == "nkibench/swish"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("number = 13", ""), "has no key 'number'"),
        (("number = 13", "number = ["), r"task\.toml"),
        (("tolerance = 2e-5", "tolerance = 'small'"), r"task\.toml"),
        (("M = 4096", "Q = 4096"), "does not assign Q"),
    ],
)
def test_a_broken_folder_names_its_file(tmp_path, change, message):
    shutil.copytree(TASKS / "silu", tmp_path / "swish")
    toml = tmp_path / "swish" / "task.toml"
    toml.write_text(toml.read_text().replace(*change))
    with pytest.raises(TaskError, match=message):
        read_folder(tmp_path / "swish").build()
