"""What judging a baseline costs beside computing the reference itself, per NKIBench task.

    python benchmarks/simulator_speed.py [TASK ...] [--seeds N] [--json]

The ratio is our own part (trace, constraints, numerics of the seeds) over the reference's `forward`
of the same seeds. Memory is the peak of this process, inputs and references included.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from accelopt.kernel import KernelTask, relative_l2_error
from accelopt.plugins import installed
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.trace.codec import decode, encode

OWN = ("trace", "constraints", "numerics")
STEPS = (*OWN, "latency", "inputs", "reference", "compare")


class Clock:
    """Adds up seconds by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        started = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - started


def measure(task: KernelTask, seeds: int) -> dict[str, float]:
    """Seconds by step for one task's baseline."""
    clock = Clock()
    arguments = tuple(
        a.value if a.value is not None else (a.shape, a.dtype) for a in task.arguments
    )
    entry = task.baseline.entry or "kernel"
    with clock.step("trace"):
        traced = trace_kernel(
            TraceRequest(text=task.baseline.text, entry=entry, arguments=arguments)
        )
        if traced.trace is None:
            raise SystemExit(f"{task.name}: {traced.diagnostics}")
        trace = decode(encode(traced.trace))
    with clock.step("constraints"):
        findings = check_constraints(trace, TRN1, min_float_bits=task.min_float_bits)
    if findings:
        raise SystemExit(f"{task.name}: {findings}")
    with clock.step("latency"):
        estimate_latency(trace, TRN1, TRN1_TIMING)
    with clock.step("numerics"):
        executor = Executor(trace)
    for seed in task.seeds[:seeds]:
        with clock.step("inputs"):
            inputs = task.reference.inputs(seed)
            kernel_inputs = task.reference.kernel_inputs(inputs)
        with clock.step("reference"):
            expected = task.reference.forward(inputs)
        # One BLAS thread for ours, as in the judges; the reference takes what NumPy takes.
        with clock.step("numerics"), threadpool_limits(limits=1):
            outputs = executor.run(kernel_inputs).outputs
        with clock.step("compare"):
            natural = task.reference.natural_output(outputs, expected)
            error = relative_l2_error(natural, expected)
        if not error < task.relative_l2_tolerance:
            raise SystemExit(f"{task.name}: relative L2 error {error}")
    return {step: clock.seconds[step] for step in STEPS}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help="task names; all published shapes by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    registry = installed()
    names = options.tasks or [n for n in registry.task_names() if "@" not in n]
    tasks = {}
    if not options.json:
        print(f"{'task':32}" + "".join(f"{step:>13}" for step in STEPS) + f"{'ratio':>9}")
    for name in names:
        task = registry.task(name)
        seconds = measure(task, options.seeds)
        ratio = sum(seconds[step] for step in OWN) / seconds["reference"]
        tasks[task.name] = {f"{s}_s": round(seconds[s], 4) for s in STEPS} | {"ratio": ratio}
        if not options.json:
            columns = "".join(f"{seconds[step]:12.3f}s" for step in STEPS)
            print(f"{task.name:32}{columns}{ratio:9.2f}")
    ratios = [entry["ratio"] for entry in tasks.values()]
    summary = {
        "geomean_ratio": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "worst_ratio": max(ratios),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "tasks": tasks,
    }
    if options.json:
        print(json.dumps(summary))
    else:
        print(
            f"geometric mean {summary['geomean_ratio']:.2f}, worst {summary['worst_ratio']:.2f}, "
            f"peak memory {summary['peak_memory_bytes'] / 2**30:.2f} GiB"
        )


if __name__ == "__main__":
    main()
