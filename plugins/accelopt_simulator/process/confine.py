"""What a candidate's process gives up before it runs the candidate. Order matters here."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from accelopt.process import landlock, linux, privileges
from accelopt.process.limits import limit
from accelopt_simulator.process import seccomp

MEASURES = ("user", "process_limit", "descriptor_limit", "landlock", "seccomp")
"""Measures that a test may leave out, to see that each of the others holds alone."""


class ConfinementError(Exception):
    """A measure that this machine offers did not take hold; nothing untrusted may run."""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What every candidate of a server is put under.

    Attributes:
        memory_bytes: address space.
        cpu_s: seconds of CPU time.
        user: ids to change to from the superuser.
        without: measures left out, by name; for tests only.
    """

    memory_bytes: int
    cpu_s: int
    user: tuple[int, int]
    without: Collection[str] = ()


def confine(rules: Confinement, kept_fd: int) -> dict[str, Any]:
    """Give up everything but computing and the descriptor `kept_fd`.

    Returns:
        which measures took hold.

    Raises:
        ConfinementError: one that should, did not.
    """
    try:
        return _confine(rules, kept_fd)
    except (OSError, privileges.PrivilegeError) as error:
        raise ConfinementError(str(error)) from None


def _confine(rules: Confinement, kept_fd: int) -> dict[str, Any]:
    parent = os.getppid()
    os.setsid()
    _close_all_but(kept_fd)
    _limit_resources(rules)
    chroot = _enter_nowhere()
    if "user" not in rules.without:
        privileges.drop(*rules.user)
    # From here on: a change of user would undo some of these.
    linux.hide_memory()
    linux.die_with_parent()
    if os.getppid() != parent:
        raise ConfinementError("the server ended")
    linux.gain_no_rights()
    abi = landlock.restrict(files=True) if "landlock" not in rules.without else 0
    if abi and not landlock.is_active():
        raise ConfinementError("Landlock has no effect")
    # Landlock needed a descriptor. From now on there will be no new one: no file, socket or pipe.
    if "descriptor_limit" not in rules.without:
        limit(resource.RLIMIT_NOFILE, 0)
    _forget_the_path()
    filtered = "seccomp" not in rules.without and seccomp.install()
    if filtered and not seccomp.is_active():
        raise ConfinementError("the system call filter has no effect")
    return {
        "user": os.getuid(),
        "chroot": chroot,
        "landlock": abi,
        "seccomp": filtered,
        "hidden_memory": linux.IS_LINUX,
    }


def _close_all_but(kept_fd: int) -> None:
    """Standard streams stay: they are the null device."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.closerange(3, kept_fd)
    os.closerange(kept_fd + 1, 1 << 20 if most == resource.RLIM_INFINITY else most)


def _limit_resources(rules: Confinement) -> None:
    limit(resource.RLIMIT_AS, rules.memory_bytes)
    limit(resource.RLIMIT_CPU, rules.cpu_s)
    for name in ("FSIZE", "CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "NICE", "RTPRIO"):
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            limit(kind, 0)
    if "process_limit" not in rules.without:
        limit(resource.RLIMIT_NPROC, 0)


def _enter_nowhere() -> bool:
    """Make the working folder, which is empty, all there is; only the superuser can."""
    if os.geteuid() != 0:
        return False
    try:
        os.chroot(".")
    except PermissionError:  # a superuser without this capability
        return False
    os.chdir("/")
    return True


def _forget_the_path() -> None:
    """What is not loaded does not exist: an import fails cleanly, without touching files."""
    sys.path.clear()
    sys.path_importer_cache.clear()
