"""Fresh and stress inputs: how they are drawn, and what they refuse."""

from __future__ import annotations

import stat
from dataclasses import replace

import numpy as np
import pytest

from accelopt.errors import ConfigError, TaskError
from accelopt.input_checks import compare, draw, plan_checks
from accelopt.install_key import derive_seed, install_key, key_file
from accelopt.kernel import MIX_INGREDIENTS, StressCase, elementwise_error
from accelopt.plugins import installed
from accelopt.stress import mixed
from accelopt.user_task import load_user_task

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.fixture(scope="module")
def task():
    return installed().task("adamw@narrow")


def seeds(planned):
    return {check.name: check.seed for check in planned}


def test_seeds_differ_by_kernel_and_installation_and_repeat(task):
    here = seeds(plan_checks(task, "trace-1", KEY))
    assert here == seeds(plan_checks(task, "trace-1", KEY))
    other_kernel = seeds(plan_checks(task, "trace-2", KEY))
    assert other_kernel["fresh"] != here["fresh"]
    # The right answer of a stress case is computed once for all kernels.
    assert other_kernel["stress:update_alone"] == here["stress:update_alone"]
    elsewhere = seeds(plan_checks(task, "trace-1", OTHER_KEY))
    assert not set(elsewhere.values()) & set(here.values())
    assert not set(here.values()) & set(task.seeds)


def test_recorded_seeds_can_be_asked_for_again(task):
    recorded = replace(task, check_seeds={"fresh": 5, "stress:large_theta": 6})
    again = seeds(plan_checks(recorded, "trace-1", OTHER_KEY))
    assert (again["fresh"], again["stress:large_theta"]) == (5, 6)


def test_the_key_is_made_once_and_private():
    key = install_key()
    assert len(key) == 32
    assert install_key() == key
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    key_file().write_text("not hexadecimal")
    with pytest.raises(ConfigError, match=r"install\.key"):
        install_key()


def test_derived_seeds_suit_numpy():
    seeds_of_parts = [derive_seed(KEY, str(part)) for part in range(100)]
    draws = {np.random.RandomState(seed).rand() for seed in seeds_of_parts}
    assert len(draws) == len(set(seeds_of_parts)) == 100


def test_fresh_inputs_hold_every_ingredient_between_nominal_values(task):
    nominal = task.reference.inputs(3)
    changed = mixed(nominal, 3, MIX_INGREDIENTS)
    theta, before = changed[0], nominal[0]
    same = theta == before
    assert 0.85 < same.mean() < 0.99
    assert (theta == 0).any()
    assert not (before == 0).any()
    tiny = (theta != 0) & (np.abs(theta) < 1e-38)
    assert tiny.any()
    ratio = np.divide(theta, before, out=np.zeros_like(theta), where=before != 0)
    for factor in (8.0, 1e-3, -1.0):
        assert np.isclose(ratio, factor, rtol=1e-5).sum() > 100
    assert np.array_equal(mixed(nominal, 3, MIX_INGREDIENTS)[0], theta)
    assert not np.array_equal(mixed(nominal, 4, MIX_INGREDIENTS)[0], theta)
    # v is a variance: a domain without negative values is kept.
    assert nominal[3].min() >= 0
    assert changed[3].min() >= 0


def test_no_row_consists_of_an_ingredient_alone(task):
    changed = mixed(task.reference.inputs(3), 3, MIX_INGREDIENTS)
    assert not (changed[0] == 0).all(axis=1).any()


def test_one_element_is_one_element(task):
    nominal = task.reference.inputs(3)
    changed = mixed(nominal, 3, ["one changed element"])
    assert [(a != b).sum() for a, b in zip(nominal, changed, strict=True)] == [1, 1, 1, 1]


def test_integers_are_left_alone():
    indices = np.arange(64, dtype=np.int32).reshape(8, 8)
    (same,) = mixed([indices], 1, MIX_INGREDIENTS)
    assert same is indices


REFERENCE = """
import numpy as np
SEEDS = [0]

def get_inputs(seed):
    return [np.random.RandomState(seed).rand(128, 64).astype(np.float32) + np.float32(0.5)]

def forward(x):
    return {formula}
"""
KERNEL = "import neuronxcc.nki.language as nl\ndef kernel(x):\n    return x\n"


def user_task(folder, formula, extra=""):
    kernel, reference = folder / "kernel.py", folder / "reference.py"
    kernel.write_text(KERNEL)
    reference.write_text(REFERENCE.format(formula=formula) + extra)
    return load_user_task(kernel, reference)


def test_what_the_reference_has_no_answer_for_is_left_out(tmp_path):
    task = user_task(tmp_path, "1 / x")
    (planned,) = plan_checks(task, "t", KEY)
    drawn = draw(task, planned)
    assert "zeros" not in drawn.ingredients
    assert "tiny" in drawn.ingredients
    assert np.isfinite(drawn.expected).all()
    assert drawn.reference == "float64"


def test_a_reference_without_any_finite_answer_is_the_tasks_fault(tmp_path):
    task = user_task(tmp_path, "x * np.float32(np.nan)")
    (planned,) = plan_checks(task, "t", KEY)
    with pytest.raises(TaskError, match="not finite on nominal inputs"):
        draw(task, planned)


def test_a_task_says_what_may_be_mixed_in(tmp_path):
    task = user_task(tmp_path, "x * 2", "MIX = ['repeated']\n")
    drawn = draw(task, plan_checks(task, "t", KEY)[0])
    assert drawn.ingredients == ("repeated",)
    with pytest.raises(TaskError, match="MIX is"):
        user_task(tmp_path, "x * 2", "MIX = ['salt']\n")


@pytest.mark.parametrize(
    "stress",
    ["STRESS = {'a': {}}", "STRESS = {'a': {'relative_l2': 2}}", "STRESS = {'a': {'ulp': 0.1}}",
     "STRESS = 3", "STRESS = {'a': {'relative_l2': 1e-5}}"],
)  # fmt: skip
def test_an_unusable_stress_statement_is_one_line(tmp_path, stress):
    with pytest.raises(TaskError, match="STRESS"):
        user_task(tmp_path, "x * 2", stress + "\n")


def test_nan_and_inf_never_match(task):
    planned = plan_checks(task, "t", KEY)[-1]
    drawn = draw(task, planned)
    right = np.asarray(drawn.expected, np.float32)
    assert compare(task, planned, drawn, [right]).ok
    for poison in (np.nan, np.inf):
        wrong = right.copy()
        wrong[3, 3] = poison
        check = compare(task, planned, drawn, [wrong])
        assert not check.ok
        assert check.error is None
        assert check.message == "output has NaN or inf"


def test_inputs_and_answers_are_read_only(task):
    drawn = draw(task, plan_checks(task, "t", KEY)[0])
    for array in (*drawn.arguments, drawn.expected):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1


def test_the_elementwise_metric_sees_small_outputs():
    expected = np.array([1.0, 1e-9, 0.0])
    assert elementwise_error(np.array([1.0, 1e-9, 0.0]), expected) == 0
    assert elementwise_error(np.array([1.0, 0.0, 0.0]), expected) == 1
    assert elementwise_error(np.array([1.0, 1e-9, 1e-12]), expected, 1e-3) == pytest.approx(1e-9)
    assert np.isnan(elementwise_error(np.array([np.nan, 0, 0]), expected))
    with pytest.raises(ValueError, match="metric is"):
        StressCase(name="x", metric="ulp", tolerance=0.1)
