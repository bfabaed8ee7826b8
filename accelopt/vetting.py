"""What is checked of every backend's evaluation, whoever wrote the backend.

A plugin backend measures; these rules are applied to what it says: the physics gate, and, where the
backend sees no trace, the precision of the program through a backend that traces.
"""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING

from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus, Stage
from accelopt.physics import violation

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.kernel import KernelSource, KernelTask

PRECISION_UNCHECKED = "precision unchecked"
INPUTS_UNCHECKED = "fresh and stress inputs not tried"
PRECISION_RULE = "precision_below_task"

_tracers: dict[tuple[str, str], Backend | None] = {}
_lock = threading.Lock()


def vetted(
    backend: Backend,
    task: KernelTask,
    source: KernelSource,
    evaluation: Evaluation,
    stages: frozenset[Stage],
) -> Evaluation:
    """The evaluation, rejected if it can't be true, with notes on what nobody checked."""
    if not evaluation.ok:
        return evaluation
    finding = violation(task, backend.device, evaluation)
    notes = []
    if finding is None and Stage.CORRECTNESS in stages and not evaluation.trace_hash:
        finding, note = _precision(backend, task, source)
        notes.append(note)
    if Stage.ROBUSTNESS in stages and not evaluation.checks:
        notes.append(INPUTS_UNCHECKED)
    if finding is not None:
        return evaluation.model_copy(
            update={
                "status": EvaluationStatus.REJECTED,
                "diagnostics": (finding, *evaluation.diagnostics),
            }
        )
    added = [note for note in notes if note and note not in evaluation.notes]
    return evaluation.model_copy(update={"notes": (*evaluation.notes, *added)})


def _precision(
    backend: Backend, task: KernelTask, source: KernelSource
) -> tuple[Diagnostic | None, str]:
    """A finding about a kernel's data types, or a note that nobody saw them."""
    tracer = _tracer(backend, source.dialect.value)
    if tracer is None:
        return None, f"{PRECISION_UNCHECKED}: no installed backend traces {source.dialect.value}"
    seen = tracer.screen(task, source)
    low = [finding for finding in seen.diagnostics if finding.rule == PRECISION_RULE]
    if low:
        return low[0], ""
    if not seen.ok:
        return None, f"{PRECISION_UNCHECKED}: {tracer.name} can't trace it ({seen.status.value})"
    return None, ""


def _tracer(backend: Backend, dialect: str) -> Backend | None:
    """A backend that traces a dialect; one for the same device first."""
    from accelopt.backend import Capability
    from accelopt.plugins import installed

    with _lock:
        key = (backend.device.name, dialect)
        if key not in _tracers:
            found: Backend | None = None
            for name, factory in installed().backends.items():
                if name == backend.name:
                    continue
                other = factory()
                able = {Capability.TRACE, f"dialect:{dialect}"} <= other.capabilities
                if not able or other.unavailable():
                    continue
                if found is None or other.device.name == backend.device.name:
                    found = other
            _tracers[key] = found
            if found is not None:
                atexit.register(found.close)
        return _tracers[key]
