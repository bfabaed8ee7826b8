"""The parent's side of the judge processes: a bounded pool with a time limit per evaluation."""

from __future__ import annotations

import dataclasses
import os
import queue
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelopt.device import DeviceSpec
from accelopt.errors import AcceloptError, TaskError
from accelopt.evaluation import (
    Diagnostic,
    EvaluationStatus,
    InputCheck,
    Profile,
    SeedResult,
    Stage,
)
from accelopt.kernel import KernelTask
from accelopt.process import frames
from accelopt.process.child import Child, clean_environment
from accelopt_simulator.hardware import Timing
from accelopt_simulator.verdict import LatencyReport, Verdict

JUDGE_MODULE = "accelopt_simulator.process.judge_main"
MAX_RESULT_BYTES = 64 << 20
ATTEMPTS = 2
"""Judges that may end over one trace."""


class JudgePool:
    """Up to `size` judge processes, started when needed and kept."""

    def __init__(
        self,
        device: DeviceSpec,
        timing: Timing,
        cache_dir: Path,
        *,
        size: int,
        wall_s: float,
        key: bytes,
    ) -> None:
        self._head = {
            "device": device.model_dump(),
            "timing": dataclasses.asdict(timing),
            "cache_dir": str(cache_dir),
            "key": key.hex(),
        }
        self._cache_dir = cache_dir
        self.wall_s = wall_s
        # Last in, first out: a judge that is running is preferred to one that must be started.
        self._slots: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(size):
            self._slots.put(None)
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._prepared = False

    def judge(
        self, task: KernelTask, trace_bytes: bytes, stages: frozenset[Stage], seeds: Sequence[int]
    ) -> Verdict:
        """Have a trace judged; waits for a free judge.

        Raises:
            TaskError: the task can't be found again in the judge's process.
            OSError: no process could be started.
        """
        answer = self._answer(
            {
                "locator": task.locator,
                "check_seeds": dict(task.check_seeds),
                "stages": sorted(stages),
                "seeds": list(seeds),
            },
            trace_bytes,
        )
        return answer if isinstance(answer, Verdict) else unpack(answer["verdict"])

    def prepare(self) -> None:
        """Start the first judge, if none was, so that it loads while the first kernel is traced.

        Raises:
            OSError: no process could be started.
        """
        with self._lock:
            first, self._prepared = not self._prepared, True
        if not first:
            return
        try:
            child = self._slots.get_nowait()
        except queue.Empty:
            return
        try:
            child = child or self._start()
        finally:
            self._slots.put(child)

    def latencies_us(self, trace_bytes: bytes, timings: Sequence[Timing]) -> list[float]:
        """Latency of a trace that was judged before, under several sets of constants.

        Raises:
            AcceloptError: it can't be predicted any more.
            OSError: no process could be started.
        """
        head = {"timings": [dataclasses.asdict(timing) for timing in timings]}
        answer = self._answer(head, trace_bytes)
        if isinstance(answer, Verdict):
            raise AcceloptError(f"a prediction failed: {answer.diagnostics[0].message}")
        return [float(latency) for latency in answer["latencies_us"]]

    def _answer(self, head: dict[str, Any], body: bytes) -> dict[str, Any] | Verdict:
        """What a free judge answers; a verdict where it ran out of time or memory.

        A judge that ends may have been killed by others: the system, short of memory, or a person.
        Only a trace that ends two of them is to blame.
        """
        child = self._slots.get()
        try:
            code = 0
            for _ in range(ATTEMPTS):
                if child is None or child.process.poll() is not None:
                    if child is not None:
                        self._end(child)
                    child = self._start()
                try:
                    answer = self._ask(child, self._head | head, body)
                except frames.FrameTimeoutError:
                    self._end(child)
                    child = None
                    limit = f"judging took over {self.wall_s:g} s"
                    return _failed(EvaluationStatus.TIMEOUT, "wall_limit", limit)
                if answer is not None:
                    return answer
                code, child = self._end(child), None
            return _ended(code)
        except BaseException:
            if child is not None:
                self._end(child)
                child = None
            raise
        finally:
            self._slots.put(child)

    def _ask(self, child: Child, head: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """One exchange; None when the judge ended, or can't be understood.

        Raises:
            FrameTimeoutError: it took too long.
            TaskError: the task is broken.
        """
        deadline = time.monotonic() + self.wall_s
        try:
            frames.send(child.request_fd, head, body, deadline=deadline)
            message = frames.receive(child.result_fd, max_bytes=MAX_RESULT_BYTES, deadline=deadline)
        except (frames.FrameError, OSError):
            return None
        if message is None:
            return None
        answer = message[0]
        if "broken" in answer:
            raise TaskError(answer["broken"])
        return answer

    def _start(self) -> Child:
        # The judge may need plugins of the user's: it keeps the variables that select them.
        extra = {k: v for k, v in os.environ.items() if k in ("ACCELOPT_BLOCK_PLUGINS", "HOME")}
        child = Child(
            JUDGE_MODULE, cwd=str(self._cache_dir), environment=clean_environment(**extra)
        )
        with self._lock:
            closed = self._closed
            if not closed:
                self._children.add(child)
        if closed:
            child.end()
            raise OSError("the judges were closed while they were asked")
        return child

    def _end(self, child: Child) -> int:
        with self._lock:
            ours = child in self._children
            self._children.discard(child)
        # Not twice: its descriptors may belong to somebody else by now.
        return child.end() if ours else child.process.wait()

    def close(self) -> None:
        """End all judges, for good."""
        with self._lock:
            self._closed = True
            children, self._children = self._children, set()
        for child in children:
            child.end()


def unpack(data: dict[str, Any]) -> Verdict:
    """A verdict from plain data."""
    report = data["report"]
    return Verdict(
        status=EvaluationStatus(data["status"]),
        diagnostics=tuple(Diagnostic.model_validate(d) for d in data["diagnostics"]),
        trace_hash=data["trace_hash"],
        seeds=tuple(SeedResult.model_validate(s) for s in data["seeds"]),
        checks=tuple(InputCheck.model_validate(c) for c in data["checks"]),
        report=None
        if report is None
        else LatencyReport(
            **report
            | {
                "profile": Profile.model_validate(report["profile"]),
                "line_facts": {int(k): v for k, v in report["line_facts"].items()},
                "notes": tuple(report["notes"]),
            }
        ),
    )


def _failed(status: EvaluationStatus, rule: str, message: str) -> Verdict:
    return Verdict(status=status, diagnostics=(Diagnostic(rule=rule, message=message),))


def _ended(code: int) -> Verdict:
    """What it means that judges ended over a trace.

    Raises:
        RuntimeError: they did so by themselves, which is our fault.
    """
    if code in (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT):
        return _failed(EvaluationStatus.OUT_OF_MEMORY, "memory_limit", "judging ran out of memory")
    raise RuntimeError(f"a judge process ended with code {code}")
