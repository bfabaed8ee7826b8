"""How busy each engine is, read from the lines a planner is given."""

from __future__ import annotations

import re
from collections.abc import Sequence

ENGINES = ("dma", "vector", "scalar", "tensor")

_COUNTERS = {
    "dma_active_time_percent": "dma",
    "vector_engine_active_time_percent": "vector",
    "scalar_engine_active_time_percent": "scalar",
    "tensor_engine_active_time_percent": "tensor",
}
_BOUND_BONUS = 0.25
"""What being named as the bottleneck adds to an engine's busy fraction."""


def busy_fractions(profile: Sequence[str], bottleneck: str) -> dict[str, float]:
    """Busy fraction of each engine (0 to 1, more for the named bottleneck), plus `latency`.

    `latency` stands for short dependent steps: it matters where no engine is busy.
    """
    busy = dict.fromkeys(ENGINES, 0.0)
    for line in profile:
        name, _, value = line.partition(":")
        engine = _COUNTERS.get(name.strip())
        number = re.search(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", value)
        if engine is not None and number is not None:
            fraction = float(number.group(0))
            busy[engine] = fraction / 100 if fraction > 1.5 else fraction
    busy["latency"] = max(0.0, 1.0 - max(busy.values())) if any(busy.values()) else 0.0
    text = bottleneck.lower()
    named = re.search(r"bound by:?\s*(\w+)", text) or re.match(r"\s*(\w+)", text)
    if named is not None:
        word = named.group(1)
        engine = {"memory": "dma"}.get(word, word)
        if engine in busy:
            busy[engine] += _BOUND_BONUS
    return busy


def share(relieves: frozenset[str], busy: dict[str, float]) -> float:
    """How much a rewrite that relieves these engines promises."""
    return max((busy.get(engine, 0.0) for engine in relieves), default=0.0)
