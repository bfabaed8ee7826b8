"""The tracing workers' server: a clean process that forks one child per candidate.

The server imports the front end once and never runs a candidate itself. For every request it forks
a child; the child gives up its rights, runs one candidate symbolically, sends the result through a
private pipe and exits. Whatever the candidate prints goes nowhere.

Protocol on the control socket: a request frame comes with the write end of the result pipe; the
answer is `{"pid": ...}`. `{"wait": pid}` asks for the return code of a child that has ended.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import numpy as np  # noqa: F401 - imported before the limits, kernels use it

from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.process import frames
from accelopt_simulator.process.limits import confine, die_with_parent
from accelopt_simulator.trace.codec import encode

MAX_REQUEST_BYTES = 64 << 20
MAX_FILES = 64


def serve(control: socket.socket) -> int:
    """Fork a child per request until the socket is closed (by the parent, or with it)."""
    while True:
        message, descriptors = frames.receive_with_descriptor(control, max_bytes=MAX_REQUEST_BYTES)
        if message is None:
            return 0
        if "wait" in message:
            _, status = os.waitpid(message["wait"], 0)
            code = os.waitstatus_to_exitcode(status)
            frames.send(control.fileno(), {"code": code})
            continue
        (result_fd,) = descriptors
        pid = os.fork()
        if pid == 0:
            # Whatever happens, this process never returns into the server's loop.
            try:
                control.close()
                os.setsid()
                die_with_parent()
                run_candidate(message, result_fd)
            finally:
                os._exit(1)
        os.close(result_fd)
        frames.send(control.fileno(), {"pid": pid})


def run_candidate(head: dict[str, Any], result_fd: int) -> None:
    """Trace one candidate in this process and end it."""
    confine(memory_bytes=head["memory_bytes"], cpu_s=head["cpu_s"], files=MAX_FILES)
    sys.setrecursionlimit(1500)
    result = trace_kernel(
        TraceRequest(
            text=head["text"],
            entry=head["entry"],
            arguments=tuple(_argument(item) for item in head["arguments"]),
            grid=tuple(head["grid"]),
        )
    )
    body = encode(result.trace) if result.trace is not None else b""
    frames.send(result_fd, {"status": result.status, "diagnostics": result.diagnostics}, body)
    # Skip the interpreter's shutdown: the candidate may have left threads or exit hooks behind.
    os._exit(0)


def _argument(item: Any) -> Any:
    return (tuple(item["shape"]), item["dtype"]) if isinstance(item, dict) else item


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
