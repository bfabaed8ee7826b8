"""Experience curation: which slow-fast pairs become lessons, and what the memory forgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from accelopt.slots import slot_key


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A correct child as curation sees it.

    Attributes:
        id: candidate id.
        parent: id of its parent.
        plan: id of its plan.
        speedup: latency of the parent / latency of the child.
    """

    id: str
    parent: str
    plan: str
    speedup: float


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A slow and a fast candidate to learn from.

    Attributes:
        child: id of the child that was chosen.
        slow: id of the slower candidate.
        fast: id of the faster candidate.
        speedup: slow latency / fast latency; at least 1.
        measured: speedup of the child over its parent, as measured.
        sign: `positive` for a speed-up, `negative` for a slow-down turned round.
    """

    child: str
    slow: str
    fast: str
    speedup: float
    measured: float
    sign: Literal["positive", "negative"]


def representative(samples: Sequence[Sample]) -> Sample | None:
    """The one sample that stands for a plan.

    The best if it is a speed-up, the worst if all are slow-downs, none if the best changes nothing.
    """
    ordered = sorted(samples, key=lambda sample: slot_key(sample.id))
    if not ordered:
        return None
    best = max(ordered, key=lambda sample: sample.speedup)
    if best.speedup > 1:
        return best
    if best.speedup < 1:
        return min(ordered, key=lambda sample: sample.speedup)
    return None


def teaches(
    speedup: float, *, topk: int, positive_threshold: float, negative_threshold: float
) -> bool:
    """Whether a child of this speedup over its parent may become a lesson."""
    if topk <= 0:
        return False
    return _above(speedup, positive_threshold) or _above(1 / speedup, negative_threshold)


def _above(ratio: float, threshold: float) -> bool:
    """Strictly greater, rounding of the ratio left aside: 115 us over 100 us is not above 1.15."""
    return ratio > threshold * (1 + 1e-12)


def choose_pairs(
    samples: Iterable[Sample],
    *,
    topk: int,
    positive_threshold: float,
    negative_threshold: float,
) -> list[Pair]:
    """The pairs of one iteration that become lessons, positives first, the strongest first.

    Args:
        samples: all correct children of the iteration.
        topk: TopK; at most half of it (rounded down) are positives, negatives fill up the rest.
        positive_threshold: a speedup must be greater.
        negative_threshold: a slow-down (1 / speedup) must be greater.
    """
    branches: dict[tuple[str, str], list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: slot_key(sample.id)):
        branches.setdefault((sample.parent, sample.plan), []).append(sample)
    found = [representative(branch) for branch in branches.values()]
    chosen = [sample for sample in found if sample is not None]
    # Sorting is stable, so equal speedups stay in the order of their slots.
    faster = sorted((s for s in chosen if s.speedup > 1), key=lambda s: -s.speedup)
    slower = sorted((s for s in chosen if s.speedup <= 1), key=lambda s: s.speedup)
    positives = [s for s in faster if _above(s.speedup, positive_threshold)][: topk // 2]
    negatives = [s for s in slower if _above(1 / s.speedup, negative_threshold)]
    return [_pair(s) for s in (*positives, *negatives[: topk - len(positives)])]


def _pair(sample: Sample) -> Pair:
    if sample.speedup < 1:
        return Pair(
            child=sample.id,
            slow=sample.id,
            fast=sample.parent,
            speedup=1 / sample.speedup,
            measured=sample.speedup,
            sign="negative",
        )
    return Pair(
        child=sample.id,
        slow=sample.parent,
        fast=sample.id,
        speedup=sample.speedup,
        measured=sample.speedup,
        sign="positive",
    )


def push(queue: Sequence[str], lessons: Iterable[str], capacity: int) -> list[str]:
    """The queue memory after new lessons: oldest first, the oldest dropped beyond `capacity`.

    A lesson without content is never stored, so an empty id takes no place; nor does one that is
    already there.
    """
    result = list(queue)
    for lesson in lessons:
        if lesson and lesson not in result:
            result.append(lesson)
    return result[max(0, len(result) - capacity) :] if capacity > 0 else []
