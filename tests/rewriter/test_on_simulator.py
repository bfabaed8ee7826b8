"""The rewritten baselines are judged by the simulator: still right, and where promised, faster."""

from __future__ import annotations

import pytest

from accelopt import KernelSource
from accelopt.plugins import installed
from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.catalog import GROUPS, REWRITES
from accelopt_rewriter.plan import PlanStep, carry_out

TASKS = ("silu", "adamw", "add_rmsnorm_matmul")
APPLIES = {
    "silu": ("sigmoid-chain", "merge-subtile-loop", "scale-to-vector"),
    "adamw": (
        *("self-scale", "square-activation", "scale-add", "merge-subtile-loop"),
        *("reciprocal-to-scalar", "scale-to-scalar", "scale-to-vector"),
    ),
    "add_rmsnorm_matmul": (
        *("reduce-fusion", "scale-into-activation", "scale-add", "chain-tensor-scalar"),
        *("hoist-transpose", "hoist-load", "hoist-broadcast"),
        *("scale-to-scalar", "scale-to-vector"),
    ),
}
BEST = {
    "silu": ("sigmoid-chain", "silu-chain", "merge-subtile-loop", "widen-free-tile"),
    "adamw": (
        *("self-scale", "square-activation", "scale-add"),
        *("merge-subtile-loop", "widen-free-tile", "reciprocal-to-scalar"),
    ),
    "add_rmsnorm_matmul": (
        *("reduce-fusion", "scale-into-activation", "scale-add"),
        *("hoist-transpose", "hoist-load", "hoist-broadcast"),
    ),
}


@pytest.fixture(scope="module")
def backend():
    backend = installed().backend("sim-trn1")
    yield backend
    backend.close()


def shapes(task):
    return tuple(a.shape if a.value is None else a.value for a in task.arguments)


def source(text):
    return KernelSource(text=text, entry="kernel")


@pytest.mark.parametrize("name", TASKS)
def test_a_baseline_is_right_on_every_seed(backend, name):
    task = installed().task(f"nkibench/{name}@small")
    evaluation = backend.evaluate(task, task.baseline)
    assert evaluation.ok, evaluation.diagnostics
    assert [s.seed for s in evaluation.seeds] == [0, 21, 42, 63, 84]


@pytest.mark.parametrize("name", TASKS)
def test_the_rewrites_that_apply_to_a_baseline_are_the_listed_ones(name):
    task = installed().task(f"nkibench/{name}@small")
    kernel = Kernel(task.baseline.text, shapes(task))
    assert {n for n, rewrite in REWRITES.items() if rewrite.sites(kernel)} == set(APPLIES[name])


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        # adamw takes the longest by far.
        pytest.param(name, steps, marks=pytest.mark.slow if name == "adamw" else ())
        for name, rewrites in APPLIES.items()
        for steps in (*((rewrite,) for rewrite in rewrites), *GROUPS.values(), BEST[name])
    ],
)
def test_a_rewritten_baseline_is_still_right(backend, name, steps):
    task = installed().task(f"nkibench/{name}@small")
    text = carry_out(task.baseline.text, [PlanStep(step) for step in steps], shapes(task))
    assert (text == task.baseline.text) == (not set(steps) & set(APPLIES[name]))
    evaluation = backend.evaluate(task, source(text), seeds=(42,))
    assert evaluation.ok, evaluation.diagnostics


@pytest.mark.parametrize(
    # adamw is bound by its traffic after 1.15; AccelOpt's best is 1.20 times faster on the chip.
    ("name", "factor"),
    [("silu", 1.3), ("adamw", 1.1), ("add_rmsnorm_matmul", 1.1)],
)
def test_a_chain_of_rewrites_pays_on_the_full_task(backend, name, factor):
    task = installed().task(f"nkibench/{name}")
    text = carry_out(task.baseline.text, [PlanStep(r) for r in BEST[name]], shapes(task))
    slow, fast = backend.estimate(task, task.baseline), backend.estimate(task, source(text))
    assert slow.ok, slow.diagnostics
    assert fast.ok, fast.diagnostics
    assert slow.latency_us / fast.latency_us > factor


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_best_chain_is_right_on_every_seed_of_the_full_task(backend, name):
    task = installed().task(f"nkibench/{name}")
    text = carry_out(task.baseline.text, [PlanStep(r) for r in BEST[name]], shapes(task))
    for kernel in (task.baseline, source(text)):
        evaluation = backend.evaluate(task, kernel)
        assert evaluation.ok, evaluation.diagnostics
        assert len(evaluation.seeds) == 5
