"""Runs a kernel on inputs and compares its outputs with the right answers.

Published seeds first; fresh and stress inputs only for a kernel that passed these. The first
failure ends a comparison. How a kernel is run is the backend's business: it executes a trace, or
has a device execute a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accelopt.evaluation import Diagnostic, InputCheck, SeedResult
from accelopt.input_checks import PlannedCheck, compare
from accelopt.kernel import Array, KernelArgument, KernelTask, relative_l2_error
from accelopt.task_data import TaskData


@dataclass(frozen=True)
class Execution:
    """One run of a kernel.

    Attributes:
        outputs: the arrays it returned, in order.
        findings: what may explain a wrong result.
    """

    outputs: Sequence[Array]
    findings: tuple[Diagnostic, ...] = ()


Execute = Callable[[Sequence[KernelArgument]], Execution]
"""Runs the kernel on arguments. Inputs are read-only; outputs are poisoned before each run."""


@dataclass(frozen=True)
class Compared:
    """What came out: one result per input set that was tried, and what went wrong."""

    seeds: tuple[SeedResult, ...] = ()
    checks: tuple[InputCheck, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing differed."""
        results = [seed.ok for seed in self.seeds] + [check.ok for check in self.checks]
        return bool(results) and all(results)


def compare_kernel(
    task: KernelTask,
    data: TaskData,
    execute: Execute,
    seeds: Sequence[int],
    checks: Sequence[PlannedCheck],
) -> Compared:
    """Compare on the seeds, then on the checks."""
    seed_results: list[SeedResult] = []
    for seed in seeds:
        arguments, expected = data.load(seed)
        execution = execute(arguments)
        result = _compare_seed(task, seed, execution.outputs, expected)
        seed_results.append(result)
        if not result.ok:
            findings = (_wrong_seed(result), *execution.findings)
            return Compared(tuple(seed_results), (), findings)
    check_results: list[InputCheck] = []
    for planned in checks:
        drawn = data.load_check(planned)
        execution = execute(drawn.arguments)
        check = compare(task, planned, drawn, execution.outputs)
        check_results.append(check)
        if not check.ok:
            findings = (_wrong_check(check), *execution.findings)
            return Compared(tuple(seed_results), tuple(check_results), findings)
    return Compared(tuple(seed_results), tuple(check_results))


def _compare_seed(
    task: KernelTask, seed: int, outputs: Sequence[Array], expected: Array
) -> SeedResult:
    tolerance = task.relative_l2_tolerance
    try:
        output = np.asarray(task.reference.natural_output(outputs, expected))
        error = relative_l2_error(output, expected)
    except ValueError as problem:
        return SeedResult(
            seed=seed, error=None, tolerance=tolerance, ok=False, message=str(problem)
        )
    if not math.isfinite(error):
        return SeedResult(
            seed=seed, error=None, tolerance=tolerance, ok=False, message="output has NaN or inf"
        )
    return SeedResult(seed=seed, error=error, tolerance=tolerance, ok=error < tolerance)


def _wrong_seed(result: SeedResult) -> Diagnostic:
    found = result.message or f"relative L2 error {result.error:.3g}"
    return Diagnostic(
        rule="incorrect_result",
        message=f"seed {result.seed}: {found}",
        required=None if result.error is None else f"{result.error:.3g}",
        limit=f"{result.tolerance:g}",
        hint="compare with the reference; unwritten or masked-out elements read as NaN",
    )


def _wrong_check(check: InputCheck) -> Diagnostic:
    measure = "largest relative error" if check.metric == "elementwise" else "relative L2 error"
    found = check.message or f"{measure} {check.error:.3g}"
    stress = check.name.partition(":")[2]
    if stress:
        where = f"stress inputs {stress!r}"
        hint = "right on ordinary inputs only: see stress_inputs in the reference"
    else:
        where = f"fresh inputs with {', '.join(check.ingredients) or 'nothing'} mixed in"
        hint = (
            "right on the published inputs only; if values such as these can't occur, "
            "state MIX in the reference"
        )
    return Diagnostic(
        rule="incorrect_result",
        message=f"{where}: {found}",
        required=None if check.error is None else f"{check.error:.3g}",
        limit=f"{check.tolerance:.3g}",
        hint=hint,
    )
