"""Runs a program of somebody else's to its end, with everything that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelopt.process import frames
from accelopt.process.environment import clean_environment

LAUNCHER = "accelopt_trainium.launcher"
MAX_OUTPUT_BYTES = 1 << 20
"""Kept of what a program prints, from its end."""
GRACE_S = 10.0
"""The launcher answers this long after the time limit at the latest, or is killed."""
STDOUT, STDERR = "stdout.txt", "stderr.txt"


@dataclass(frozen=True)
class Finished:
    """How a program ended.

    Attributes:
        code: its exit code; negative: the signal that ended it; None: out of time.
        stdout, stderr: what it printed, the last megabyte at most.
        elapsed_s: wall time.
    """

    code: int | None
    stdout: str
    stderr: str
    elapsed_s: float

    @property
    def timed_out(self) -> bool:
        """Whether it was killed for its time limit."""
        return self.code is None

    @property
    def last_words(self) -> str:
        """Its last line, for a message."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip()[:300] if lines else "it printed nothing"


def run_launched(
    command: list[str],
    *,
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str],
    confinement: Mapping[str, Any] | None = None,
) -> Finished:
    """Run a program in a folder; afterwards nothing that it started is left.

    Args:
        command: the program and its arguments.
        folder: working folder, which also takes its output.
        timeout_s: wall time, after which everything is killed.
        environment: added to a clean one.
        confinement: what it gives up (see `launcher`); None: nothing, it is trusted.

    Raises:
        OSError: the launcher itself could not be started, or did not answer.
    """
    control_read, control_write = os.pipe()
    result_read, result_write = os.pipe()
    options = {
        "command": command,
        "folder": str(folder),
        "timeout_s": timeout_s,
        "environment": clean_environment() | dict(environment),
        "confinement": None if confinement is None else dict(confinement),
    }
    started = time.monotonic()
    launcher = None
    try:
        launcher = subprocess.Popen(
            [
                *(sys.executable, "-I", "-m", LAUNCHER),
                *(str(control_read), str(result_write), json.dumps(options)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control_read, result_write),
            env=clean_environment(),
            start_new_session=True,
        )
        os.close(result_write)
        result_write = -1
        answer = _answer(result_read, started + timeout_s + GRACE_S)
    finally:
        # The launcher kills everything once nobody holds this end any more.
        os.close(control_write)
        for descriptor in (control_read, result_read, result_write):
            if descriptor >= 0:
                os.close(descriptor)
        if launcher is not None:
            _collect(launcher)
    if answer is None or "code" not in answer:
        raise OSError(
            f"{command[0]} could not be run: {(answer or {}).get('problem', 'no answer')}"
        )
    return Finished(
        code=answer["code"],
        stdout=_tail(folder / STDOUT),
        stderr=_tail(folder / STDERR),
        elapsed_s=time.monotonic() - started,
    )


def _answer(descriptor: int, deadline: float) -> dict[str, Any] | None:
    try:
        message = frames.receive(descriptor, max_bytes=1 << 16, deadline=deadline)
    except (frames.FrameError, frames.FrameTimeoutError, OSError):
        return None
    return None if message is None else message[0]


def _collect(launcher: subprocess.Popen[bytes]) -> None:
    try:
        launcher.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def _tail(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_OUTPUT_BYTES))
        return file.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
