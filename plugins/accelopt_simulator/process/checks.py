"""The check `worker isolation` of `accelopt doctor`: found out by trying, with a real worker."""

from __future__ import annotations

from typing import Any

from accelopt.doctor import Check
from accelopt_simulator.process import bwrap, isolation
from accelopt_simulator.process.isolation import Level
from accelopt_simulator.process.probes import (
    ATTEMPTS,
    DONE,
    ProbeError,
    probe,
    probe_limits,
)
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool

_KEEP_APART = "evaluate no kernel that you do not trust here (docs/security.md)"


def worker_isolation() -> list[Check]:
    """Start a worker, have it try what it must not, and say what held.

    Raises:
        AcceloptError: the isolation asked for can't be had here.
    """
    pool = WorkerPool(WorkerLimits())
    try:
        measures = pool.server.measures()
        found, limits = probe(pool), probe_limits(pool)
        level = pool.server.level
    except (OSError, ProbeError) as error:
        detail = f"no candidate can be run: {error}"
        fix = f"try {isolation.VARIABLE}=process; see that this user may start processes"
        return [Check(name="worker", state="fail", detail=detail, fix=fix)]
    finally:
        pool.close()
    return [
        _level(level, measures),
        _user(found, measures),
        _filter(measures),
        _landlock(measures),
        _orphans(measures),
        Check(
            name="limits",
            state="ok",
            detail=", ".join(f"{name} {value}" for name, value in limits.items()),
        ),
        *_attempts(found, filtered=measures["seccomp"]),
        Check(name="not stopped", state="ok", detail=not_stopped(level, measures)),
    ]


def not_stopped(level: Level, measures: dict[str, Any]) -> str:
    """What a candidate can still do, in plain words."""
    items = [
        "using one CPU and memory up to its limits",
        "measuring time, caches and load of the machine (side channels)",
        "attacking the kernel through the few calls that it is allowed",
        "sending a wrong trace (the judge checks it, and traces again)",
    ]
    if not measures["seccomp"]:
        items.append(
            "any system call: without the filter only the limits and the user stand in its way"
        )
    if level is not Level.BWRAP:
        items.append("after a break-out of the filter, seeing the machine's processes and network")
    return "; ".join(items)


def _level(level: Level, measures: dict[str, Any]) -> Check:
    if level is Level.BWRAP:
        kinds = ", ".join(measures["namespaces"])
        return Check(name="level", state="ok", detail=f"bwrap: namespaces of its own for {kinds}")
    problem = bwrap.problem()
    if problem:
        return Check(
            name="level",
            state="warn",
            detail=f"process: no namespaces, bubblewrap can't be used: {problem}",
            fix="install bubblewrap and allow it to make namespaces",
        )
    detail = f"process, as {isolation.VARIABLE} asks: no namespaces"
    return Check(name="level", state="ok", detail=detail)


def _user(found: dict[str, str], measures: dict[str, Any]) -> Check:
    uid = found["user"]
    if uid == "0":
        fix = "run accelopt as an ordinary user, or where it may give up its rights (setuid)"
        detail = "candidates run as the superuser"
        return Check(name="user", state="fail", detail=detail, fix=fix)
    folder = ", in an empty root folder" if measures["chroot"] else ""
    return Check(name="user", state="ok", detail=f"candidates run as user {uid}{folder}")


def _filter(measures: dict[str, Any]) -> Check:
    if measures["seccomp"]:
        return Check(name="seccomp", state="ok", detail="an allow-list of calls is in force")
    return Check(
        name="seccomp",
        state="warn",
        detail="no system call filter",
        fix="run on Linux, x86-64 or ARM64",
    )


def _landlock(measures: dict[str, Any]) -> Check:
    version = measures["landlock"]
    if not version:
        return Check(
            name="landlock",
            state="warn",
            detail="the kernel has no Landlock",
            fix="Linux 5.13 or newer has it",
        )
    parts = ["no file", *(["no TCP"] if version >= 4 else []),
             *(["no signal to others"] if version >= 6 else [])]  # fmt: skip
    return Check(name="landlock", state="ok", detail=f"version {version}: {', '.join(parts)}")


def _orphans(measures: dict[str, Any]) -> Check:
    if measures["subreaper"]:
        detail = "what a candidate leaves behind is found and killed, and dies with the server"
        return Check(name="orphans", state="ok", detail=detail)
    detail = "processes that leave a candidate's group would not be found"
    return Check(name="orphans", state="warn", detail=detail)


def _attempts(found: dict[str, str], *, filtered: bool) -> list[Check]:
    """Without a filter some succeed, which is a pity; with one, none may."""
    checks = []
    for attempt in ATTEMPTS:
        outcome = found.get(attempt.key, "no answer")
        refused = outcome not in (DONE, "no answer")
        checks.append(
            Check(
                name=f"tried: {attempt.what}",
                state="ok" if refused else "fail" if filtered else "warn",
                detail=f"refused ({outcome})" if refused else f"not refused ({outcome})",
                fix="" if refused else _KEEP_APART,
            )
        )
    return checks
