"""The tracing worker: runs one candidate, symbolically, and exits. Started as a process of its own.

It is started ahead of time and waits; when a request comes it gives up its rights and runs it. Whatever
the candidate prints goes nowhere; the result goes through a private pipe.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np  # noqa: F401 - imported before the limits, kernels use it

from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.process import frames
from accelopt_simulator.process.limits import confine, die_with_parent
from accelopt_simulator.trace.codec import encode

MAX_REQUEST_BYTES = 64 << 20
MAX_FILES = 64


def main(request_fd: int, result_fd: int) -> int:
    """Serve one request."""
    die_with_parent()
    message = frames.receive(request_fd, max_bytes=MAX_REQUEST_BYTES)
    if message is None:
        return 0
    head, _ = message
    os.close(request_fd)
    confine(memory_bytes=head["memory_bytes"], cpu_s=head["cpu_s"], files=MAX_FILES)
    sys.setrecursionlimit(1500)
    result = trace_kernel(
        TraceRequest(
            text=head["text"],
            entry=head["entry"],
            arguments=tuple(_argument(item) for item in head["arguments"]),
        )
    )
    body = encode(result.trace) if result.trace is not None else b""
    frames.send(result_fd, {"status": result.status, "diagnostics": result.diagnostics}, body)
    # Skip the interpreter's shutdown: the candidate may have left threads or exit hooks behind.
    os._exit(0)


def _argument(item: Any) -> Any:
    return (tuple(item["shape"]), item["dtype"]) if isinstance(item, dict) else item


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
