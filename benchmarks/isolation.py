"""What keeping candidates apart costs: a warm worker against tracing in this process.

Prints the median time of one trace per kernel, in this process and in a worker at every isolation
level, and how long a worker's server takes to start.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from accelopt.plugins import installed
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.process import bwrap
from accelopt_simulator.process.isolation import Level
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
from accelopt_simulator.requests import request_for
from accelopt_simulator.trace.codec import encode

KERNELS = ("nkibench/silu@small", "nkibench/mamba@small")
TARGET_MS = 60.0


def milliseconds(call, repeats: int) -> float:
    """Median wall time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def in_process(request: TraceRequest) -> None:
    """What a worker does, here."""
    encode(trace_kernel(request).trace)


def levels() -> list[Level]:
    """Levels that work on this machine."""
    return [level for level in Level if level is not Level.BWRAP or not bwrap.problem()]


def measure(repeats: int) -> dict[str, dict[str, float]]:
    """By row its times in milliseconds, by level; `here` is this process."""
    requests = {}
    for name in KERNELS:
        task = installed().task(name)
        requests[name] = request_for(task, task.baseline)
    rows: dict[str, dict[str, float]] = {"start": {}}
    for name, request in requests.items():
        in_process(request)
        rows[name] = {"here": milliseconds(lambda r=request: in_process(r), repeats)}
    for level in levels():
        pool = WorkerPool(WorkerLimits(), level=level)
        try:
            rows["start"][level] = milliseconds(pool.server.measures, 1)
            for name, request in requests.items():
                result = pool.trace(request)
                if result.status != "ok":
                    raise SystemExit(f"{name}: {result.status}: {result.diagnostics}")
                rows[name][level] = milliseconds(lambda p=pool, r=request: p.trace(r), repeats)
        finally:
            pool.close()
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.repeats)
    if options.json:
        print(json.dumps(rows))
        return
    used = levels()
    print(f"{'ms':<24}{'in process':>12}" + "".join(f"{level:>12}{'added':>10}" for level in used))
    for name in KERNELS:
        here = rows[name]["here"]
        cells = "".join(f"{rows[name][v]:12.1f}{rows[name][v] - here:10.1f}" for v in used)
        print(f"{name:<24}{here:12.1f}{cells}")
    print(f"{'start of the server':<24}{'':>12}" + "".join(
        f"{rows['start'][level]:12.0f}{'':>10}" for level in used
    ))  # fmt: skip
    print(f"target: less than {TARGET_MS:.0f} ms added")


if __name__ == "__main__":
    main()
