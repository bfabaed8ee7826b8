"""The parent's side of the tracing workers: a warm process for each candidate, used once."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.process import frames
from accelopt_simulator.process.child import Child, clean_environment

WORKER_MODULE = "accelopt_simulator.process.worker_main"
MAX_RESULT_BYTES = 512 << 20
STATUSES = frozenset(
    {"ok", "load_error", "unsupported_op", "constraint_violation", "out_of_memory"}
)


@dataclass(frozen=True, kw_only=True)
class WorkerLimits:
    """What a candidate may use while it is traced.

    Attributes:
        wall_s: seconds.
        memory_bytes: address space, interpreter and NumPy included.
    """

    wall_s: float = 20.0
    memory_bytes: int = 2 << 30


@dataclass(kw_only=True)
class WorkerResult:
    """What came back.

    Attributes:
        status: `ok`, one of the front end's statuses, `timeout` or `out_of_memory`.
        diagnostics: plain dictionaries; not to be trusted beyond being shown.
        trace_bytes: the encoded trace, unvalidated; empty when there is none.
    """

    status: str
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    trace_bytes: bytes = b""


class WorkerPool:
    """Keeps a few workers warm. Each runs one candidate and is then ended with all it started."""

    def __init__(self, limits: WorkerLimits, *, warm: int = 1) -> None:
        self.limits = limits
        self._warm_count = warm
        self._idle: list[Child] = []
        self._lock = threading.Lock()
        self._folder = tempfile.mkdtemp(prefix="accelopt-worker-")
        self._closed = False

    def _start(self) -> Child:
        return Child(WORKER_MODULE, cwd=self._folder, environment=clean_environment())

    def _take(self) -> Child:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is not None and child.process.poll() is None:
            return child
        if child is not None:
            child.end()
        return self._start()

    def _refill(self) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < self._warm_count:
                self._idle.append(self._start())

    def trace(self, request: TraceRequest) -> WorkerResult:
        """Trace one candidate in a process of its own. Safe from several threads.

        Raises:
            OSError: no process could be started.
        """
        child = self._take()
        self._refill()
        deadline = time.monotonic() + self.limits.wall_s
        try:
            message = self._ask(child, request, deadline)
        except frames.FrameTimeoutError:
            child.end()
            return _failed("timeout", "wall_limit", f"tracing took over {self.limits.wall_s:g} s")
        except frames.FrameError as error:
            child.end()
            return _failed("load_error", "worker_result", f"the worker's result is unusable: {error}")
        code = child.end() if message is None else 0
        if message is None:
            return self._died(code)
        child.end()
        head, body = message
        status, diagnostics = head.get("status"), head.get("diagnostics")
        if status not in STATUSES or not isinstance(diagnostics, list):
            return _failed("load_error", "worker_result", "the worker's result has the wrong form")
        return WorkerResult(status=status, diagnostics=diagnostics[:20], trace_bytes=body)

    def _ask(
        self, child: Child, request: TraceRequest, deadline: float
    ) -> tuple[dict[str, Any], bytes] | None:
        arguments = [
            {"shape": list(item[0]), "dtype": item[1]} if isinstance(item, tuple) else item
            for item in request.arguments
        ]
        head = {
            "text": request.text,
            "entry": request.entry,
            "arguments": arguments,
            "memory_bytes": self.limits.memory_bytes,
            "cpu_s": int(self.limits.wall_s) + 2,
        }
        try:
            frames.send(child.request_fd, head)
        except OSError:
            return None
        return frames.receive(child.result_fd, max_bytes=MAX_RESULT_BYTES, deadline=deadline)

    def _died(self, code: int) -> WorkerResult:
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return _failed("timeout", "cpu_limit", "the kernel used up its CPU time while tracing")
        what = f"signal {-code}" if code < 0 else f"code {code}"
        return _failed(
            "load_error", "worker_exited", f"the kernel ended its process ({what}) while tracing"
        )

    def close(self) -> None:
        """End idle workers and remove the folder."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _failed(status: str, rule: str, message: str) -> WorkerResult:
    return WorkerResult(status=status, diagnostics=[{"rule": rule, "message": message}])
