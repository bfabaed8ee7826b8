"""The parent's side of the tracing workers: one fresh process per candidate, with limits."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from accelopt.process import frames
from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.process.isolation import Level
from accelopt_simulator.process.server import TracingServer

FORK_ANSWER_S = 10.0
END_ANSWER_S = 1.0
END_S = 1.5
"""A candidate that was killed has ended by then, or its server is killed as well."""
GRACE_S = 0.5
"""From the end of the result pipe to that of the process."""
MAX_RESULT_BYTES = 336 << 20
MAX_HEAD_BYTES = 1 << 20
MAX_DIAGNOSTICS = 20
STATUSES = frozenset(
    {"ok", "load_error", "unsupported_op", "constraint_violation", "out_of_memory", "rejected"}
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
    """Runs each candidate in a process of its own, forked from a server that has never run one.

    Args:
        limits: what each may use.
        level: isolation level; by default what the environment asks for, else the strongest.
        without: measures to leave out (`confine.MEASURES`); for tests only.
    """

    def __init__(
        self,
        limits: WorkerLimits,
        *,
        level: Level | None = None,
        without: Collection[str] = (),
    ) -> None:
        self.limits = limits
        self.server = TracingServer(
            memory_bytes=limits.memory_bytes,
            cpu_s=int(limits.wall_s) + 2,
            level=level,
            without=without,
        )
        self._numbers = itertools.count(1)

    def trace(self, request: TraceRequest) -> WorkerResult:
        """Trace one candidate in a process of its own. Safe from several threads.

        Raises:
            OSError: no process could be started.
            ConfigError, BackendUnavailableError: the isolation asked for can't be had here.
        """
        for _ in range(2):
            result = self._trace_once(request)
            if result is not None:
                return result
        return _failed("load_error", "worker_exited", "the kernel ended the tracing server")

    def _trace_once(self, request: TraceRequest) -> WorkerResult | None:
        """One attempt; None when the server died, perhaps by another candidate's hand."""
        number = next(self._numbers)
        read_end, write_end = os.pipe()
        try:
            head = {"number": number, **_head(request)}
            self.server.command(head, write_end, answer_s=FORK_ANSWER_S)
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        deadline = time.monotonic() + self.limits.wall_s
        failure: WorkerResult | None = None
        message = None
        try:
            message = frames.receive(
                read_end, max_bytes=MAX_RESULT_BYTES, max_head=MAX_HEAD_BYTES, deadline=deadline
            )
        except frames.FrameTimeoutError:
            limit = f"tracing took over {self.limits.wall_s:g} s"
            failure = _failed("timeout", "wall_limit", limit)
        except frames.FrameError as error:
            problem = f"the worker's result is unusable: {error}"
            failure = _failed("load_error", "worker_result", problem)
        finally:
            os.close(read_end)
        try:
            code = self._end(number, kill=message is not None or failure is not None)
        except OSError:
            return failure
        if failure is not None:
            return failure
        if message is None:
            return _died(code)
        head, body = message
        status, diagnostics = head.get("status"), head.get("diagnostics")
        if (
            not isinstance(status, str)
            or status not in STATUSES
            or not isinstance(diagnostics, list)
            or not _is_flat(diagnostics)
        ):
            return _failed("load_error", "worker_result", "the worker's result has the wrong form")
        return WorkerResult(
            status=status, diagnostics=diagnostics[:MAX_DIAGNOSTICS], trace_bytes=body
        )

    def _end(self, number: int, *, kill: bool) -> int | None:
        """End a candidate and what it left behind: its return code, None when it had to be killed.

        Raises:
            OSError: the server has died, and the candidate with it.
        """
        start = time.monotonic()
        killed = False
        while True:
            waited = time.monotonic() - start
            if waited > END_S:
                # It can't be killed, or the server can't: away with both.
                self.server.restart()
                return None
            if not kill and waited > GRACE_S:
                # It closed its result pipe and lives on.
                kill = killed = True
            answer = self.server.command({"end": number, "kill": kill}, answer_s=END_ANSWER_S)
            if answer["gone"]:
                raise OSError("the tracing server was replaced")
            if answer["code"] is not None:
                return None if killed else int(answer["code"])
            time.sleep(0.002)

    def close(self) -> None:
        """End the server and remove its folder."""
        self.server.close()


def _head(request: TraceRequest) -> dict[str, Any]:
    return {
        "text": request.text,
        "entry": request.entry,
        "arguments": [
            {"shape": list(item[0]), "dtype": item[1]} if isinstance(item, tuple) else item
            for item in request.arguments
        ],
        "grid": list(request.grid),
        "guarded": request.guarded,
    }


def _is_flat(diagnostics: list[Any]) -> bool:
    """Whether it holds objects of plain values: nothing nested reaches those who show it."""
    plain = (str, int, float, type(None))
    return all(
        isinstance(item, dict) and all(isinstance(value, plain) for value in item.values())
        for item in diagnostics
    )


def _died(code: int | None) -> WorkerResult:
    if code is None:
        return _failed(
            "load_error", "worker_exited", "the kernel closed its result pipe while tracing"
        )
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return _failed("timeout", "cpu_limit", "the kernel used up its CPU time while tracing")
    what = f"signal {-code}" if code < 0 else f"code {code}"
    return _failed(
        "load_error", "worker_exited", f"the kernel ended its process ({what}) while tracing"
    )


def _failed(status: str, rule: str, message: str) -> WorkerResult:
    return WorkerResult(status=status, diagnostics=[{"rule": rule, "message": message}])
