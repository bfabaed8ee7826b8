"""The judge: from trace bytes to an evaluation, with our own code only. Never runs the candidate.

Runs in a limited process of its own (`process.judge_main`), or in the caller's for a task that
lives only there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from accelopt.device import DeviceSpec
from accelopt.errors import AcceloptError
from accelopt.evaluation import (
    Diagnostic,
    Evaluation,
    EvaluationStatus,
    Profile,
    SeedResult,
    Stage,
)
from accelopt.kernel import KernelTask, relative_l2_error
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.dtypes import code_of
from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.model import LatencyReport, estimate_latency
from accelopt_simulator.latency.stream import TooManyInstancesError
from accelopt_simulator.numerics.execute import (
    ExecutionResult,
    Executor,
    StorageLimitError,
    WorkLimitError,
    check_instances,
    check_work,
)
from accelopt_simulator.numerics.indirect import RuntimeIndexError
from accelopt_simulator.task_data import TaskData
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.codec import decode, trace_hash
from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.schema import TensorRole, Trace


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the judge found out; the backend completes it to an `Evaluation`."""

    status: EvaluationStatus
    diagnostics: tuple[Diagnostic, ...] = ()
    trace_hash: str = ""
    seeds: tuple[SeedResult, ...] = ()
    report: LatencyReport | None = None


class Judge:
    """Judges traces for one device.

    Attributes:
        device: what kernels are for.
        timing: cost constants.
        cache_dir: where inputs and right answers are shared between judges; None keeps them in
            memory.
    """

    def __init__(self, device: DeviceSpec, timing: Timing, cache_dir: Path | None = None) -> None:
        self.device = device
        self.timing = timing
        self.cache_dir = cache_dir
        self._data: dict[str, TaskData] = {}

    def judge(
        self, task: KernelTask, trace_bytes: bytes, stages: frozenset[Stage], seeds: Sequence[int]
    ) -> Verdict:
        """Take the stages in order; stop at the first that fails."""
        try:
            trace = decode(trace_bytes)
            analysis = Analysis(trace)
            _ = analysis.loop_range
            check_arguments(trace, task)
            digest = trace_hash(trace)
        except TraceError as error:
            return _rejected("forged_trace", f"the trace is not well-formed: {error}")
        except MemoryError:
            return _rejected("forged_trace", "the trace does not fit into memory")
        try:
            return self._judge(task, trace, analysis, digest, stages, seeds)
        except RuntimeIndexError as error:
            finding = Diagnostic(
                rule="err_tensor_access_out_of_bound",
                message=f"a run-time index: {error}",
                required=str(error.index),
                limit=str(error.size - 1),
                hint="keep the indices in range, or use oob_mode.skip",
            )
            return Verdict(
                status=EvaluationStatus.CONSTRAINT_VIOLATION,
                diagnostics=(finding,),
                trace_hash=digest,
            )
        except WorkLimitError as error:
            status = (
                EvaluationStatus.OUT_OF_MEMORY
                if isinstance(error, StorageLimitError)
                else EvaluationStatus.TIMEOUT
            )
            finding = Diagnostic(rule="work_limit", message=f"the kernel asks for {error}")
            return Verdict(status=status, diagnostics=(finding,), trace_hash=digest)
        except TraceError as error:
            finding = Diagnostic(rule="unsupported_op", message=str(error))
            return Verdict(
                status=EvaluationStatus.UNSUPPORTED_OP, diagnostics=(finding,), trace_hash=digest
            )
        except MemoryError:
            finding = Diagnostic(rule="memory_limit", message="the kernel needs too much memory")
            return Verdict(
                status=EvaluationStatus.OUT_OF_MEMORY, diagnostics=(finding,), trace_hash=digest
            )
        except AcceloptError:
            raise  # the task is broken, not the kernel
        except Exception as error:  # noqa: BLE001 - no trace may bring a run down
            finding = Diagnostic(
                rule="internal_error",
                message=f"the simulator can't judge this kernel: {type(error).__name__}: {error}"[
                    :500
                ],
                hint="please report it; another formulation of the kernel may pass",
            )
            return Verdict(
                status=EvaluationStatus.UNSUPPORTED_OP, diagnostics=(finding,), trace_hash=digest
            )

    def _judge(
        self,
        task: KernelTask,
        trace: Trace,
        analysis: Analysis,
        digest: str,
        stages: frozenset[Stage],
        seeds: Sequence[int],
    ) -> Verdict:
        check_instances(trace, analysis)
        if stages & {Stage.CONSTRAINTS, Stage.LATENCY, Stage.CORRECTNESS}:
            findings = check_constraints(trace, self.device, min_float_bits=task.min_float_bits)
            if findings:
                unsupported = all(f.rule == "unsupported_op" for f in findings)
                status = (
                    EvaluationStatus.UNSUPPORTED_OP
                    if unsupported
                    else EvaluationStatus.CONSTRAINT_VIOLATION
                )
                return Verdict(status=status, diagnostics=tuple(findings), trace_hash=digest)
        report = None
        if Stage.LATENCY in stages:
            check_work(trace, analysis)
            try:
                report = estimate_latency(trace, self.device, self.timing, task.work)
            except TooManyInstancesError as error:
                raise WorkLimitError(str(error)) from error
        results: tuple[SeedResult, ...] = ()
        diagnostics: tuple[Diagnostic, ...] = ()
        status = EvaluationStatus.OK
        if Stage.CORRECTNESS in stages:
            check_work(trace, analysis)
            results, diagnostics = self._compare(task, trace, analysis, seeds)
            if not results or not all(r.ok for r in results):
                status = EvaluationStatus.INCORRECT
        return Verdict(
            status=status,
            diagnostics=diagnostics,
            trace_hash=digest,
            seeds=results,
            report=report,
        )

    def _compare(
        self, task: KernelTask, trace: Trace, analysis: Analysis, seeds: Sequence[int]
    ) -> tuple[tuple[SeedResult, ...], tuple[Diagnostic, ...]]:
        if task.fingerprint not in self._data:
            # Judges see one task after another, and a task's data can be large: keep one.
            self._data = {task.fingerprint: TaskData(task, self.cache_dir)}
        data = self._data[task.fingerprint]
        executor = Executor(trace, analysis)
        results: list[SeedResult] = []
        diagnostics: list[Diagnostic] = []
        for seed in seeds:
            arguments, expected = data.load(seed)
            # Many small products on several BLAS threads can be a hundred times slower than on one.
            with threadpool_limits(limits=1):
                execution = executor.run(arguments)
            result = _compare_one(task, seed, execution, expected)
            results.append(result)
            if not result.ok:
                diagnostics = [_incorrect(result), *_hazards(execution)]
                break
        return tuple(results), tuple(diagnostics)


