from __future__ import annotations

import ast
import shutil

import numpy as np
import pytest

from accelopt import TaskError
from accelopt.device import percent_of_peak
from accelopt.plugins import installed
from accelopt.user_task import load_user_task
from nkibench.loader import fill_in, read_folder
from nkibench.suite import TASKS, folders, suite

TASK_NAMES = [folder.path.name for folder in folders()]


@pytest.fixture(scope="module")
def trn1():
    return installed().backend("sim-trn1").device


def test_every_folder_is_registered_under_its_name_with_a_small_variant():
    names = installed().task_names()
    assert len(TASK_NAMES) == 14
    for name in TASK_NAMES:
        assert f"nkibench/{name}" in names
        assert f"nkibench/{name}@small" in names


@pytest.mark.parametrize("folder", folders(), ids=TASK_NAMES)
def test_a_task_has_two_more_shapes(folder):
    shapes = {tuple(sorted((folder.sizes | sizes).items())) for sizes in folder.variants.values()}
    assert len(shapes - {tuple(sorted(folder.sizes.items()))}) >= 2
    # A variant states every size: nothing of it depends on the published shape.
    assert all(set(sizes) == set(folder.sizes) for sizes in folder.variants.values())


def test_tasks_come_in_the_order_of_the_published_table():
    assert [n for n in suite() if "@" not in n] == TASK_NAMES
    assert [folder.number for folder in folders()] == sorted(f.number for f in folders())


# Vector FLOPs, matmul FLOPs, HBM bytes.
WORK = {
    "swiglu": (62_914_560, 77_309_411_328, 71_303_168),
    "matmul_add_rmsnorm": (50_331_648, 34_359_738_368, 117_448_704),
    "add_rmsnorm_matmul": (25_165_824, 17_179_869_184, 75_501_568),
    "matmul": (0, 515_396_075_520, 536_870_912),
    "gqa_full": (1_342_177_280, 137_438_953_472, 100_663_296),
    "rmsnorm_matmul": (16_777_216, 17_179_869_184, 58_720_256),
    "rope_single_freq_apply": (100_663_296, 0, 402_653_184),
    "bmm": (0, 34_359_738_368, 1_107_296_256),
    "bmm_softmax": (1_342_177_280, 34_359_738_368, 1_107_296_256),
    "transpose_matmul": (0, 183_609_851_904, 302_514_176),
    "lora": (50_331_648, 533_649_686_528, 545_783_808),
    "adamw": (156_893_184, 0, 448_266_240),
    "silu": (88_080_384, 0, 234_881_024),
    "mamba": (234_881_024, 0, 22_953_984),
}

# Share of the roofline of the published baseline latency, in percent.
BASELINE_PERCENT = {
    "swiglu": 77.10,
    "matmul_add_rmsnorm": 54.25,
    "add_rmsnorm_matmul": 59.20,
    "matmul": 61.65,
    "gqa_full": 30.28,
    "rmsnorm_matmul": 68.52,
    "rope_single_freq_apply": 21.11,
    "bmm": 54.55,
    "bmm_softmax": 39.01,
    "transpose_matmul": 80.44,
    "lora": 74.49,
    "adamw": 50.92,
    "silu": 40.02,
    "mamba": 28.36,
}

# Kernel arguments (() is a number) and output.
SHAPES = {
    "swiglu": (
        [(8, 4, 128, 8, 128), (8, 128, 3072), (24, 128, 1024), (8, 128, 3072)],
        (4096, 1024),
    ),
    "matmul_add_rmsnorm": (
        [(4096, 2048), (2048, 2048), (), (4096, 2048), (2048,)],
        (4096, 2048),
    ),
    "add_rmsnorm_matmul": (
        [(4096, 1024), (1024, 2048), (), (4096, 1024), (1024,)],
        (4096, 2048),
    ),
    "matmul": ([(32, 128, 40, 128), (40, 128, 12288)], (4096, 12288)),
    "gqa_full": (
        [(32, 128, 16, 128), (1, 8, 4, 128, 8, 128), (1, 32, 128, 1024)],
        (1, 16, 4096, 128),
    ),
    "rmsnorm_matmul": ([(32, 128, 1024), (8, 128, 2048)], (4096, 2048)),
    "rope_single_freq_apply": ([(128, 262144), (64, 262144), (64, 262144)], (128, 262144)),
    "bmm": ([(16, 4096, 64), (16, 64, 4096)], (16, 4096, 4096)),
    "bmm_softmax": ([(16, 4096, 64), (16, 64, 4096)], (16, 4096, 4096)),
    "transpose_matmul": ([(128, 16, 4096), (128, 16, 10944)], (4096, 10944)),
    "lora": (
        [(8, 4, 128, 40, 128), (40, 128, 12288), (40, 128, 128), (128, 12288)],
        (4096, 12288),
    ),
    "adamw": ([(10944, 2048)] * 4, (10944, 2048)),
    "silu": ([(128, 32, 7168)], (4096, 7168)),
    "mamba": ([(256, 7168), (256, 7168), (256, 16), (16, 7168), (16, 7168)], (256, 7168)),
}


@pytest.mark.parametrize("name", TASK_NAMES)
def test_roofline_work_is_the_published_one(name):
    work = suite()[name]().work
    assert (work.vector_flops, work.matmul_flops, work.hbm_bytes) == WORK[name]
    assert not work.from_bytes_alone


@pytest.mark.parametrize("name", TASK_NAMES)
def test_the_published_latency_is_the_published_share_of_the_roofline(name, trn1):
    task = suite()[name]()
    percent = percent_of_peak(task.published["trn1_baseline_latency_us"], task.work, trn1)
    assert percent == pytest.approx(BASELINE_PERCENT[name], abs=0.006)
    # The paper's chart, read from the height of its bars.
    assert 100 * task.published["trn1_chart_baseline_of_peak"] == pytest.approx(percent, abs=0.2)


def test_the_published_baselines_reach_half_of_the_roofline():
    logs = np.log(list(BASELINE_PERCENT.values()))
    assert np.exp(logs.mean()) == pytest.approx(49.24, abs=0.01)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_full_shapes_are_the_published_ones(name):
    task = suite()[name]()
    shapes, output = SHAPES[name]
    assert [a.shape for a in task.arguments] == shapes
    assert task.output_shape == output
    assert task.seeds == (0, 21, 42, 63, 84)
    assert task.relative_l2_tolerance == (3e-5 if name == "mamba" else 2e-5)
    assert task.locator == f"task:nkibench/{name}"
    assert task.min_float_bits == 32


def test_drawing_leaves_the_global_generator_alone():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    suite()["silu@small"]().reference.inputs(0)
    assert np.array_equal(np.random.get_state()[1], before)


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
    # 128, 512 and 1024 are tile sizes, 1 is everywhere; other published extents must not appear.
    tree = ast.parse((folder.path / "baseline.py").read_text())
    numbers = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert not numbers & (set(folder.sizes.values()) - {1, 128, 1024})


def test_adding_a_task_means_adding_a_folder(tmp_path):
    shutil.copytree(TASKS / "silu", tmp_path / "tasks" / "swish")
    made = suite(tmp_path / "tasks")
    assert list(made) == ["swish", "swish@small", "swish@wide"]
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
