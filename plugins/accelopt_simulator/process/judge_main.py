"""A judge process: serves evaluations of traces, one after the other, under limits of its own."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from accelopt.device import DeviceSpec
from accelopt.errors import AcceloptError
from accelopt.evaluation import Stage
from accelopt.kernel import KernelTask
from accelopt.process import frames
from accelopt.process.limits import confine_judge
from accelopt.user_task import load_task_by_locator
from accelopt_simulator.hardware import Timing
from accelopt_simulator.judge import Judge
from accelopt_simulator.verdict import Verdict

MAX_REQUEST_BYTES = 600 << 20
MEMORY_BYTES = 24 << 30
"""Address space, memory-mapped inputs included."""


def main(request_fd: int, result_fd: int) -> int:
    """Serve requests until the pipe is closed."""
    confine_judge(memory_bytes=MEMORY_BYTES)
    tasks: dict[str, KernelTask] = {}
    judge: Judge | None = None
    while True:
        message = frames.receive(request_fd, max_bytes=MAX_REQUEST_BYTES)
        if message is None:
            return 0
        head, body = message
        try:
            if judge is None:
                judge = Judge(
                    DeviceSpec.model_validate(head["device"]),
                    Timing(**head["timing"]),
                    Path(head["cache_dir"]),
                    key=bytes.fromhex(head["key"]),
                )
            if "timings" in head:
                timings = [Timing(**timing) for timing in head["timings"]]
                frames.send(result_fd, {"latencies_us": judge.latencies_us(body, timings)})
                continue
            locator = head["locator"]
            if locator not in tasks:
                tasks = {locator: load_task_by_locator(locator)}
            task = dataclasses.replace(tasks[locator], check_seeds=head["check_seeds"])
            stages = frozenset(Stage(s) for s in head["stages"])
            verdict = judge.judge(task, body, stages, head["seeds"])
            answer: dict[str, Any] = {"verdict": pack(verdict)}
        except AcceloptError as error:
            answer = {"broken": str(error)}
        frames.send(result_fd, answer)


def pack(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data."""
    report = verdict.report
    return {
        "status": verdict.status.value,
        "diagnostics": [d.model_dump() for d in verdict.diagnostics],
        "trace_hash": verdict.trace_hash,
        "seeds": [s.model_dump() for s in verdict.seeds],
        "checks": [c.model_dump() for c in verdict.checks],
        "report": None
        if report is None
        else {
            **{f.name: getattr(report, f.name) for f in dataclasses.fields(report)},
            "profile": report.profile.model_dump(),
        },
    }


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
