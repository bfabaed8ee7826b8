"""What every node of a run works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelopt.backend import Backend
from accelopt.candidate import Candidate
from accelopt.config import RunConfig
from accelopt.device import percent_of_peak
from accelopt.evaluation_pool import EvaluationPool
from accelopt.kernel import KernelTask
from accelopt.normalize import normalized_hash
from accelopt.requests import ProblemFacts
from accelopt.run_store import RunStore
from accelopt_graphs.chat import ChatCaller
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.run_memory import RunMemory
from accelopt_graphs.state import CandidateRef
from accelopt_graphs.stopping import RunStoppedError, StopSignal


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The services of one run, behind the interfaces that nodes need."""

    config: RunConfig
    task: KernelTask
    backend: Backend
    store: RunStore
    chat: ChatCaller
    pool: EvaluationPool
    memory: RunMemory
    events: EventHub
    stop: StopSignal
    problem: ProblemFacts

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Around a node: refuse to start when the run is to end, and end the run when it breaks."""
        self.stop.check()
        try:
            yield
        except RunStoppedError:
            raise
        except BaseException as error:
            self.stop.break_off(error)
            raise

    def percent_of_peak(self, latency_us: float | None) -> float | None:
        """Percent of the device's peak; None without a latency."""
        if not latency_us:
            return None
        return percent_of_peak(latency_us, self.task.work, self.backend.device)


def problem_facts(task: KernelTask, backend: Backend) -> ProblemFacts:
    """What every agent is told about the task and the device."""
    device = backend.device
    facts = device.model_dump(exclude={"name", "title", "sources"})
    return ProblemFacts(
        task=task.name,
        device=device.title,
        dialect=task.baseline.dialect.value,
        reference_source=task.reference_source,
        arguments=tuple(
            f"{argument.shape} {argument.dtype}" if argument.value is None else repr(argument.value)
            for argument in task.arguments
        ),
        output_shape=task.output_shape,
        relative_l2_tolerance=task.relative_l2_tolerance,
        device_facts=tuple(f"{name}: {value}" for name, value in facts.items()),
    )


def candidate_ref(candidate: Candidate) -> CandidateRef:
    """A candidate in numbers."""
    return CandidateRef(
        id=candidate.id,
        parent=candidate.parent,
        plan=candidate.plan,
        latency_us=candidate.latency_us,
        source_hash=normalized_hash(candidate.source.text),
        status=candidate.evaluation.status.value,
    )
