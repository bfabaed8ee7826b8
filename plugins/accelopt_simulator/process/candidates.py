"""The server's candidates: known by their number, killed and collected without ever blocking."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from accelopt.process import linux

_PATIENCE_S = 0.02
"""How long the server itself waits for a process to end; whoever asked may ask again."""
_SWEEP_S = 1.0


class Candidates:
    """Candidates that have not been collected, and how to be rid of them and theirs."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}

    def add(self, number: int, pid: int) -> None:
        """Remember a candidate that was just forked."""
        self._pids[number] = pid

    def end(self, number: int, *, kill: bool) -> dict[str, int | bool | None]:
        """Collect a candidate, and kill what it left behind.

        Args:
            number: which.
            kill: kill it and its process group first; a stopped one ends as well.

        Returns:
            `code`: its return code, None when it has not ended yet; `gone`: there is no such one.
        """
        pid = self._pids.get(number)
        if pid is None:
            return {"code": None, "gone": True}
        if kill:
            _kill(pid)
        until = time.monotonic() + _PATIENCE_S
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > until:
                return {"code": None, "gone": False}
            time.sleep(0.0003)
        del self._pids[number]
        if not linux.IS_LINUX:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.sweep()
        return {"code": os.waitstatus_to_exitcode(status), "gone": False}

    def sweep(self) -> int:
        """Kill every child of this process that is not a candidate; how many there were.

        Orphans of a candidate become children of the server, wherever they moved to: a new session
        or a second fork does not help them. Orphans of those follow in the next round.
        """
        found = set()
        until = time.monotonic() + _SWEEP_S
        while time.monotonic() < until:
            strays = linux.child_pids(os.getpid()) - set(self._pids.values())
            if not strays:
                break
            found |= strays
            for pid in strays:
                _kill(pid)
            for pid in strays:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.0003)
        return len(found)


def _kill(pid: int) -> None:
    for send in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)
