from __future__ import annotations

import numpy as np
import pytest

from accelopt import Dialect, KernelSource, TaskError
from accelopt.user_task import load_task_by_locator, load_user_task

KERNEL = "import neuronxcc.nki as nki\n\n\n@nki.jit\ndef double(x):\n    return x\n"
REFERENCE = """
import numpy as np

def get_inputs(seed):
    return [np.random.RandomState(seed).normal(0, 1, (4, 6)).astype(np.float32), 2.0]

def forward(x, factor):
    return x * np.float32(factor)
"""


@pytest.fixture
def load(tmp_path):
    def make(reference=REFERENCE, kernel=KERNEL):
        (tmp_path / "double.py").write_text(kernel)
        (tmp_path / "reference.py").write_text(reference)
        return load_user_task(tmp_path / "double.py", tmp_path / "reference.py")

    return make


def test_two_functions_are_enough(load, tmp_path):
    task = load()
    assert task.name == "user/double"
    assert task.baseline.entry == "double"
    assert task.baseline.text == KERNEL
    assert task.baseline.dialect is Dialect.NEURONXCC_NKI
    assert [a.shape for a in task.arguments] == [(4, 6), ()]
    assert [a.value for a in task.arguments] == [None, 2.0]
    assert task.output_shape == (4, 6)
    assert task.relative_l2_tolerance == 2e-5
    assert task.seeds == (0, 21, 42, 63, 84)
    assert task.min_float_bits == 32
    assert task.work.from_bytes_alone
    assert task.work.hbm_bytes == 2 * 4 * 24
    assert task.locator == f"file:{tmp_path / 'double.py'}|{tmp_path / 'reference.py'}"


def test_optional_names_are_used(load):
    task = load(
        REFERENCE
        + "TOLERANCE = 1e-3\nSEEDS = [7, 8]\nTITLE = 'Twice'\n"
        + "def work():\n    return {'hbm_bytes': 10, 'vector_flops': 3}\n"
    )
    assert (task.relative_l2_tolerance, task.seeds, task.title) == (1e-3, (7, 8), "Twice")
    assert task.work.model_dump() == {
        "hbm_bytes": 10,
        "matmul_flops": 0,
        "vector_flops": 3,
        "from_bytes_alone": False,
    }


def test_get_inputs_without_a_seed_draws_from_the_seeded_global_generator_and_leaves_it_alone(load):
    reference = """
import numpy as np
def get_inputs():
    return [np.random.normal(0, 1, (3, 2)).astype(np.float32)]
def forward(x):
    return x
"""
    task = load(reference)
    np.random.seed(123)
    before = np.random.get_state()[1].copy()
    drawn = task.reference.inputs(42)[0]
    assert np.array_equal(np.random.get_state()[1], before)
    expected = np.random.RandomState(42).normal(0, 1, (3, 2)).astype(np.float32)
    assert np.array_equal(drawn, expected)
    assert not np.array_equal(drawn, task.reference.inputs(21)[0])


def test_layout_transforms_are_applied_and_seen_in_the_arguments(load):
    task = load(
        REFERENCE
        + "def transform_to_nki_inputs(inputs):\n    return [inputs[0].reshape(2, 12), inputs[1]]\n"
        + "def transform_nki_outputs(outputs, reference):\n"
        + "    return [outputs[0].reshape(reference.shape) + 1]\n"
    )
    assert task.arguments[0].shape == (2, 12)
    inputs = task.reference.inputs(0)
    assert task.reference.kernel_inputs(inputs)[0].shape == (2, 12)
    expected = task.reference.forward(inputs)
    given = task.reference.natural_output([expected.reshape(2, 12)], expected)
    assert np.array_equal(given, expected + 1)


def test_an_output_of_the_right_size_takes_the_reference_shape(load):
    task = load()
    expected = np.zeros((4, 6), np.float32)
    assert task.reference.natural_output([np.ones((2, 12))], expected).shape == (4, 6)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [([np.zeros((4, 5))], "does not fit"), ([np.zeros((4, 6))] * 2, "2 outputs instead of 1")],
)
def test_an_output_that_does_not_fit_is_the_kernels_fault(load, outputs, message):
    with pytest.raises(ValueError, match=message):
        load().reference.natural_output(outputs, np.zeros((4, 6)))


