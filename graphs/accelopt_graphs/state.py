"""State of the search graph: ids and numbers. Sources and texts stay in the run store."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict


class CandidateRef(TypedDict):
    """A candidate in numbers."""

    id: str
    parent: str
    plan: str
    latency_us: float | None
    """None unless it is correct."""
    screened_us: float | None
    """Latency of a kernel that is right as far as it was compared; decides what a plan stands for
    in curation, and nothing else."""
    source_hash: str
    """Normalized."""
    trace_hash: str
    """Empty when there is none."""
    status: str


class PlanRef(TypedDict):
    """A plan without its text."""

    id: str
    parent: str
    """Id of the candidate it is for."""


class TriedRef(TypedDict):
    """A plan that was tried, and what came of it."""

    plan: str
    outcome: str
    """In a few words: the best speedup of its kernels, or why they failed."""


class PairRef(TypedDict):
    """A slow-fast pair that becomes a lesson."""

    child: str
    slow: str
    fast: str
    speedup: float
    sign: Literal["positive", "negative"]


class LessonRef(TypedDict):
    """A lesson without its text."""

    id: str
    child: str


def gather(
    left: list[CandidateRef] | list[PlanRef] | list[LessonRef] | None,
    right: list[CandidateRef] | list[PlanRef] | list[LessonRef] | None,
) -> list[CandidateRef] | list[PlanRef] | list[LessonRef]:
    """Reducer of what a fan-out brings in: append, or start anew when told None."""
    if right is None:
        return []
    return [*(left or []), *right]


class SearchState(TypedDict, total=False):
    """The search between two steps."""

    iteration: int
    """The current one, from 1."""
    stale: int
    """Iterations since the best kernel was found."""
    beam: list[CandidateRef]
    best: CandidateRef
    plans: Annotated[list[PlanRef] | None, gather]
    """Of this iteration."""
    attempts: Annotated[list[CandidateRef] | None, gather]
    """Of this iteration."""
    pairs: list[PairRef]
    """Of this iteration."""
    lessons: Annotated[list[LessonRef] | None, gather]
    """Of this iteration."""
    queue: list[str]
    """Ids of the lessons the run's memory holds, oldest first."""
    forgotten: list[str]
    """Ids of the run's lessons that its memory has dropped."""
    tried: dict[str, list[TriedRef]]
    """Candidate id -> the plans that were tried on it."""


class PlannerInput(TypedDict):
    """One planner call."""

    iteration: int
    parent_index: int
    parent: str
    index: int
    tried: list[TriedRef]


class SummaryInput(TypedDict):
    """One summarizer call."""

    iteration: int
    pair: PairRef


class AttemptInput(TypedDict):
    """One implementation of a plan that is to be made."""

    iteration: int
    parent: str
    plan: str
    sample: int
    bar_us: float | None
    """Latency below which a kernel may enter the beam; None: any may."""
    learns: bool
    """Whether lessons are made of its slow-fast pairs."""


class AttemptState(AttemptInput, total=False):
    """One implementation of a plan, while it is made, judged and repaired."""

    round: int
    """Fixer rounds so far."""
    outcome: Literal["written", "judged", "failed", "given_up"]
    status: str
    """Evaluation status of the last round."""
    attempts: list[CandidateRef]
    """The one result."""


class AttemptOutput(TypedDict):
    """What an attempt adds to the search."""

    attempts: list[CandidateRef]
