"""Probe kernels: a harmless one tries what a hostile one would, and says what came of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.process.worker import WorkerPool

DONE = "done"
"""Outcome of an attempt that succeeded."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One thing that a candidate must not be able to do.

    Attributes:
        key: short name.
        what: for people.
        code: an expression of Python that does it; it may use `os`, `socket`, `ctypes`, `_thread`.
    """

    key: str
    what: str
    code: str


ATTEMPTS = (
    Attempt(key="read", what="open a folder", code="os.close(os.open('/', os.O_RDONLY))"),
    Attempt(key="stat", what="look at a file", code="os.stat('/')"),
    Attempt(
        key="write",
        what="make a file",
        code="os.close(os.open('accelopt-probe', os.O_CREAT | os.O_WRONLY))",
    ),
    Attempt(key="fork", what="start a process", code="os.fork() or os._exit(0)"),
    Attempt(key="thread", what="start a thread", code="_thread.start_new_thread(len, ('',))"),
    Attempt(key="inet", what="make a network socket", code="socket.socket().close()"),
    Attempt(key="unix", what="make a local socket", code="socket.socketpair()"),
    Attempt(key="signal", what="signal the server", code="os.kill(os.getppid(), 0)"),
    Attempt(
        key="trace",
        what="attach to the server",
        code="libc.ptrace(16, os.getppid(), 0, 0) and fail(ctypes.get_errno())",
    ),
    Attempt(key="root", what="become the superuser", code="os.setuid(0)"),
    Attempt(key="memory", what="use more memory than the limit", code="bytearray({memory})"),
)

_KERNEL = """
import ctypes, errno, os, socket, _thread

def kernel():
    libc = ctypes.CDLL(None, use_errno=True)
    def fail(number):
        raise OSError(number, "")
    found = []
{attempts}
    raise RuntimeError("user:" + str(os.getuid()) + " " + " ".join(found))
"""
_ATTEMPT = """
    try:
        {code}
        found.append("{key}:done")
    except OSError as error:
        found.append("{key}:" + errno.errorcode.get(error.errno, "refused"))
    except Exception as error:
        found.append("{key}:" + type(error).__name__)
"""
_LIMITS = """
import resource

def kernel():
    names = {names}
    values = [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names]
    raise RuntimeError(" ".join(n + ":" + str(v[1]) for n, v in zip(names, values)))
"""
LIMITS = ("AS", "CPU", "FSIZE", "NOFILE", "NPROC", "CORE")


class ProbeError(Exception):
    """A probe gave no answer."""


def probe(pool: WorkerPool) -> dict[str, str]:
    """Attempt everything; by key `done`, or why it failed, and `user`: the user id it ran as.

    Raises:
        ProbeError: the probe gave no answer.
    """
    attempts = "".join(
        _ATTEMPT.format(key=a.key, code=a.code.format(memory=pool.limits.memory_bytes))
        for a in ATTEMPTS
    )
    return _answers(pool, _KERNEL.format(attempts=attempts))


def probe_limits(pool: WorkerPool) -> dict[str, str]:
    """The resource limits that a candidate finds, by name.

    Raises:
        ProbeError: the probe gave no answer.
    """
    return _answers(pool, _LIMITS.format(names=LIMITS))


def _answers(pool: WorkerPool, text: str) -> dict[str, str]:
    result = pool.trace(TraceRequest(text=text, entry="kernel", arguments=(), guarded=False))
    message = str(result.diagnostics[0].get("message", "")) if result.diagnostics else ""
    if not message.startswith("RuntimeError: "):
        raise ProbeError(f"the probe kernel ended otherwise: {result.status}: {message}")
    return dict(re.findall(r"(\w+):(\S+)", message.removeprefix("RuntimeError: ")))