def test_a_transform_that_fails_on_the_output_is_the_kernels_fault(load):
    task = load(
        REFERENCE
        + "def transform_nki_outputs(outputs, reference):\n"
        + "    return [outputs[0].reshape(reference.shape)]\n"
    )
    with pytest.raises(ValueError, match="cannot reshape"):
        task.reference.natural_output([np.zeros(5)], np.zeros((4, 6)))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("def get_inputs(seed):\n    return []\n", "has no function forward"),
        ("def forward(x):\n    return x\n", "has no function get_inputs"),
        ("x = 1\ndef forward(:\n", r"reference\.py, line 2"),
        ("import numpy\nimport no_such_module_anywhere\n", r"line 2: ModuleNotFoundError"),
        (REFERENCE.replace("return x *", "return x @"), "forward failed"),
        (REFERENCE.replace("return x *", "return x, x *"), "forward returned tuple"),
        (REFERENCE.replace(".astype(np.float32)", ""), "argument 0 is float64"),
        (REFERENCE.replace("get_inputs(seed)", "get_inputs(seed, n)"), "takes 2 arguments"),
        (REFERENCE.replace("2.0]", "'two']"), "returned str at position 1"),
        (REFERENCE.replace("return [np", "return np").replace(", 2.0]", ""), "returned ndarray"),
        (REFERENCE + "TOLERANCE = 2\n", "TOLERANCE is 2"),
        (REFERENCE + "SEEDS = []\n", r"SEEDS is \[\]"),
        (REFERENCE + "def work():\n    return {'bytes': 1}\n", r"work\(\) returned"),
        (REFERENCE + "def signature():\n    return 3\n", r"signature\(\) returned 3"),
    ],
)
def test_a_bad_reference_is_one_clear_line(load, reference, message):
    with pytest.raises(TaskError, match=message) as caught:
        load(reference)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_kernel_file_without_a_kernel_is_a_task_error(load):
    with pytest.raises(TaskError, match="has no kernel"):
        load(kernel="x = 1\n")


def test_a_missing_file_is_a_task_error(tmp_path):
    with pytest.raises(TaskError, match=r"nowhere\.py: No such file"):
        load_user_task(tmp_path / "nowhere.py", tmp_path / "reference.py")


def test_signature_spares_the_draw(load):
    reference = REFERENCE.replace("return x *", "raise RuntimeError('ran') or x *") + (
        "def signature():\n    return [(4, 6), 2.0], (4, 6)\n"
    )
    task = load(reference)
    assert task.output_shape == (4, 6)
    assert [a.value for a in task.arguments] == [None, 2.0]


def test_sixteen_bit_inputs_allow_a_sixteen_bit_kernel(load):
    assert load(REFERENCE.replace("np.float32", "np.float16")).min_float_bits == 16


def test_a_locator_finds_the_same_task_again(load):
    task = load()
    again = load_task_by_locator(task.locator)
    assert again == task
    assert np.array_equal(again.reference.inputs(0)[0], task.reference.inputs(0)[0])


def test_a_task_locator_goes_through_the_registry():
    assert load_task_by_locator("task:nkibench/silu@small").name == "nkibench/silu@small"


@pytest.mark.parametrize("locator", ["", "file:/a/kernel.py", "/a.py|/b.py"])
def test_a_malformed_locator_is_a_task_error(locator):
    with pytest.raises(TaskError, match="does not say where"):
        load_task_by_locator(locator)


def test_the_reference_can_hold_dataclasses(load):
    task = load(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Sizes:\n    n: int = 4\n" + REFERENCE
    )
    assert task.output_shape == (4, 6)


def test_a_source_with_half_a_character_has_a_hash_of_its_own():
    hashes = {KernelSource(text=f"# {end}\n").sha256 for end in ("\ud800", "\ud801", "?")}
    assert len(hashes) == 3