def check_arguments(trace: Trace, task: KernelTask) -> None:
    """The inputs a trace declares are the arguments that the task passes.

    Raises:
        TraceError: an input has another position, shape or type.
    """
    for tensor in np.flatnonzero(trace.tensor_role == TensorRole.INPUT).tolist():
        index = int(trace.tensor_index[tensor])
        if not 0 <= index < len(task.arguments) or task.arguments[index].value is not None:
            raise TraceError(f"it reads an argument {index} that the task does not pass")
        spec = task.arguments[index]
        if int(trace.tensor_dtype[tensor]) != code_of(spec.dtype):
            raise TraceError(f"argument {index} has another element type")
        if trace.tensor_alias[tensor] < 0 and trace.shape(tensor) != tuple(spec.shape):
            raise TraceError(f"argument {index} has another shape")


def _compare_one(
    task: KernelTask, seed: int, execution: ExecutionResult, expected: Any
) -> SeedResult:
    tolerance = task.relative_l2_tolerance
    try:
        output = np.asarray(task.reference.natural_output(execution.outputs, expected))
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


def _incorrect(result: SeedResult) -> Diagnostic:
    found = result.message or f"relative L2 error {result.error:.3g}"
    return Diagnostic(
        rule="incorrect_result",
        message=f"seed {result.seed}: {found}",
        required=None if result.error is None else f"{result.error:.3g}",
        limit=f"{result.tolerance:g}",
        hint="compare with the reference; unwritten or masked-out elements read as NaN",
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


def _rejected(rule: str, message: str) -> Verdict:
    return Verdict(
        status=EvaluationStatus.REJECTED, diagnostics=(Diagnostic(rule=rule, message=message),)
    )


def to_evaluation(
    verdict: Verdict,
    *,
    task: str,
    backend: str,
    source_sha256: str,
    calibration: str,
    started: float,
) -> Evaluation:
    """Complete a verdict."""
    report = verdict.report
    profile: Profile | None = report.profile if report is not None else None
    return Evaluation(
        status=verdict.status,
        task=task,
        backend=backend,
        source_sha256=source_sha256,
        trace_hash=verdict.trace_hash,
        latency_us=None if report is None else report.latency_us,
        latency_low_us=None if report is None else report.low_us,
        latency_high_us=None if report is None else report.high_us,
        profile=profile,
        bound="" if report is None else report.bound,
        seeds=verdict.seeds,
        diagnostics=verdict.diagnostics,
        features={} if report is None else report.features,
        line_facts={} if report is None else report.line_facts,
        explanation="" if report is None else report.explanation,
        calibration=calibration if report is not None else "",
        notes=() if report is None else report.notes,
        elapsed_s=round(time.monotonic() - started, 4),
    )
