"""What every node of a run works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelopt.backend import Backend
from accelopt.budget import Budget
from accelopt.candidate import Candidate
from accelopt.config import RunConfig
from accelopt.device import percent_of_peak
from accelopt.errors import BudgetExhaustedError
from accelopt.evaluation_pool import EvaluationPool
from accelopt.kernel import KernelTask
from accelopt.normalize import normalized_hash
from accelopt.requests import ProblemFacts
from accelopt.run_store import RunStore
from accelopt_graphs.chat import ChatCaller
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.recorded import RecordedAnswers
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
    budget: Budget
    problem: ProblemFacts
    recorded: RecordedAnswers | None = None
    """Replay: where the answers come from."""

    @contextmanager
    def guard(self, *, without_budget: bool = False) -> Iterator[None]:
        """Around a node: refuse to start when the run is to end, and end the run when it breaks.

        Args:
            without_budget: the node may start although the budget is used up.
        """
        if not (without_budget and isinstance(self.stop.error, BudgetExhaustedError)):
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


def candidate_ref(candidate: Candidate) -> CandidateRef:
    """A candidate in numbers."""
    evaluation = candidate.evaluation
    return CandidateRef(
        id=candidate.id,
        parent=candidate.parent,
        plan=candidate.plan,
        latency_us=candidate.latency_us,
        screened_us=evaluation.latency_us if evaluation.right_so_far else None,
        source_hash=normalized_hash(candidate.source.text),
        trace_hash=evaluation.trace_hash,
        status=evaluation.status.value,
    )
