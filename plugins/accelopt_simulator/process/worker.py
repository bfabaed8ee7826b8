"""The parent's side of the tracing workers: one fresh process per candidate, with limits."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.process import frames
from accelopt_simulator.process.child import clean_environment, kill_group, start

SERVER_MODULE = "accelopt_simulator.process.worker_main"
SERVER_ANSWER_S = 30.0
MAX_RESULT_BYTES = 512 << 20
MAX_DIAGNOSTICS = 20
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
    """Runs each candidate in a process of its own, forked from a server that has never run one."""

    def __init__(self, limits: WorkerLimits) -> None:
        self.limits = limits
        self._folder = tempfile.mkdtemp(prefix="accelopt-worker-")
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def _connect(self) -> socket.socket:
        """The control socket of a living server; the lock is held."""
        if self._server is not None and self._server.poll() is not None:
            self._disconnect()
        if self._control is None:
            self._control, theirs = socket.socketpair()
            with theirs:
                self._server = start(
                    SERVER_MODULE,
                    (theirs.fileno(),),
                    cwd=self._folder,
                    environment=clean_environment(),
                )
        return self._control

    def _disconnect(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            kill_group(self._server.pid)
            self._server.wait()
        self._control = self._server = None

    def _command(self, head: dict[str, Any], descriptor: int | None = None) -> dict[str, Any]:
        """One exchange with the server; a server that died is replaced once."""
        with self._lock:
            for attempt in (0, 1):
                control = self._connect()
                try:
                    if descriptor is None:
                        frames.send(control.fileno(), head)
                    else:
                        frames.send_with_descriptor(control, head, descriptor)
                    deadline = time.monotonic() + SERVER_ANSWER_S
                    answer = frames.receive(control.fileno(), max_bytes=4096, deadline=deadline)
                except (OSError, frames.FrameTimeoutError):
                    answer = None
                if answer is not None:
                    return answer[0]
                self._disconnect()
                if descriptor is None or attempt:
                    break
        raise OSError("the tracing server does not answer")

    def trace(self, request: TraceRequest) -> WorkerResult:
        """Trace one candidate in a process of its own. Safe from several threads.

        Raises:
            OSError: no process could be started.
        """
        for _ in range(2):
            result = self._trace_once(request)
            if result is not None:
                return result
        return _failed("load_error", "worker_exited", "the kernel ended the tracing server")

    def _trace_once(self, request: TraceRequest) -> WorkerResult | None:
        """One attempt; None when the server died, perhaps by another candidate's hand."""
        read_end, write_end = os.pipe()
        try:
            pid = self._command(self._head(request), write_end)["pid"]
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        deadline = time.monotonic() + self.limits.wall_s
        failure: WorkerResult | None = None
        message = None
        try:
            message = frames.receive(read_end, max_bytes=MAX_RESULT_BYTES, deadline=deadline)
        except frames.FrameTimeoutError:
            limit = f"tracing took over {self.limits.wall_s:g} s"
            failure = _failed("timeout", "wall_limit", limit)
        except frames.FrameError as error:
            problem = f"the worker's result is unusable: {error}"
            failure = _failed("load_error", "worker_result", problem)
        finally:
            os.close(read_end)
            if message is not None or failure is not None:
                # The candidate may have left processes of its group behind, or still be running.
                kill_group(pid)
        try:
            code = self._command({"wait": pid})["code"]
        except OSError:
            return None
        kill_group(pid)
        if failure is not None:
            return failure
        if message is None:
            return self._died(code)
        head, body = message
        status, diagnostics = head.get("status"), head.get("diagnostics")
        if status not in STATUSES or not isinstance(diagnostics, list):
            return _failed("load_error", "worker_result", "the worker's result has the wrong form")
        return WorkerResult(
            status=status, diagnostics=diagnostics[:MAX_DIAGNOSTICS], trace_bytes=body
        )

    def _head(self, request: TraceRequest) -> dict[str, Any]:
        return {
            "text": request.text,
            "entry": request.entry,
            "arguments": [
                {"shape": list(item[0]), "dtype": item[1]} if isinstance(item, tuple) else item
                for item in request.arguments
            ],
            "grid": list(request.grid),
            "memory_bytes": self.limits.memory_bytes,
            "cpu_s": int(self.limits.wall_s) + 2,
        }

    def _died(self, code: int) -> WorkerResult:
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return _failed("timeout", "cpu_limit", "the kernel used up its CPU time while tracing")
        what = f"signal {-code}" if code < 0 else f"code {code}"
        return _failed(
            "load_error", "worker_exited", f"the kernel ended its process ({what}) while tracing"
        )

    def close(self) -> None:
        """End the server and remove the folder."""
        with self._lock:
            self._disconnect()
        shutil.rmtree(self._folder, ignore_errors=True)


def _failed(status: str, rule: str, message: str) -> WorkerResult:
    return WorkerResult(status=status, diagnostics=[{"rule": rule, "message": message}])
