"""From the superuser to a user with no rights, checked."""

from __future__ import annotations

import os
import pwd

from accelopt.process import linux

FALLBACK_ID = 65534
"""What Linux shows for users it can't name."""


class PrivilegeError(Exception):
    """Rights could not be given up; nothing untrusted may run."""


def unprivileged_user() -> tuple[int, int]:
    """User and group id of `nobody`. Reads a file: to be asked before files are given up."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return FALLBACK_ID, FALLBACK_ID
    return (entry.pw_uid, entry.pw_gid) if entry.pw_uid else (FALLBACK_ID, FALLBACK_ID)


def drop(uid: int, gid: int) -> None:
    """Give up the superuser, if this process is it, and all capabilities, for good.

    Raises:
        PrivilegeError: something is left.
    """
    try:
        if os.geteuid() == 0 or os.getuid() == 0:
            _change_user(uid, gid)
        linux.drop_capabilities()
    except OSError as error:
        raise PrivilegeError(
            f"can't become the unprivileged user {uid}: {error.strerror or error}"
        ) from None
    try:
        os.setuid(0)
    except OSError:
        return
    raise PrivilegeError("the superuser's rights can be had back")


def _change_user(uid: int, gid: int) -> None:
    os.setgroups([])
    if hasattr(os, "setresuid"):
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        done = os.getresuid() == (uid,) * 3 and os.getresgid() == (gid,) * 3
    else:  # from the superuser, these change the saved ids as well
        os.setgid(gid)
        os.setuid(uid)
        done = os.getuid() == os.geteuid() == uid and os.getgid() == os.getegid() == gid
    if not done or (linux.IS_LINUX and os.getgroups()):
        raise PrivilegeError("the change to an unprivileged user had no effect")
