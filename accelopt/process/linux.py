"""The few Linux calls that Python does not offer, through the C library."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522

IS_LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, *arguments: int) -> None:
    """One `prctl`.

    Raises:
        OSError: the kernel refused.
    """
    padded = (*arguments, 0, 0, 0, 0)[:4]
    if LIBC.prctl(option, *(ctypes.c_ulong(value) for value in padded)):
        raise _error(f"prctl({option})")


def syscall(number: int, *arguments: object) -> int:
    """A raw system call.

    Raises:
        OSError: the kernel refused.
    """
    LIBC.syscall.restype = ctypes.c_long
    result = int(LIBC.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise _error(f"syscall {number}")
    return result


def die_with_parent() -> None:
    """Have this process killed when the thread that started it ends; Linux.

    A change of user clears this, so it comes after one. Only for children of a thread that lives as
    long as they may: that of a single-threaded process, or a `child.Keeper`.
    """
    if IS_LINUX:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def gain_no_rights() -> None:
    """No program that this process or a child of it starts gets more rights than it has; Linux."""
    if IS_LINUX:
        prctl(PR_SET_NO_NEW_PRIVS, 1)


def hide_memory() -> None:
    """Processes of the same user can't attach to this one or read its memory; Linux."""
    if IS_LINUX:
        prctl(PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process; Linux."""
    if IS_LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def drop_capabilities() -> None:
    """Give up every capability for good; Linux on known machines.

    Raises:
        OSError: the kernel refused.
    """
    number = _SYS_CAPSET.get(os.uname().machine)
    if IS_LINUX and number is not None:
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        syscall(number, ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def child_pids(parent: int) -> set[int]:
    """Children of a single-threaded process, ended ones included; Linux, else none."""
    if not IS_LINUX:
        return set()
    with suppress(OSError):
        text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        return {int(pid) for pid in text.split()}
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in parentheses, may hold anything.
            if int(entry.read_text().rpartition(")")[2].split()[1]) == parent:
                found.add(int(entry.parent.name))
    return found


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
