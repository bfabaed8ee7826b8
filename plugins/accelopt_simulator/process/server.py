"""The parent's side of the tracing server: started when needed, replaced when it dies."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from accelopt.errors import BackendUnavailableError
from accelopt.process import frames
from accelopt.process.child import Keeper, clean_environment, module_command
from accelopt_simulator.process import bwrap
from accelopt_simulator.process.isolation import Level, choose

SERVER_MODULE = "accelopt_simulator.process.worker_main"
START_S = 60.0
"""It imports NumPy and our front end, maybe from a cold disk."""
MAX_ANSWER_BYTES = 1 << 16
SEND_S = 10.0
"""A request that it does not read in this time is not read at all."""


class TracingServer:
    """One server at a time, and one exchange with it at a time.

    Args:
        memory_bytes: address space of a candidate.
        cpu_s: CPU seconds of a candidate.
        level: isolation level; by default what the environment asks for, else the strongest.
        without: measures to leave out; for tests only.
    """

    def __init__(
        self,
        *,
        memory_bytes: int,
        cpu_s: int,
        level: Level | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._options = {"memory_bytes": memory_bytes, "cpu_s": cpu_s, "without": sorted(without)}
        self._level = None if level is None else Level(level)
        self._folder = tempfile.mkdtemp(prefix="accelopt-worker-")
        # Empty, and to remain so.
        os.chmod(self._folder, 0o500)
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._control: socket.socket | None = None
        self._measures: dict[str, Any] = {}

    @property
    def level(self) -> Level:
        """The isolation level.

        Raises:
            ConfigError: there is no such level.
            BackendUnavailableError: the one asked for does not work here.
        """
        if self._level is None:
            self._level = choose()
        return self._level

    @property
    def process_id(self) -> int:
        """Process that everything dies with; 0 when there is none now."""
        return self._keeper.process.pid if self._keeper is not None else 0

    def measures(self) -> dict[str, Any]:
        """What the server found to hold for a process that it confined.

        Raises:
            OSError: it does not start.
            BackendUnavailableError: a measure that must hold does not.
        """
        with self._lock:
            self._connect()
            return {
                **self._measures,
                "namespaces": _other_than_ours(self._measures.get("namespaces", {})),
            }

    def _connect(self) -> socket.socket:
        """The control socket of a living server; the lock is held."""
        if self._keeper is not None and self._keeper.process.poll() is not None:
            self._disconnect()
        if self._control is not None:
            return self._control
        level = self.level
        environment = clean_environment()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(SEND_S)
        with theirs:
            command = module_command(SERVER_MODULE, str(theirs.fileno()), json.dumps(self._options))
            if level is Level.BWRAP:
                command = bwrap.command(command, environment)
            try:
                self._keeper = Keeper(
                    command,
                    (theirs.fileno(),),
                    cwd=self._folder,
                    environment=environment,
                    wraps=level is Level.BWRAP,
                )
            except OSError:
                self._disconnect()
                raise
        hello = self._receive(self._control, time.monotonic() + START_S)
        if hello is None or "measures" not in hello:
            self._disconnect()
            if hello is None:
                raise OSError(f"the tracing server does not start (isolation level {level})")
            raise BackendUnavailableError(
                f"candidates can't be confined on this machine: {hello.get('refused')}",
                hint="`accelopt doctor` says more",
            )
        self._measures = hello["measures"]
        return self._control

    @staticmethod
    def _receive(control: socket.socket, deadline: float) -> dict[str, Any] | None:
        try:
            message = frames.receive(
                control.fileno(), max_bytes=MAX_ANSWER_BYTES, deadline=deadline
            )
        except (OSError, frames.FrameError, frames.FrameTimeoutError):
            return None
        return None if message is None else message[0]

    def _disconnect(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._keeper is not None:
            # Kills it, and with it everything that it started.
            self._keeper.end()
        self._control = self._keeper = None

    def command(
        self, head: dict[str, Any], descriptor: int | None = None, *, answer_s: float
    ) -> dict[str, Any]:
        """One exchange; a server that does not answer in time is killed.

        With a descriptor, another one is started in its stead and asked once more.

        Raises:
            OSError: it did not answer.
            BackendUnavailableError: nothing can be confined here.
        """
        with self._lock:
            for _ in range(2 if descriptor is not None else 1):
                control = self._connect()
                try:
                    if descriptor is None:
                        deadline = time.monotonic() + answer_s
                        frames.send(control.fileno(), head, deadline=deadline)
                    else:
                        frames.send_with_descriptor(control, head, descriptor)
                    answer = self._receive(control, time.monotonic() + answer_s)
                except (OSError, frames.FrameTimeoutError):
                    answer = None
                if answer is not None:
                    return answer
                self._disconnect()
        raise OSError("the tracing server does not answer")

    def restart(self) -> None:
        """Kill the server and everything it started; the next command starts another."""
        with self._lock:
            self._disconnect()

    def close(self) -> None:
        """End the server and remove its folder."""
        self.restart()
        if os.path.isdir(self._folder):
            os.rmdir(self._folder)


def _other_than_ours(theirs: dict[str, str]) -> list[str]:
    """Kinds of namespaces that are not those of this process."""
    found = []
    for kind, name in theirs.items():
        try:
            if "_for_" not in kind and os.readlink(Path("/proc/self/ns") / kind) != name:
                found.append(kind)
        except OSError:
            continue
    return sorted(found)
