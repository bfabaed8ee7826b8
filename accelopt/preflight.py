"""Task pre-flight: kernels that compute nothing must fail, or the task can't tell right from wrong.

A task whose outputs are tiny against its tolerance, or hardly depend on its inputs, accepts a
kernel that leaves the work out (row 6 of the known reward hacks). Such a task is unsound, whatever
is measured on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accelopt.errors import TaskError
from accelopt.kernel import Array, KernelTask, relative_l2_error


@dataclass(frozen=True)
class Degenerate:
    """One do-nothing kernel on a task.

    Attributes:
        kernel: what it does instead of the work.
        accepted: whether every published seed accepts it.
        error: relative L2 error where it was first refused, else the last.
        tolerance: of the task.
        seed: input seed of that error.
    """

    kernel: str
    accepted: bool
    error: float
    tolerance: float
    seed: int


@dataclass(frozen=True)
class Preflight:
    """All do-nothing kernels on a task."""

    task: str
    results: tuple[Degenerate, ...]

    @property
    def sound(self) -> bool:
        """Whether all were refused."""
        return not any(result.accepted for result in self.results)

    @property
    def problem(self) -> str:
        """One line that says what was accepted; empty for a sound task."""
        bad = [result.kernel for result in self.results if result.accepted]
        return f"it accepts {', '.join(bad)}" if bad else ""


def check_task(task: KernelTask, seeds: Sequence[int] | None = None) -> Preflight:
    """Try all do-nothing kernels on the task's inputs.

    Args:
        task: the task.
        seeds: input seeds; the task's own by default. The first that refuses ends a trial.

    Raises:
        TaskError: the reference can't be run.
    """
    accepted: dict[str, Degenerate] = {}
    refused: dict[str, Degenerate] = {}
    for seed in task.seeds if seeds is None else seeds:
        inputs = task.reference.inputs(seed)
        with np.errstate(all="ignore"):
            expected = np.asarray(task.reference.forward(inputs))
        for kernel, make in _kernels(inputs, expected):
            if kernel in refused:
                continue
            error = relative_l2_error(make(), expected)
            result = Degenerate(
                kernel, error < task.relative_l2_tolerance, error, task.relative_l2_tolerance, seed
            )
            if result.accepted:
                accepted[kernel] = result
            else:
                refused[kernel] = result
                accepted.pop(kernel, None)
        if not accepted:
            break
    return Preflight(task.name, (*refused.values(), *accepted.values()))


def require_sound(task: KernelTask) -> None:
    """Refuse a task of a person's own that can't tell right from wrong.

    The tasks of a suite are checked where the suite is made (`accelopt tasks check`).

    Raises:
        TaskError: a kernel that computes nothing would be accepted.
    """
    if not task.locator.startswith("file:"):
        return
    report = check_task(task)
    if not report.sound:
        raise TaskError(
            f"{task.name} is unsound: {report.problem}",
            hint="give it inputs whose outputs differ more, or a smaller TOLERANCE; "
            "`accelopt tasks check` shows the errors",
        )


def _kernels(
    inputs: Sequence[object], expected: Array
) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Names and outputs, in natural layout."""
    yield "zeros", lambda: np.zeros_like(expected)
    yield "a constant", lambda: np.full_like(expected, np.mean(expected, dtype=np.float64))
    for position, value in enumerate(inputs):
        if isinstance(value, np.ndarray) and value.size:
            yield f"a copy of input {position}", _copied(value, expected)
    yield "its outputs shuffled", lambda: _shuffled(expected)


def _copied(value: Array, expected: Array) -> Callable[[], Array]:
    # An input of another size is repeated or cut, as a kernel would copy what it has.
    return lambda: np.resize(value, expected.shape).astype(expected.dtype)


def _shuffled(expected: Array) -> Array:
    shuffled = np.random.RandomState(0).permutation(expected.reshape(-1))
    return shuffled.reshape(expected.shape)
