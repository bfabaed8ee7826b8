"""The tracing workers' server: a clean process that forks one child per candidate.

The server loads the front end once and never runs a candidate itself. For every request it forks
a child; the child gives up its rights, runs one candidate symbolically, sends the result through a
private pipe and exits. Whatever the candidate prints goes nowhere.

Protocol on the control socket. First the server says `{"measures": ...}`, or `{"refused": why}` and
ends: it has tried its own confinement on a child. A request `{"number": n, ...}` comes with the
write end of the result pipe; the answer is `{"started": n}`. `{"end": n, "kill": bool}` asks for a
candidate's end (`candidates.Candidates.end`). The server never waits for a candidate.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from accelopt.process import frames, linux
from accelopt.process.privileges import unprivileged_user
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.process.candidates import Candidates
from accelopt_simulator.process.confine import Confinement, ConfinementError, confine
from accelopt_simulator.process.preload import preload
from accelopt_simulator.trace.codec import encode

MAX_REQUEST_BYTES = 64 << 20
MAX_REPORT_BYTES = 1 << 16


def serve(control: socket.socket, rules: Confinement) -> int:
    """Fork a child per request until the socket is closed (by the parent, or with it)."""
    linux.die_with_parent()
    own_namespaces = namespaces()  # before they are hidden from ourselves as well
    linux.hide_memory()
    linux.gain_no_rights()
    linux.adopt_orphans()
    preload()
    report = try_out(rules)
    if "measures" in report:
        report["measures"]["namespaces"] = own_namespaces
        report["measures"]["subreaper"] = linux.IS_LINUX
    frames.send(control.fileno(), report)
    if "refused" in report:
        return 1
    candidates = Candidates()
    while True:
        message, descriptors = frames.receive_with_descriptor(control, max_bytes=MAX_REQUEST_BYTES)
        if message is None:
            return 0
        if "end" in message:
            answer = candidates.end(message["end"], kill=message["kill"])
            frames.send(control.fileno(), dict(answer))
            continue
        (result_fd,) = descriptors
        pid = os.fork()
        if pid == 0:
            # Whatever happens, this process never returns into the server's loop.
            try:
                run_candidate(message, rules, result_fd)
            finally:
                os._exit(1)
        os.close(result_fd)
        candidates.add(message["number"], pid)
        frames.send(control.fileno(), {"started": message["number"]})


def try_out(rules: Confinement) -> dict[str, Any]:
    """Confine a child that runs nothing; what held, or why nothing may run here."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                report: dict[str, Any] = {"measures": confine(rules, write_end)}
            except ConfinementError as error:
                report = {"refused": str(error)}
            frames.send(write_end, report)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write_end)
    try:
        message = frames.receive(read_end, max_bytes=MAX_REPORT_BYTES)
    finally:
        os.close(read_end)
        os.waitpid(pid, 0)
    if message is None:
        return {"refused": "a confined process could not be started"}
    return message[0]


def namespaces() -> dict[str, str]:
    """This process's namespaces by kind; empty where there are none."""
    try:
        return {entry.name: os.readlink(entry) for entry in Path("/proc/self/ns").iterdir()}
    except OSError:
        return {}


def run_candidate(head: dict[str, Any], rules: Confinement, result_fd: int) -> None:
    """Trace one candidate in this process and end it."""
    confine(rules, result_fd)
    sys.setrecursionlimit(1500)
    result = trace_kernel(
        TraceRequest(
            text=head["text"],
            entry=head["entry"],
            arguments=tuple(_argument(item) for item in head["arguments"]),
            grid=tuple(head["grid"]),
            guarded=head["guarded"],
        )
    )
    body = encode(result.trace) if result.trace is not None else b""
    frames.send(result_fd, {"status": result.status, "diagnostics": result.diagnostics}, body)
    # Skip the interpreter's shutdown: the candidate may have left threads or exit hooks behind.
    os._exit(0)


def _argument(item: Any) -> Any:
    return (tuple(item["shape"]), item["dtype"]) if isinstance(item, dict) else item


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    sys.exit(
        serve(
            socket.socket(fileno=int(sys.argv[1])),
            Confinement(user=unprivileged_user(), **options),
        )
    )
