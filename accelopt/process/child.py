"""Starting and ending our own helper processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

from accelopt.process import linux
from accelopt.process.environment import clean_environment

__all__ = ["Child", "Keeper", "clean_environment", "kill_group", "module_command"]

WRAPPED_END_S = 1.0


class Keeper:
    """A process, started by a thread of its own that lives as long as the process may.

    Linux can end a process with the *thread* that started it. Whichever thread asks for a helper
    may end long before; this one ends with us, or when it is told to.

    Args:
        command: the program and its arguments.
        descriptors: what it inherits.
        cwd: working folder.
        environment: all of its variables.
        wraps: it only waits for its child, and ends when that and everything below it has ended.

    Attributes:
        process: the process.

    Raises:
        OSError: it could not be started.
    """

    process: subprocess.Popen[bytes]

    def __init__(
        self,
        command: list[str],
        descriptors: tuple[int, ...],
        *,
        cwd: str,
        environment: Mapping[str, str],
        wraps: bool = False,
    ) -> None:
        self._wraps = wraps
        self._ended = threading.Event()
        started = threading.Event()
        failure: list[Exception] = []

        def keep() -> None:
            try:
                # Sees nothing but the given descriptors.
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=cwd,
                    env=dict(environment),
                    pass_fds=descriptors,
                    start_new_session=True,
                )
            except Exception as error:  # noqa: BLE001 - raised again, where it was asked for
                failure.append(error)
                return
            finally:
                started.set()
            self._ended.wait()

        threading.Thread(target=keep, name="accelopt-keeper", daemon=True).start()
        started.wait()
        if failure:
            raise failure[0]

    def end(self) -> int:
        """Kill its children and the whole process group, collect the process; its return code."""
        code = self.process.poll()
        if code is None:
            for pid in linux.child_pids(self.process.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if self._wraps:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(WRAPPED_END_S)
        kill_group(self.process.pid)
        waited = self.process.wait()
        self._ended.set()
        return waited if code is None else code


class Child:
    """A judge process with one pipe each way, in a process group of its own.

    Attributes:
        process: the process.
        request_fd: write requests here.
        result_fd: read results here.
    """

    def __init__(self, module: str, *, cwd: str, environment: Mapping[str, str]) -> None:
        request_read, self.request_fd = os.pipe()
        self.result_fd, result_write = os.pipe()
        # Whoever does not read what it is asked must not stop us.
        os.set_blocking(self.request_fd, False)
        try:
            self._keeper = Keeper(
                module_command(module, str(request_read), str(result_write)),
                (request_read, result_write),
                cwd=cwd,
                environment=environment,
            )
        except OSError:
            os.close(self.request_fd)
            os.close(self.result_fd)
            raise
        finally:
            os.close(request_read)
            os.close(result_write)
        self.process = self._keeper.process

    def end(self) -> int:
        """Kill the whole process group, collect the process, close the pipes; its return code."""
        code = self._keeper.end()
        for fd in (self.request_fd, self.result_fd):
            with contextlib.suppress(OSError):
                os.close(fd)
        return code


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules, apart from the user's settings of Python."""
    return [sys.executable, "-I", "-m", module, *arguments]


def kill_group(pid: int) -> None:
    """Kill a process group led by `pid`; fine when it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
