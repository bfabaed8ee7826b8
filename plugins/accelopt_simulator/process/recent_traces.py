"""Traces that were just made: the tiers of one evaluation need the same one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.process.worker import WorkerResult

_MOST = 8
_MOST_BYTES = 8 << 20


@dataclass
class RecentTrace:
    """A trace, and whether a second run of the kernel gave the same one."""

    result: WorkerResult
    reproduced: bool = False


class RecentTraces:
    """The last few good traces by request. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: OrderedDict[str, RecentTrace] = OrderedDict()

    def get(self, request: TraceRequest) -> RecentTrace | None:
        """The trace of a request; None when it is not known any more."""
        with self._lock:
            return self._traces.get(repr(request))

    def put(self, request: TraceRequest, result: WorkerResult) -> RecentTrace:
        """Keep a trace, unless it is bad or large."""
        made = RecentTrace(result)
        if result.status == "ok" and len(result.trace_bytes) <= _MOST_BYTES:
            with self._lock:
                self._traces[repr(request)] = made
                while len(self._traces) > _MOST:
                    self._traces.popitem(last=False)
        return made
