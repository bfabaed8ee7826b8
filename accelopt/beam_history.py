"""How a run's beam went: what replays are compared by and forks begin with.

A graph keeps one record per iteration, kind `state`, id `slots.state_slot(iteration)`: JSON with at
least `iteration`, `beam` (a list of objects with `id` and `latency_us`) and `best` (one of them).
Iteration 0 is where the search stands once the baseline is judged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from accelopt import slots
from accelopt.journal import Journal

STATE_KIND = "state"


@dataclass(frozen=True, kw_only=True)
class BeamState:
    """The beam after an iteration.

    Attributes:
        iteration: 0 for the start.
        beam: (candidate id, latency in microseconds), fastest first.
        best: the fastest correct kernel so far.
    """

    iteration: int
    beam: tuple[tuple[str, float | None], ...]
    best: tuple[str, float | None]


def has_state(journal: Journal, iteration: int) -> bool:
    """Whether the search got to the end of an iteration."""
    return journal.record(STATE_KIND, slots.state_slot(iteration)) is not None


def beam_history(journal: Journal) -> list[BeamState]:
    """The beam after each iteration, in order."""
    states = [json.loads(text) for text in journal.records(STATE_KIND).values()]
    return sorted((_beam(state) for state in states), key=lambda state: state.iteration)


def _beam(state: dict[str, Any]) -> BeamState:
    return BeamState(
        iteration=int(state["iteration"]),
        beam=tuple((ref["id"], ref["latency_us"]) for ref in state["beam"]),
        best=(state["best"]["id"], state["best"]["latency_us"]),
    )
