"""The contract of a backend: one object that judges kernels on one device."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from accelopt.device import DeviceSpec
from accelopt.evaluation import ALL_STAGES, ESTIMATE_STAGES, SCREEN_STAGES, Evaluation, Stage
from accelopt.kernel import KernelSource, KernelTask

if TYPE_CHECKING:
    from accelopt.doctor import Check
    from accelopt.faster import Comparison
    from accelopt.prompt_facts import PromptFacts


class Capability(StrEnum):
    """What a backend can do. The first three are the base every backend has."""

    LOAD = "load"
    CORRECTNESS = "correctness"
    LATENCY = "latency"
    ESTIMATE = "estimate"
    """Latency without executing the numbers."""
    TRACE = "trace"
    """Judges a trace of the kernel, so that its data types are known."""
    COUNTERS = "counters"
    """Profiler counters beside the latency."""
    TIMELINE = "timeline"
    """A run over time, engine by engine."""
    DIALECT_NEURONXCC_NKI = "dialect:neuronxcc.nki"
    DIALECT_NKI = "dialect:nki"


BASE_CAPABILITIES = frozenset({Capability.LOAD, Capability.CORRECTNESS, Capability.LATENCY})


@dataclass
class CallCounts:
    """How often each call of a backend was made."""

    screen: int = 0
    estimate: int = 0
    evaluate: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, call: str) -> None:
        """Count one call; safe from several threads."""
        with self._lock:
            setattr(self, call, getattr(self, call) + 1)


class Backend(ABC):
    """Judges kernels for one device. Calls may come from several threads at once.

    A faulty kernel gives an `Evaluation` with a status and diagnostics; an exception means that the
    backend itself is broken. A subclass sets the three attributes and implements `_run`.

    Attributes:
        name: what people call it, for example `sim-trn1`.
        device: peaks and capacities.
        capabilities: what it can do; at least `BASE_CAPABILITIES`.
        description: one line for `accelopt backends`.
        version: changes whenever the same kernel may be judged differently (judge and calibration
            versions); part of the key under which evaluations are kept.
    """

    name: str
    device: DeviceSpec
    capabilities: frozenset[Capability]
    description: str = ""
    version: str = "1"

    def __init__(self) -> None:
        self.calls = CallCounts()

    def unavailable(self) -> str:
        """Why this backend can't work on this machine; empty when it can."""
        return ""

    def configure(self, *, evaluation_timeout_s: float, workers: int) -> None:  # noqa: B027
        """Take over what a run asks for; called before the first evaluation.

        Args:
            evaluation_timeout_s: wall time one evaluation may take.
            workers: evaluations at once; 0 = one per core.
        """

    def health(self, progress: Callable[[str], None] = lambda text: None) -> list[Check]:
        """What `accelopt doctor --backend NAME` says: does this backend work, can it be believed?

        The default only says whether it is available. A backend of a real device also tries it.

        Args:
            progress: told what is being tried.
        """
        from accelopt.doctor import Check

        reason = self.unavailable()
        if reason:
            fix = "repair that, or use another backend (accelopt backends lists them)"
            return [Check(name="available", state="fail", detail=reason, fix=fix)]
        return [Check(name="available", state="ok", detail=self.description)]

    def session_facts(self) -> dict[str, str]:
        """What a person should be told at the end of a run about how kernels were judged.

        Short label -> words; nothing by default. Shown by the command line and in the report.
        """
        return {}

    def prompt_facts(self, dialect: str) -> PromptFacts:
        """What agents are told about this device and a kernel language.

        The default is made of the device's figures and packaged texts about NKI. A backend that
        knows better starts from `super().prompt_facts(dialect)`, or returns facts of its own.

        Raises:
            ConfigError: nothing is known about the dialect.
        """
        # Imported here: a backend is listed and judges without reading prompts.
        from accelopt.prompt_facts import default_prompt_facts

        return default_prompt_facts(self.device, dialect)

    def screen(self, task: KernelTask, source: KernelSource) -> Evaluation:
        """Load the kernel and check constraints; no latency, no numbers."""
        self.calls.add("screen")
        return self._run(task, source, SCREEN_STAGES, ())

    def estimate(self, task: KernelTask, source: KernelSource) -> Evaluation:
        """Latency and counters without executing the numbers."""
        self.calls.add("estimate")
        return self._vetted(task, source, ESTIMATE_STAGES, ())

    def evaluate(
        self,
        task: KernelTask,
        source: KernelSource,
        *,
        stages: frozenset[Stage] = ALL_STAGES,
        seeds: Sequence[int] | None = None,
    ) -> Evaluation:
        """Judge a kernel in full.

        Args:
            task: what it must compute.
            source: the kernel.
            stages: which steps to take; `LOAD` is implied by each other one.
            seeds: input seeds to compare on; the task's own by default. The first seed that fails
                ends the comparison.

        Returns:
            status `ok` only when every asked stage passed.
        """
        self.calls.add("evaluate")
        used = task.seeds if seeds is None else tuple(seeds)
        return self._vetted(task, source, stages | {Stage.LOAD}, used)

    def _vetted(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Evaluation:
        """`_run`, and the checks that no backend is asked to make by itself."""
        from accelopt.vetting import vetted

        return vetted(self, task, source, self._run(task, source, stages, seeds), stages)

    def compare(self, task: KernelTask, parent: KernelSource, child: KernelSource) -> Comparison:
        """Whether `child` is faster than `parent`; both were found correct before.

        Measures both afresh, in turns. A backend that predicts instead of measuring decides over
        the doubt of its predictions.

        Raises:
            AcceloptError: a kernel can't be measured any more.
        """
        from accelopt.faster import compare_by_measuring

        return compare_by_measuring(self, task, parent, child)

    @abstractmethod
    def _run(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Evaluation:
        """Take the stages in order and stop at the first that fails.

        `Stage.ROBUSTNESS` asks for the inputs of `accelopt.input_checks`; a backend that can't run
        them returns no checks, and the result says so. What is returned passes the physics gate
        before anybody sees it.
        """

    def close(self) -> None:  # noqa: B027 - optional to override
        """Release processes and files; safe to call twice."""
