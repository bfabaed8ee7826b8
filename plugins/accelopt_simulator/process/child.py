"""Starting and ending our own helper processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping


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
        try:
            self.process = start(
                module, (request_read, result_write), cwd=cwd, environment=environment
            )
        except OSError:
            os.close(self.request_fd)
            os.close(self.result_fd)
            raise
        finally:
            os.close(request_read)
            os.close(result_write)

    def end(self) -> int:
        """Kill the whole process group, collect the process, close the pipes; its return code."""
        code = self.process.poll()
        kill_group(self.process.pid)
        waited = self.process.wait()
        for fd in (self.request_fd, self.result_fd):
            with contextlib.suppress(OSError):
                os.close(fd)
        return waited if code is None else code


def start(
    module: str, descriptors: tuple[int, ...], *, cwd: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start one of our modules as a process that sees nothing but the given descriptors."""
    return subprocess.Popen(
        [sys.executable, "-I", "-m", module, *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        env=dict(environment),
        pass_fds=descriptors,
        start_new_session=True,
    )


def kill_group(pid: int) -> None:
    """Kill a process group led by `pid`; fine when it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment of a helper process: an allow-list, nothing inherited but the language."""
    environment = {
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    # Some processors need these for a correct OpenBLAS; they hold no secret.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment | extra
