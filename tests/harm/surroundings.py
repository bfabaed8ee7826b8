"""What must be the same after a harmful kernel as before: processes, files, secrets, sockets."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from accelopt_simulator.frontend.run import TraceRequest

SECRET = "correct-horse-battery"
VARIABLE = "HARM_TEST_KEY"
WALL_S = 2.0
SHORT_WALL_S = 0.5
"""For kernels that take the whole time; honest ones may need more on a busy machine."""
EXTRA_S = 2.0
"""Beyond the time limit."""


class World:
    """A folder of another run with a secret, an environment with a secret, and a listener."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="harm-"))
        # Readable for everybody: file rights alone must not be what protects it.
        self.folder.chmod(0o777)
        self.secret = self.folder / "secret.txt"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o666)
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.listener.setblocking(False)
        os.environ[VARIABLE] = SECRET
        self.names = {
            "SECRET": self.secret,
            "FOLDER": self.folder,
            "PORT": self.listener.getsockname()[1],
            "TESTER": os.getpid(),
        }

    def check_untouched(self) -> None:
        """Nothing was written, nobody connected, and our own process is as it was."""
        assert [p.name for p in self.folder.iterdir()] == ["secret.txt"]
        assert self.secret.read_text() == SECRET
        assert self.secret.stat().st_mode & 0o777 == 0o666
        with pytest.raises(BlockingIOError):
            self.listener.accept()
        assert os.getpriority(os.PRIO_PROCESS, 0) == os.getpriority(os.PRIO_PROCESS, os.getpid())

    def close(self) -> None:
        self.listener.close()
        shutil.rmtree(self.folder)
        del os.environ[VARIABLE]


def own_state() -> tuple[object, ...]:
    """What a candidate could change of the process that runs the tests."""
    import resource

    limits = [resource.getrlimit(kind) for kind in range(resource.RLIM_NLIMITS)] if hasattr(
        resource, "RLIM_NLIMITS"
    ) else [resource.getrlimit(kind) for kind in range(16)]  # fmt: skip
    return os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), limits


def processes_of(marker: str) -> set[int]:
    """Processes of one pool: those that carry its options in their command line, and theirs.

    A forked candidate has the command line of its server, in whatever session or namespace it is;
    a process that ended without being collected has none, but a parent that has.
    """
    parents, found = {}, set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
            if marker.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found | {pid for pid, parent in parents.items() if parent in found}


def request(text):
    arguments = (((128, 64), "float32"),)
    return TraceRequest(text=text, entry="kernel", arguments=arguments, guarded=False)


def marker(pool):
    return f'"memory_bytes": {pool.limits.memory_bytes},'


def trace(pool, text):
    start = time.monotonic()
    result = pool.trace(request(text))
    return result, time.monotonic() - start


def cases(harms):
    return pytest.mark.parametrize(
        "harm",
        [pytest.param(h, id=h.name, marks=[pytest.mark.slow] if h.slow else []) for h in harms],
    )
