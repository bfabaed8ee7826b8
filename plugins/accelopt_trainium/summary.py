"""From the profiler's summary to a `Profile`.

`neuron-profile view --output-format summary-json` prints one object whose only entry, keyed by the
program, holds the counters; `total_time` is in seconds, `*_percent` are fractions (Neuron Profiler
user guide; profiler section of the device documentation).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from accelopt.errors import AcceloptError
from accelopt.evaluation import Profile

TIME = "total_time"
_ENGINES = {
    "dma": "dma_active_time_percent",
    "tensor": "tensor_engine_active_time_percent",
    "vector": "vector_engine_active_time_percent",
    "scalar": "scalar_engine_active_time_percent",
    "gpsimd": "gpsimd_engine_active_time_percent",
}
_NAMED = frozenset(Profile.model_fields) - {"latency_us", "other"}
_EXPECTED = ("hbm_read_bytes", "hbm_write_bytes", *_ENGINES.values())


@dataclass(frozen=True)
class Summary:
    """The counters of one profiled launch.

    Attributes:
        total_time_s: device time, from the start to the stop notification.
        counters: every number of the summary, under the profiler's own name.
    """

    total_time_s: float
    counters: dict[str, float]

    @property
    def missing(self) -> list[str]:
        """Counters that every profiler of a known version reports, and this one does not."""
        return [name for name in _EXPECTED if name not in self.counters]

    @property
    def bound(self) -> str:
        """The busiest engine; empty when no activity is reported."""
        busy = {name: self.counters.get(counter, -1.0) for name, counter in _ENGINES.items()}
        name = max(busy, key=lambda engine: busy[engine])
        return name if busy[name] >= 0 else ""

    def profile(self, latency_us: float) -> Profile:
        """All counters, with the latency that was measured over all launches.

        Args:
            latency_us: that latency.
        """
        named = {name: value for name, value in self.counters.items() if name in _NAMED}
        other = {name: value for name, value in self.counters.items() if name not in _NAMED}
        return Profile(latency_us=latency_us, other=other, **named)


def parse_summary(text: str, tool: str) -> Summary:
    """Read what the profiler printed; lines of its log may stand around it.

    Args:
        text: standard output.
        tool: what the profiler is called, for messages.

    Raises:
        AcceloptError: there is no summary in it, or no time.
    """
    values = _only_entry(text)
    if values is None:
        shown = text.strip()[:80] or "nothing"
        raise AcceloptError(
            f"{tool} printed no summary but {shown!r}",
            hint="tools and runtime may be of different SDK releases: see `accelopt doctor`",
        )
    counters = {
        str(name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
    time_s = counters.get(TIME)
    if time_s is None or time_s <= 0:
        raise AcceloptError(
            f"{tool} reports no {TIME}" if time_s is None else f"{tool} reports {TIME} {time_s}",
            hint="the profile of the launch is incomplete: see `accelopt doctor --backend`",
        )
    return Summary(time_s, counters)


def _only_entry(text: str) -> dict[str, Any] | None:
    first, last = text.find("{"), text.rfind("}")
    if first < 0 or last < first:
        return None
    try:
        data = json.loads(text[first : last + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data:
        return None
    inner = next(iter(data.values()))
    return inner if isinstance(inner, dict) else data
