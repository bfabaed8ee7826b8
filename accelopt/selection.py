"""Beam selection: parents compete with children, one child per plan, no program twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accelopt.slots import slot_key


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A candidate as selection sees it.

    Attributes:
        id: candidate id.
        parent: id of its parent; empty for the baseline.
        plan: id of its plan; empty for the baseline.
        latency_us: of a correct kernel; None for any other, which is never selected.
        source_hash: normalized source hash.
        trace_hash: hash of its trace; empty when there is none.
    """

    id: str
    parent: str = ""
    plan: str = ""
    latency_us: float | None
    source_hash: str
    trace_hash: str = ""


def representatives(children: Iterable[Contender]) -> list[Contender]:
    """The fastest correct child of each (parent, plan), ties by slot; in the order of slots."""
    best: dict[tuple[str, str], Contender] = {}
    for child in sorted(children, key=lambda child: slot_key(child.id)):
        if child.latency_us is None:
            continue
        branch = (child.parent, child.plan)
        current = best.get(branch)
        if current is None or child.latency_us < _latency(current):
            best[branch] = child
    return list(best.values())


def select_beam(
    incumbents: Sequence[Contender],
    children: Iterable[Contender],
    best: Contender,
    width: int,
) -> list[Contender]:
    """The next beam: the `width` fastest distinct programs out of parents and children.

    Args:
        incumbents: the current beam.
        children: all children of the iteration, correct or not.
        best: the fastest correct kernel so far; always takes part.
        width: B.

    Returns:
        between 1 and `width` candidates, fastest first; ties go to incumbents, then by slot. The
        fastest correct kernel ever seen is the first.
    """
    held = {incumbent.id for incumbent in incumbents} | {best.id}
    pool = {contender.id: contender for contender in (*incumbents, best)}
    for child in representatives(children):
        pool.setdefault(child.id, child)
    ranked = sorted(
        (contender for contender in pool.values() if contender.latency_us is not None),
        key=lambda contender: (
            _latency(contender),
            contender.id not in held,
            slot_key(contender.id),
        ),
    )
    beam: list[Contender] = []
    seen: set[str] = set()
    for contender in ranked:
        # Two texts may be one program, and two programs may give one trace.
        marks = {contender.source_hash, contender.trace_hash} - {""}
        if not marks & seen:
            beam.append(contender)
        seen |= marks
    return beam[:width] or [best]


def winner(contenders: Iterable[Contender]) -> Contender | None:
    """The fastest correct kernel, compared without rounding, ties by slot; None if none is."""
    correct = [contender for contender in contenders if contender.latency_us is not None]
    if not correct:
        return None
    return min(correct, key=lambda contender: (_latency(contender), slot_key(contender.id)))


def _latency(contender: Contender) -> float:
    return float("inf") if contender.latency_us is None else contender.latency_us
