"""The backends of real chips: compiled in a confined worker, run and measured by the judge."""

from __future__ import annotations

import atexit
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelopt.backend import BASE_CAPABILITIES, Backend, Capability
from accelopt.comparison import compare_kernel
from accelopt.device import DeviceSpec
from accelopt.errors import AcceloptError, BackendUnavailableError
from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus, Stage
from accelopt.faster import Comparison, by_measurement
from accelopt.input_checks import plan_checks
from accelopt.kernel import Dialect, KernelSource, KernelTask
from accelopt_trainium.compiler import Program
from accelopt_trainium.compiler_messages import CompilationError
from accelopt_trainium.device import DeviceBrokenError, KernelFailedError
from accelopt_trainium.devices import find_machine
from accelopt_trainium.known_kernels import fast_kernel, known_task
from accelopt_trainium.locations import Locations
from accelopt_trainium.measure import Measurement, Meter, Protocol
from accelopt_trainium.prescreen import Prescreen
from accelopt_trainium.sdk import Sdk, find_sdk, what_is_missing
from accelopt_trainium.session import Session
from accelopt_trainium.source_screen import screen_source
from accelopt_trainium.tools import PROFILERS, find_tool

if TYPE_CHECKING:
    from accelopt.doctor import Check

JUDGE_VERSION = "1"
"""Changes whenever the same kernel may be judged differently."""
COMPARED_FOR_S = 3600.0
"""A comparison of two kernels may hold its core this long: up to 32 pairs of launches."""

_NUMBERS = frozenset({Stage.CORRECTNESS, Stage.ROBUSTNESS})
_DIALECTS = {
    Dialect.NEURONXCC_NKI: Capability.DIALECT_NEURONXCC_NKI,
    Dialect.NKI: Capability.DIALECT_NKI,
}


