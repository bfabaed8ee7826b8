"""The simulator backend: screen the source, trace it in a worker, judge the trace."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from accelopt.backend import BASE_CAPABILITIES, Backend, Capability
from accelopt.device import DeviceSpec
from accelopt.errors import AcceloptError, TaskError
from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus, Stage
from accelopt.faster import Comparison, over_calibrations
from accelopt.install_key import install_key
from accelopt.kernel import Dialect, KernelSource, KernelTask
from accelopt_simulator.frontend.session import MAX_WARNINGS
from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.calibration import fold_timings
from accelopt_simulator.process.judges import JudgePool
from accelopt_simulator.process.recent_traces import RecentTraces
from accelopt_simulator.process.screening import screen_source
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool, WorkerResult
from accelopt_simulator.requests import request_for
from accelopt_simulator.verdict import Verdict, to_evaluation

if TYPE_CHECKING:
    from accelopt_simulator.judge import Judge

JUDGE_VERSION = "3"
"""Changes whenever the same kernel may be judged differently."""


MAX_TEXT = 2000
"""Characters kept of a text that a worker sent."""


class SimulatorBackend(Backend):
    """NKI on the CPU, for one device.

    Args:
        name: backend name.
        device: what kernels are for.
        timing: cost constants.
        limits: what a candidate may use while it is traced.
        judges: judge processes; by default one per core.
        judge_wall_s: time limit of one judgement.
    """

    capabilities = BASE_CAPABILITIES | {
        Capability.ESTIMATE,
        Capability.COUNTERS,
        Capability.TRACE,
        Capability.TIMELINE,
        Capability.DIALECT_NEURONXCC_NKI,
    }

    def __init__(
        self,
        name: str,
        device: DeviceSpec,
        timing: Timing,
        *,
        limits: WorkerLimits | None = None,
        judges: int | None = None,
        judge_wall_s: float = 180.0,
    ) -> None:
        super().__init__()
        self.name = name
        self.device = device
        self.timing = timing
        self.description = f"CPU simulator of {device.title}, latency model {timing.version}"
        self.version = f"judge-{JUDGE_VERSION}/{timing.version}"
        self._limits = limits or WorkerLimits()
        self._judges = judges or os.cpu_count() or 1
        self._judge_wall_s = judge_wall_s
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._workers: WorkerPool | None = None
        self._pool: JudgePool | None = None
        self._inline: Judge | None = None
        self._inline_lock = threading.Lock()
        self._recent = RecentTraces()

    def configure(self, *, evaluation_timeout_s: float, workers: int) -> None:
        """Take over a run's limits."""
        self._judge_wall_s = evaluation_timeout_s
        self._limits = replace(self._limits, wall_s=min(self._limits.wall_s, evaluation_timeout_s))
        if workers:
            self._judges = workers

    def _start(self) -> tuple[WorkerPool, JudgePool]:
        """Processes start with the first evaluation, not when the backend is listed."""
        with self._lock:
            if self._workers is None or self._pool is None:
                key = install_key()
                self._folder = Path(tempfile.mkdtemp(prefix="accelopt-simulator-"))
                self._workers = WorkerPool(self._limits)
                self._pool = JudgePool(
                    self.device,
                    self.timing,
                    self._folder,
                    size=self._judges,
                    wall_s=self._judge_wall_s,
                    key=key,
                )
                atexit.register(self.close)
            return self._workers, self._pool

    def _run(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Evaluation:
        started = time.monotonic()
        verdict = self._verdict(task, source, stages, seeds)
        return to_evaluation(
            verdict,
            task=task.name,
            backend=self.name,
            source_sha256=source.sha256,
            calibration=self.timing.version,
            started=started,
        )

    def _verdict(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Verdict:
        workers, pool = self._start()
        if source.dialect is not Dialect.NEURONXCC_NKI:
            return _failed(
                EvaluationStatus.LOAD_ERROR,
                "unsupported_dialect",
                f"this backend does not load kernels of the dialect {source.dialect.value!r}",
            )
        try:
            request = request_for(task, source)
        except TaskError as error:
            return _failed(EvaluationStatus.LOAD_ERROR, "no_kernel", error.message)
        findings = screen_source(source.text, request.entry)
        if findings:
            return Verdict(status=EvaluationStatus.REJECTED, diagnostics=tuple(findings))
        # The numbers belong to the latency that was just predicted; whoever only screens wants to
        # see the kernel run again.
        numbers = bool(stages & {Stage.CORRECTNESS, Stage.ROBUSTNESS})
        made = self._recent.get(request) if numbers else None
        if made is None:
            if task.locator:
                pool.prepare()
            made = self._recent.put(request, workers.trace(request))
        result = made.result
        if result.status != "ok":
            return _from_worker(result)
        judge = self._judge_call(task, pool)
        verdict = judge(result.trace_bytes, stages, seeds)
        checked = made.reproduced or not numbers
        if verdict.status is EvaluationStatus.OK and not checked:
            # A front end that the candidate patched, or a kernel that is not deterministic, gives
            # another trace the second time, in a fresh process.
            again = workers.trace(request)
            if again.trace_bytes != result.trace_bytes:
                return _failed(
                    EvaluationStatus.REJECTED,
                    "trace_not_reproducible",
                    "a second, fresh run of the kernel gave another trace",
                )
            made.reproduced = True
        # The worker's words again: whatever they are, they can only warn.
        warnings = [
            finding.model_copy(update={"severity": "warning"})
            for finding in _from_worker(result).diagnostics[:MAX_WARNINGS]
        ]
        return replace(verdict, diagnostics=(*verdict.diagnostics, *warnings))

    def _judge_call(
        self, task: KernelTask, pool: JudgePool
    ) -> Callable[[bytes, frozenset[Stage], tuple[int, ...]], Verdict]:
        if task.locator:
            return lambda data, stages, seeds: pool.judge(task, data, stages, seeds)

        def inline(data: bytes, stages: frozenset[Stage], seeds: tuple[int, ...]) -> Verdict:
            with self._inline_lock:
                return self._inline_judge().judge(task, data, stages, seeds)

        return inline

    def _inline_judge(self) -> Judge:
        # Imported here, as it loads a compiler and few tasks live in this process only.
        from accelopt_simulator.judge import Judge

        if self._inline is None:
            self._inline = Judge(self.device, self.timing, key=install_key())
        return self._inline

    def compare(self, task: KernelTask, parent: KernelSource, child: KernelSource) -> Comparison:
        """Predict both under every leave-one-out calibration.

        Raises:
            AcceloptError: a kernel can't be traced or predicted any more.
        """
        workers, pool = self._start()
        timings = fold_timings(self.device.name) or {"": self.timing}
        latencies = []
        for source in (parent, child):
            result = workers.trace(request_for(task, source))
            if result.status != "ok":
                raise AcceloptError(f"{source.filename} can't be traced again: {result.status}")
            latencies.append(pool.latencies_us(result.trace_bytes, list(timings.values())))
        method = f"under each of {len(timings)} leave-one-out calibrations"
        return over_calibrations(latencies[0], latencies[1], method)

    def close(self) -> None:
        """End all processes and remove shared inputs."""
        with self._lock:
            workers, pool, folder = self._workers, self._pool, self._folder
            self._workers = self._pool = self._folder = None
        if workers is not None:
            workers.close()
        if pool is not None:
            pool.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        atexit.unregister(self.close)


def _from_worker(result: WorkerResult) -> Verdict:
    """A verdict from what a worker said. Its words are shown, not trusted: they only fail it."""
    status = EvaluationStatus(result.status)
    diagnostics = []
    for item in result.diagnostics:
        try:
            diagnostics.append(Diagnostic.model_validate(_printable(item)))
        except ValidationError:
            diagnostics.append(Diagnostic(rule="worker_result", message="an unreadable diagnostic"))
    return Verdict(status=status, diagnostics=tuple(diagnostics))


def _printable(item: Any) -> Any:
    """A hostile text can be endless, or hold surrogates that no file or database takes."""
    if isinstance(item, dict):
        return {key: _printable(value) for key, value in item.items()}
    if isinstance(item, str):
        return item[:MAX_TEXT].encode("utf-8", "replace").decode()
    return item


def _failed(status: EvaluationStatus, rule: str, message: str) -> Verdict:
    return Verdict(status=status, diagnostics=(Diagnostic(rule=rule, message=message),))
