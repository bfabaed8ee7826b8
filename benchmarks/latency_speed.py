"""How long a candidate's way to a latency takes: trace, constraints and latency, without numerics.

Every NKIBench baseline at full shape, in this process, after the compiled passes are loaded. The
latency part includes the explanation that prompts show. `--json` prints one object.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from itertools import pairwise
from typing import Any

from accelopt.plugins import installed
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.frontend.run import trace_kernel
from accelopt_simulator.hardware import TRN1
from accelopt_simulator.latency.calibration import timing_for
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.requests import request_for
from accelopt_simulator.warm_up import warm_up


def measure(name: str) -> dict[str, float]:
    """Seconds per stage."""
    task = installed().task(name)
    marks = [time.perf_counter()]
    trace = trace_kernel(request_for(task, task.baseline)).trace
    marks.append(time.perf_counter())
    findings = check_constraints(trace, TRN1, min_float_bits=task.min_float_bits)
    marks.append(time.perf_counter())
    report = estimate_latency(trace, TRN1, timing_for("trn1"), task.work)
    marks.append(time.perf_counter())
    if findings:
        raise SystemExit(f"{name}: the baseline breaks a constraint: {findings[0].message}")
    stages = dict(zip(("trace_s", "constraints_s", "latency_s"), _steps(marks), strict=True))
    return stages | {"total_s": marks[-1] - marks[0], "latency_us": report.latency_us}


def _steps(marks: list[float]) -> list[float]:
    return [b - a for a, b in pairwise(marks)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    compiled_s = warm_up()
    names = [n for n in installed().task_names() if n.startswith("nkibench/") and "@" not in n]
    rows: dict[str, Any] = {name: measure(name) for name in names}
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if arguments.json:
        print(json.dumps({"warm_up_s": compiled_s, "peak_gib": peak_gib, "tasks": rows}))
        return
    print(f"{'task':36s}{'trace':>9s}{'constraints':>13s}{'latency':>10s}{'total':>9s}")
    for name, row in rows.items():
        print(
            f"{name:36s}{row['trace_s']:8.3f}s{row['constraints_s']:12.3f}s"
            f"{row['latency_s']:9.3f}s{row['total_s']:8.3f}s"
        )
    slow = sum(row["total_s"] > 1.0 for row in rows.values())
    print(
        f"{len(rows) - slow} of {len(rows)} within 1 s, worst "
        f"{max(row['total_s'] for row in rows.values()):.2f} s, peak memory {peak_gib:.2f} GiB, "
        f"loading the compiled passes {compiled_s:.1f} s"
    )


if __name__ == "__main__":
    main()
