"""Plans, candidates and experiences: what a search handles."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from accelopt.evaluation import Evaluation
from accelopt.kernel import KernelSource


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Plan(_Frozen):
    """One optimization plan for one candidate.

    Attributes:
        id: `i<iteration>-c<parent>-p<index>`; from the slot, never from arrival order.
        parent: id of the candidate it is for.
        text: the plan as the planner wrote it.
    """

    id: str
    parent: str
    text: str


class Candidate(_Frozen):
    """One kernel with its evaluation and its place in the search tree.

    Attributes:
        id: `baseline`, or `i<iteration>-c<parent>-p<plan>-s<sample>`.
        iteration: the iteration that produced it; 0 for the baseline.
        parent: id of the candidate it was derived from; empty for the baseline.
        plan: id of its plan; empty for the baseline.
        sample: index of the implementation of that plan.
        source: the kernel.
        evaluation: what the backend said.
        fixer_rounds: how many repair rounds it took.
        notes: what is worth knowing of how it was read from a reply.
    """

    id: str
    iteration: int
    parent: str = ""
    plan: str = ""
    sample: int = 0
    source: KernelSource
    evaluation: Evaluation
    fixer_rounds: int = 0
    notes: tuple[str, ...] = ()

    @property
    def latency_us(self) -> float | None:
        """Latency of a correct kernel in microseconds; None for any other."""
        return self.evaluation.latency_us if self.evaluation.correct else None


class ExperienceUse(_Frozen):
    """How often an experience was offered to a planner, and what came of it."""

    offered: int = 0
    adopted: int = 0
    helped: int = 0
    hurt: int = 0


class Experience(_Frozen):
    """One lesson: a slow and a fast kernel and the strategy that leads from one to the other.

    Attributes:
        id: stable id within its store.
        title: one line.
        strategy: the lesson as the summarizer wrote it.
        slow_source: kernel text before.
        fast_source: kernel text after.
        speedup: slow latency / fast latency; at least 1.
        sign: `positive` for a speed-up, `negative` for a slow-down turned round.
        task: task name.
        device: device name.
        dialect: dialect name.
        bottleneck: what bounded the slow kernel.
        provenance: run id and candidate ids.
        features: named numbers that describe the slow kernel.
        use: its record of use.
    """

    id: str
    title: str
    strategy: str
    slow_source: str
    fast_source: str
    speedup: float = Field(ge=1.0)
    sign: Literal["positive", "negative"]
    task: str
    device: str
    dialect: str
    bottleneck: str = ""
    provenance: str = ""
    features: dict[str, float] = {}
    use: ExperienceUse = ExperienceUse()


def speedup(slow_us: float, fast_us: float) -> float:
    """slow / fast, both in microseconds."""
    return slow_us / fast_us
