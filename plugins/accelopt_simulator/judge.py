"""The judge: from trace bytes to an evaluation, with our own code only. Never runs the candidate.

Runs in a limited process of its own (`process.judge_main`), or in the caller's for a task that
lives only there.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accelopt.comparison import Compared, compare_kernel
from accelopt.device import DeviceSpec
from accelopt.errors import AcceloptError
from accelopt.evaluation import Diagnostic, EvaluationStatus, Stage
from accelopt.input_checks import plan_checks
from accelopt.kernel import KernelTask
from accelopt.task_data import TaskData
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.dtypes import code_of
from accelopt_simulator.execution import execute_trace
from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.latency.predict import predict_on
from accelopt_simulator.latency.stream import TooManyInstancesError
from accelopt_simulator.numerics.execute import (
    StorageLimitError,
    WorkLimitError,
    check_instances,
    check_work,
)
from accelopt_simulator.numerics.indirect import RuntimeIndexError
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.codec import decode, trace_hash
from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.schema import TensorRole, Trace
from accelopt_simulator.verdict import Verdict


class Judge:
    """Judges traces for one device.

    Attributes:
        device: what kernels are for.
        timing: cost constants.
        cache_dir: where inputs and right answers are shared between judges; None keeps them in
            memory.
        key: what the seeds of fresh and stress inputs are derived from.
    """

    def __init__(
        self,
        device: DeviceSpec,
        timing: Timing,
        cache_dir: Path | None = None,
        *,
        key: bytes = b"",
    ) -> None:
        self.key = key or secrets.token_bytes(32)
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
        if stages - {Stage.LOAD}:
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
        compared = Compared()
        status = EvaluationStatus.OK
        if stages & {Stage.CORRECTNESS, Stage.ROBUSTNESS}:
            check_work(trace, analysis)
            planned = plan_checks(task, digest, self.key) if Stage.ROBUSTNESS in stages else ()
            compared = compare_kernel(
                task,
                self._data_of(task),
                execute_trace(trace, analysis),
                seeds if Stage.CORRECTNESS in stages else (),
                planned,
            )
            if not compared.ok:
                status = EvaluationStatus.INCORRECT
        return Verdict(
            status=status,
            diagnostics=compared.diagnostics,
            trace_hash=digest,
            seeds=compared.seeds,
            checks=compared.checks,
            report=report,
        )

    def latencies_us(self, trace_bytes: bytes, timings: Sequence[Timing]) -> list[float]:
        """Latency of a trace that was judged before, under several sets of constants.

        Raises:
            AcceloptError: the trace can't be predicted.
        """
        try:
            trace = decode(trace_bytes)
            check_instances(trace, Analysis(trace))
            return [predict_on(trace, self.device, timing).latency_us for timing in timings]
        except (TraceError, WorkLimitError, TooManyInstancesError) as error:
            raise AcceloptError(f"the trace can't be predicted again: {error}") from error

    def _data_of(self, task: KernelTask) -> TaskData:
        if task.fingerprint not in self._data:
            # Judges see one task after another, and a task's data can be large: keep one.
            self._data = {task.fingerprint: TaskData(task, self.cache_dir)}
        return self._data[task.fingerprint]


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


def _rejected(rule: str, message: str) -> Verdict:
    return Verdict(
        status=EvaluationStatus.REJECTED, diagnostics=(Diagnostic(rule=rule, message=message),)
    )
