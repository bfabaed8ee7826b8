"""From a task and a kernel to what the tracing worker is asked."""

from __future__ import annotations

from accelopt.entry_point import find_entry
from accelopt.kernel import KernelSource, KernelTask
from accelopt_simulator.frontend.run import TraceRequest


def request_for(task: KernelTask, source: KernelSource) -> TraceRequest:
    """What to trace.

    Raises:
        TaskError: the file has no kernel, or several.
    """
    return TraceRequest(
        text=source.text,
        entry=source.entry or find_entry(source.text, source.filename),
        arguments=tuple(
            spec.value if spec.value is not None else (spec.shape, spec.dtype)
            for spec in task.arguments
        ),
        grid=source.grid,
    )
