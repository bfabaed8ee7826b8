"""The simulator's constraints first, so that device time goes to kernels that can win.

A kernel that the simulator refuses is not compiled. What that saves is counted, and so is its
price: of the refused kernels a fixed share, chosen by their content, goes to the device all the
same, and the share of these that the device accepts is the false-reject rate.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from accelopt.backend import Backend, Capability
from accelopt.errors import AcceloptError, ConfigError
from accelopt.evaluation import Evaluation, EvaluationStatus
from accelopt.kernel import KernelSource, KernelTask
from accelopt.plugins import installed

PRESCREEN_VARIABLE = "ACCELOPT_PRESCREEN"
"""`off`, or the name of the backend that screens; by default the simulator of the same device."""
SAMPLE_EVERY = 10
"""Of the refused kernels, about one in this many goes to the device all the same."""

_SAMPLED = frozenset(
    {
        EvaluationStatus.LOAD_ERROR,
        EvaluationStatus.UNSUPPORTED_OP,
        EvaluationStatus.CONSTRAINT_VIOLATION,
    }
)
"""Never a rejected one: what is taken for an attack stays away from the device."""


@dataclass
class Counts:
    """What the pre-screen did in this session.

    Attributes:
        screened: kernels it saw.
        refused: of these, not sent to the device.
        sampled: refused, and sent all the same.
        accepted: of the sampled, found right by the device.
        device_s: seconds that the evaluations on the device took.
        device_runs: how many these were.
    """

    screened: int = 0
    refused: int = 0
    sampled: int = 0
    accepted: int = 0
    device_s: float = 0.0
    device_runs: int = 0

    @property
    def words(self) -> str:
        """One line for a person."""
        if not self.screened:
            return "saw no kernel"
        text = f"kept {self.refused} of {self.screened} kernels from the device"
        if self.refused and self.device_runs:
            saved_s = self.refused * self.device_s / self.device_runs
            text += (
                f", about {saved_s / 60:.1f} min of it"
                if saved_s >= 60
                else (f", about {saved_s:.0f} s of it")
            )
        if self.sampled:
            text += f"; {self.accepted} of {self.sampled} sampled refusals were wrong"
        elif self.refused:
            text += "; no refusal was sampled"
        return text


@dataclass(frozen=True)
class Decision:
    """What becomes of a kernel.

    Attributes:
        refusal: its evaluation, if it is not to go to the device.
        sampled: whether it was refused, and goes to the device all the same.
    """

    refusal: Evaluation | None = None
    sampled: bool = False


def is_sampled(status: EvaluationStatus, source: KernelSource) -> bool:
    """Whether a refused kernel goes to the device all the same; the same one always does."""
    return status in _SAMPLED and int(source.sha256[:8], 16) % SAMPLE_EVERY == 0


class Prescreen:
    """Screens kernels with another backend, reached through the registry.

    Args:
        device: `trn1` or `trn2`.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        self._looked = False
        self.counts = Counts()

    def decide(self, task: KernelTask, source: KernelSource) -> Decision:
        """Screen a kernel.

        Raises:
            ConfigError: the environment names a backend that can't screen.
        """
        backend = self._screener()
        if backend is None or f"dialect:{source.dialect.value}" not in backend.capabilities:
            return Decision()
        seen = backend.screen(task, source)
        sampled = not seen.ok and is_sampled(seen.status, source)
        with self._lock:
            self.counts.screened += 1
            self.counts.sampled += sampled
            self.counts.refused += not seen.ok and not sampled
        if seen.ok or sampled:
            return Decision(sampled=sampled)
        note = f"refused by the pre-screen of {backend.name}; not compiled for the device"
        return Decision(seen.model_copy(update={"notes": (*seen.notes, note), "trace_hash": ""}))

    def judged(self, decision: Decision, result: Evaluation) -> None:
        """Count what the device said of a kernel that it was given."""
        with self._lock:
            self.counts.device_runs += 1
            self.counts.device_s += result.elapsed_s
            self.counts.accepted += decision.sampled and result.ok

    def state(self) -> str:
        """What it is, for people."""
        try:
            backend = self._screener()
        except AcceloptError as error:
            return error.message
        return "off" if backend is None else f"by {backend.name}"

    def close(self) -> None:
        """End the screening backend."""
        with self._lock:
            backend, self._backend, self._looked = self._backend, None, False
        if backend is not None:
            backend.close()

    def _screener(self) -> Backend | None:
        with self._lock:
            if not self._looked:
                self._backend = self._find()
                self._looked = True
            return self._backend

    def _find(self) -> Backend | None:
        asked = os.environ.get(PRESCREEN_VARIABLE, "").strip()
        if asked == "off":
            return None
        registry = installed()
        name = asked or f"sim-{self._device}"
        if not asked and name not in registry.backends:
            return None
        backend = registry.backend(name)
        reason = backend.unavailable()
        if not reason and Capability.TRACE in backend.capabilities:
            return backend
        backend.close()
        if not asked:
            return None
        raise ConfigError(
            f"{PRESCREEN_VARIABLE} is {asked!r}: {reason or 'that backend traces no kernel'}",
            hint=f"set it to off, or to sim-{self._device}",
        )
