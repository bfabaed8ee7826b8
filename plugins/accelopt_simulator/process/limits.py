"""Limits a process puts on itself before it touches anything it does not trust."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def die_with_parent() -> None:
    """Have this process killed when the thread that started it ends, and never gain rights; Linux.

    Only for children of a single-threaded parent: in a threaded one, the end of the starting thread
    would be enough.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def limit(kind: int, value: int) -> None:
    """Lower one resource limit for good; a limit that is already lower stays."""
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def confine(*, memory_bytes: int, cpu_s: int, files: int) -> None:
    """Limit memory, CPU time and open files; no files may be written and no core dumped."""
    limit(resource.RLIMIT_AS, memory_bytes)
    limit(resource.RLIMIT_CPU, cpu_s)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_NOFILE, files)
    limit(resource.RLIMIT_CORE, 0)
