"""Runs a trace on inputs and compares its outputs with the right answers.

Published seeds first; fresh and stress inputs only for a kernel that passed these. The first
failure ends a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from accelopt.evaluation import Diagnostic, InputCheck, SeedResult
from accelopt.input_checks import PlannedCheck, compare
from accelopt.kernel import Array, KernelArgument, KernelTask, relative_l2_error
from accelopt_simulator.numerics.execute import ExecutionResult, Executor
from accelopt_simulator.task_data import TaskData
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace


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


class Comparison:
    """Compares one trace. Inputs are handed out read-only; outputs are poisoned before each run."""

    def __init__(self, task: KernelTask, data: TaskData, trace: Trace, analysis: Analysis) -> None:
        self._task, self._data = task, data
        self._executor = Executor(trace, analysis)

    def run(self, seeds: Sequence[int], checks: Sequence[PlannedCheck]) -> Compared:
        """Compare on the seeds, then on the checks."""
        seed_results: list[SeedResult] = []
        for seed in seeds:
            arguments, expected = self._data.load(seed)
            execution = self._execute(arguments)
            result = _compare_seed(self._task, seed, execution.outputs, expected)
            seed_results.append(result)
            if not result.ok:
                return Compared(tuple(seed_results), (), _findings(_wrong_seed(result), execution))
        check_results: list[InputCheck] = []
        for planned in checks:
            drawn = self._data.load_check(planned)
            execution = self._execute(drawn.arguments)
            check = compare(self._task, planned, drawn, execution.outputs)
            check_results.append(check)
            if not check.ok:
                found = _findings(_wrong_check(check), execution)
                return Compared(tuple(seed_results), tuple(check_results), found)
        return Compared(tuple(seed_results), tuple(check_results))

    def _execute(self, arguments: Sequence[KernelArgument]) -> ExecutionResult:
        # Many small products on several BLAS threads can be a hundred times slower than on one.
        with threadpool_limits(limits=1):
            return self._executor.run(arguments)


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


def _findings(first: Diagnostic, execution: ExecutionResult) -> tuple[Diagnostic, ...]:
    return (first, *_hazards(execution))


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


def _hazards(execution: ExecutionResult) -> list[Diagnostic]:
    found = []
    for rule, line in sorted(execution.hazards):
        name, _, function = rule.partition(":")
        found.append(
            Diagnostic(
                rule=name,
                message=f"{function} gets an input outside its valid range; its result is NaN",
                line=line or None,
                hint="use the vector engine's counterpart, or keep the input in range",
            )
        )
    return found[:10]
