"""Where a search stood after each iteration, in the form that `accelopt.beam_history` reads."""

from __future__ import annotations

import json
from typing import Any, cast

from accelopt import slots
from accelopt.beam_history import STATE_KIND, beam_history
from accelopt.journal import Journal
from accelopt_graphs.state import SearchState

_KEYS = ("iteration", "stale", "beam", "best", "queue", "forgotten", "tried")


def save_state(journal: Journal, state: SearchState) -> None:
    """Keep the state of the search between two iterations; 0 is before the first."""
    values: dict[str, Any] = {key: value for key, value in state.items() if key in _KEYS}
    journal.put_record(STATE_KIND, slots.state_slot(state["iteration"]), json.dumps(values))


def load_state(journal: Journal, iteration: int) -> SearchState | None:
    """The state after an iteration; None if the search did not get there."""
    text = journal.record(STATE_KIND, slots.state_slot(iteration))
    return None if text is None else cast(SearchState, json.loads(text))


def last_state(journal: Journal) -> SearchState | None:
    """The state after the last iteration that was completed; None before the baseline is judged."""
    history = beam_history(journal)
    return load_state(journal, history[-1].iteration) if history else None
