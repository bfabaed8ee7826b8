"""A system call filter for processes that only compute: an allow-list, assembled by hand.

Everything else fails with EPERM. `clone3` fails with ENOSYS, since the C library then falls back to
`clone`, which fails as well. A call through another architecture's table ends the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from accelopt.process import linux

_MODE_FILTER = 2
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
# Opcodes of classic BPF: load a word of the call's data, compare, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32_BIT = 0x40000000
_PROT_EXEC = 4

AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE3 = 435

# Computing, memory, waiting, one's own signals, the clock; reading and writing what is open.
# Missing on purpose: whatever opens, creates, signals others, schedules, or starts anything.
CALLS = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "munmap": 11,
        "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "readv": 19,
        "writev": 20, "sched_yield": 24, "mremap": 25, "madvise": 28, "nanosleep": 35,
        "getpid": 39, "exit": 60, "gettimeofday": 96, "getrusage": 98, "getuid": 102,
        "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "sigaltstack": 131,
        "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
        "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229,
        "clock_nanosleep": 230, "exit_group": 231, "ppoll": 271, "getcpu": 309,
        "getrandom": 318,
    },
    "aarch64": {
        "close": 57, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66,
        "ppoll": 73, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98, "nanosleep": 101,
        "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
        "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128,
        "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139,
        "getrusage": 165, "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173,
        "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
        "brk": 214, "munmap": 215, "mremap": 216, "madvise": 233, "getrandom": 278,
    },
}  # fmt: skip
# Allowed with memory that is not executable: all code is loaded before.
MAPPING_CALLS = {"x86_64": {"mmap": 9, "mprotect": 10}, "aarch64": {"mmap": 222, "mprotect": 226}}
# Allowed for the process itself: of another one of the same user it would change the limits.
LIMIT_CALL = {"x86_64": 302, "aarch64": 261}


def machine() -> str:
    """This machine's architecture, if there is a filter for it; else empty."""
    name = os.uname().machine
    # A 32-bit interpreter uses another table than its 64-bit kernel's name suggests.
    return name if name in CALLS and struct.calcsize("P") == 8 else ""


def program(name: str) -> bytes:
    """The filter for an architecture, as the kernel wants it: one 8-byte instruction each."""
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, AUDIT_ARCHITECTURES[name], yes=1),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER),
    ]
    if name == "x86_64":
        steps += [_step(_AT_LEAST, _X32_BIT, no=1), _step(_RETURN, _KILL_PROCESS)]
    steps += [_step(_EQUAL, CLONE3, no=1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    for number in CALLS[name].values():
        steps += [_step(_EQUAL, number, no=1), _step(_RETURN, _ALLOW)]
    for number in MAPPING_CALLS[name].values():
        steps += [
            _step(_EQUAL, number, no=4),
            _step(_LOAD, _argument(2)),
            _step(_ANY_BIT, _PROT_EXEC, no=1),
            _step(_RETURN, _ERRNO | errno.EPERM),
            _step(_RETURN, _ALLOW),
        ]
    steps += [
        _step(_EQUAL, LIMIT_CALL[name], no=4),
        _step(_LOAD, _argument(0)),
        _step(_EQUAL, 0, yes=1),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _ERRNO | errno.EPERM),
    ]
    return b"".join(steps)


def available() -> bool:
    """Whether there is a filter for this machine, and its kernel takes filters."""
    if not linux.IS_LINUX or not machine():
        return False
    try:
        linux.prctl(linux.PR_SET_SECCOMP, _MODE_FILTER, 0)
    except OSError as error:
        # It missed the program that we did not give; a kernel without filters knows no such call.
        return error.errno == errno.EFAULT
    return False


def install() -> bool:
    """Filter this process's calls from now on; False where that is not available.

    The process must have given up gaining rights (`linux.gain_no_rights`).

    Raises:
        OSError: the kernel refused.
    """
    if not available():
        return False
    code = program(machine())
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a length and a pointer.
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    linux.prctl(linux.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(holder))
    return True


def is_active() -> bool:
    """Whether the filter holds for this process: a harmless call that it refuses, is refused."""
    try:
        os.getpriority(os.PRIO_PROCESS, 0)
    except PermissionError:
        return True
    return False


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; `yes` and `no` are how many to skip."""
    return struct.pack("<HBBI", code, yes, no, value)


def _argument(index: int) -> int:
    """Where the low word of an argument stands; both architectures are little endian."""
    return _ARGUMENTS + 8 * index