class TrainiumBackend(Backend):
    """Kernels on one NeuronCore each.

    Args:
        device: `trn1` or `trn2`.
        protocol: how latencies are measured.
        locations: where the SDK lies; by default as the environment says.
    """

    def __init__(
        self,
        device: DeviceSpec,
        *,
        protocol: Protocol | None = None,
        locations: Locations | None = None,
    ) -> None:
        super().__init__()
        self.name = device.name
        self.device = device
        self.locations = locations or Locations.from_environment()
        self.sdk = find_sdk(self.locations)
        self.protocol = protocol or Protocol()
        self.prescreen = Prescreen(device.name)
        dialects = {_DIALECTS[dialect] for dialect in self.sdk.dialects}
        self.capabilities = BASE_CAPABILITIES | {Capability.COUNTERS} | dialects
        self.description = _described(device, self.sdk)
        self.version = f"device-{JUDGE_VERSION}/{self.sdk.fingerprint}"
        self._timeout_s = 180.0
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._missing: str | None = None

    def unavailable(self) -> str:
        """What is missing on this machine; the tools are asked once."""
        if self._missing is None:
            self._missing = self._what_is_missing()
        return self._missing

    def _what_is_missing(self) -> str:
        missing = what_is_missing(self.locations, self.sdk)
        if missing:
            return missing
        if find_tool(self.locations, *PROFILERS) is None:
            return f"no {PROFILERS[0]} in {self.locations.tools}; install aws-neuronx-tools"
        try:
            machine = find_machine(self.locations)
        except AcceloptError as error:
            return f"{error.message}; {error.hint}" if error.hint else error.message
        if machine.generation != self.device.name:
            called = machine.instance_type or "of unknown type"
            return (
                f"this machine ({called}) is {machine.generation}, not {self.device.name}; "
                f"use a {self.device.name} instance, or the backend sim-{self.device.name}"
            )
        if self.sdk.mismatches:
            return f"{self.sdk.mismatches[0]}; install all parts of one release"
        return ""

    def configure(self, *, evaluation_timeout_s: float, workers: int) -> None:
        """Take over a run's limit: for the compilation, and again for the time on the device.

        How many evaluations run at once is decided by the cores, whatever `workers` says.
        """
        self._timeout_s = evaluation_timeout_s

    def session(self) -> Session:
        """Tools found and hashed, chips counted; once, before any candidate runs.

        Raises:
            BackendUnavailableError: something is missing.
        """
        with self._lock:
            if self._session is None:
                reason = self.unavailable()
                profiler = find_tool(self.locations, *PROFILERS)
                if reason or profiler is None:
                    raise BackendUnavailableError(f"backend {self.name!r} can't be used: {reason}")
                machine = find_machine(self.locations)
                meter = Meter(profiler, self.protocol)
                self._session = Session(self.locations, self.name, machine, meter)
                atexit.register(self.close)
            return self._session

    def _run(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Evaluation:
        started = time.monotonic()
        session = self.session()
        base = Evaluation(
            status=EvaluationStatus.OK,
            task=task.name,
            backend=self.name,
            source_sha256=source.sha256,
            calibration=self.sdk.fingerprint,
        )
        refused = self._refused(source)
        if refused is not None:
            return base.model_copy(update=refused)
        decision = self.prescreen.decide(task, source)
        if decision.refusal is not None:
            took_s = round(time.monotonic() - started, 4)
            return decision.refusal.model_copy(update={"backend": self.name, "elapsed_s": took_s})
        try:
            with session.program(task, source, self._timeout_s) as (program, place):
                found = self._judged(session, task, source, program, place, stages, seeds)
        except CompilationError as error:
            found = {"status": error.status, "diagnostics": error.diagnostics}
        except KernelFailedError as error:
            found = {"status": error.status, "diagnostics": (error.diagnostic,)}
        except DeviceBrokenError as error:
            if not self._still_works(session, source.dialect):
                raise
            finding = Diagnostic(
                rule="device_error",
                message=f"{error.message}; the device works with another kernel",
            )
            found = {"status": EvaluationStatus.INCORRECT, "diagnostics": (finding,)}
        found["elapsed_s"] = round(time.monotonic() - started, 4)
        result = base.model_copy(update=found)
        self.prescreen.judged(decision, result)
        return result

    def _still_works(self, session: Session, dialect: Dialect) -> bool:
        """Whether a kernel of known answer runs: else the device is broken, not the kernel."""
        task, kernel = known_task(dialect), fast_kernel(dialect)
        try:
            with session.program(task, kernel, self._timeout_s) as (program, place):
                stages = frozenset({Stage.CORRECTNESS})
                found = self._judged(session, task, kernel, program, place, stages, task.seeds)
        except (CompilationError, KernelFailedError, AcceloptError):
            return False
        return "status" not in found

    def _refused(self, source: KernelSource) -> dict[str, Any] | None:
        if source.dialect not in self.sdk.dialects:
            able = ", ".join(sorted(self.sdk.dialects))
            finding = Diagnostic(
                rule="unsupported_dialect",
                message=f"the installed SDK compiles {able}, not {source.dialect.value}",
                hint="neuronxcc.nki takes SDK 2.26 or 2.27, nki takes SDK 2.29 or later",
            )
            return {"status": EvaluationStatus.LOAD_ERROR, "diagnostics": (finding,)}
        findings = screen_source(source.text)
        if findings:
            return {"status": EvaluationStatus.REJECTED, "diagnostics": tuple(findings)}
        return None

    def _judged(
        self,
        session: Session,
        task: KernelTask,
        source: KernelSource,
        program: Program,
        place: Path,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> dict[str, Any]:
        """Run a program: numbers first, then time, so that none is spent on a wrong kernel."""
        if not stages & (_NUMBERS | {Stage.LATENCY}):
            return {}
        found: dict[str, Any] = {}
        with session.core(place, self._timeout_s) as (process, deadline):
            loaded = process.load(program)
            loaded.prepare(task)
            if stages & _NUMBERS:
                checks = plan_checks(task, source.sha256, session.key)
                compared = compare_kernel(
                    task,
                    session.task_data(task),
                    loaded.executor(),
                    seeds if Stage.CORRECTNESS in stages else (),
                    checks if Stage.ROBUSTNESS in stages else (),
                )
                found = {
                    "seeds": compared.seeds,
                    "checks": compared.checks,
                    "diagnostics": compared.diagnostics,
                }
                if not compared.ok:
                    return found | {"status": EvaluationStatus.INCORRECT}
            if Stage.LATENCY in stages:
                measured = session.meter.measure(loaded, program, place, deadline)
                found |= self._measured(measured, source, process.core)
        return found

    def _measured(self, measured: Measurement, source: KernelSource, core: int) -> dict[str, Any]:
        kept = measured.kept
        summary, latency_us = kept.steady, kept.latency_us
        notes = [
            f"{measured.words(self.protocol)}; core {core}",
            self.sdk.pair(source.dialect),
        ]
        if summary.missing:
            notes.append(f"the profiler did not report {', '.join(summary.missing)}")
        profile = summary.profile(latency_us)
        named = profile.model_dump(exclude={"other"}, exclude_none=True)
        return {
            "latency_us": latency_us,
            "profile": profile,
            "bound": summary.bound,
            "features": named,
            "notes": tuple(notes),
        }

    def compare(self, task: KernelTask, parent: KernelSource, child: KernelSource) -> Comparison:
        """Compile both in fresh workers, and measure them in turns on one core.

        Raises:
            AcceloptError: one of them can't be compiled or run any more.
        """
        session = self.session()
        with ExitStack() as stack:
            made = [
                stack.enter_context(session.program(task, source, self._timeout_s))
                for source in (parent, child)
            ]
            process, deadline = stack.enter_context(session.core(made[0][1], COMPARED_FOR_S))

            def prepared(program: Program, place: Path) -> Callable[[], float]:
                loaded = process.load(program)
                loaded.prepare(task)

                def measure() -> float:
                    one = session.meter.one_round(loaded, program, place, deadline, launches=1)
                    return one.latency_us

                return measure

            try:
                measures = [prepared(program, place) for program, place in made]
                return by_measurement(measures[0], measures[1], rng=random.Random(child.sha256))
            except KernelFailedError as error:
                raise AcceloptError(f"{self.name} can't measure it again: {error}") from error

    def session_facts(self) -> dict[str, str]:
        """What the pre-screen saved, and what it cost."""
        if self._session is None:
            return {}
        return {"pre-screen": f"{self.prescreen.state()}: {self.prescreen.counts.words}"}

    def health(self, progress: Callable[[str], None] = lambda text: None) -> list[Check]:
        """The SDK's parts, and, where there is a device, whether it tells the truth."""
        from accelopt_trainium.device_checks import device_checks
        from accelopt_trainium.sdk_checks import sdk_checks

        found = sdk_checks(self)
        if all(check.state != "fail" for check in found):
            found += device_checks(self, progress)
        return found

    def close(self) -> None:
        """Remove what the session made; safe to call twice."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()
        self.prescreen.close()
        atexit.unregister(self.close)


def _described(device: DeviceSpec, sdk: Sdk) -> str:
    if not sdk.dialects:
        return f"{device.title}, through the Neuron SDK"
    pairs = [f"{d.value} through {sdk.pair(d)}" for d in sorted(sdk.dialects)]
    text = f"{device.title}: {'; '.join(pairs)}"
    if Dialect.NKI in sdk.dialects:
        text += ". Pre-screen and rewriter don't cover the dialect nki"
    return text
