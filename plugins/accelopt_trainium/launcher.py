"""The process between us and a program of somebody else's; a module that is run, never imported.

It adopts whatever the program leaves behind, and kills all of it when the program ends, when its
time is up, or when the process that asked for it is gone: the control pipe is then closed, however
that process ended.

A program that is not trusted is confined before it starts: resource limits, no capabilities, no way
to gain rights, and, through Landlock, no file but those it is given, no TCP, no signal to a process
outside. With bubblewrap it also has no network and sees no other process.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from accelopt.process import frames, landlock, linux
from accelopt.process.limits import limit
from accelopt_trainium.launch import STDERR, STDOUT

CONFINED = "--confined"
_FAILED = 127


def main(control: int, result: int, options: dict[str, Any]) -> int:
    """Run the program, report its exit code, leave nothing behind."""
    linux.adopt_orphans()
    linux.hide_memory()
    wakeup, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        os.closerange(3, 1 << 16)
        _become(options)
    deadline = time.monotonic() + float(options["timeout_s"])
    code = _wait(child, control, wakeup, deadline)
    _kill_everything()
    with contextlib.suppress(OSError):
        frames.send(result, {"code": code})
    return 0


def _wait(child: int, control: int, wakeup: int, deadline: float) -> int | None:
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(wakeup, select.POLLIN)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        for descriptor, _ in poller.poll(min(left, 1.0) * 1000):
            if descriptor == control:
                return None  # nobody waits any more
            os.read(wakeup, 4096)


def _kill_everything() -> None:
    """Orphans become children of this process, so killing children ends in killing all."""
    while True:
        for pid in linux.child_pids(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _become(options: dict[str, Any]) -> None:
    """Turn into the program; never returns."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(options["folder"])
        for name, descriptor in ((STDOUT, 1), (STDERR, 2)):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            os.dup2(os.open(Path(options["folder"]) / name, flags, 0o600), descriptor)
        confinement = options["confinement"]
        if confinement is None:
            _execute(options)
        # Landlock forbids mounts, which bubblewrap makes: so that comes first.
        wrapper = confinement.get("wrapper") or []
        if wrapper:
            again = [sys.executable, "-I", "-m", "accelopt_trainium.launcher", CONFINED]
            command = [*wrapper, *again, json.dumps(options)]
            os.execve(command[0], command, os.environ)
        confined(options)
    except BaseException as error:  # noqa: BLE001 - this is another process, which must not go on
        print(f"can't be started: {error}", file=sys.stderr, flush=True)
    os._exit(_FAILED)


def confined(options: dict[str, Any]) -> None:
    """Give up what the program must not have, and turn into it."""
    rules = options["confinement"]
    limit(resource.RLIMIT_AS, rules["memory_bytes"])
    limit(resource.RLIMIT_CPU, rules["cpu_s"])
    limit(resource.RLIMIT_FSIZE, rules["file_bytes"])
    limit(resource.RLIMIT_NPROC, rules["processes"])
    limit(resource.RLIMIT_CORE, 0)
    linux.drop_capabilities()
    linux.gain_no_rights()
    landlock.restrict(files=True, readable=rules["readable"], writable=rules["writable"])
    _execute(options)


def _execute(options: dict[str, Any]) -> None:
    command = options["command"]
    os.execve(command[0], command, options["environment"])


if __name__ == "__main__":
    if sys.argv[1] == CONFINED:
        try:
            confined(json.loads(sys.argv[2]))
        except OSError as problem:
            print(f"can't be confined: {problem}", file=sys.stderr, flush=True)
        sys.exit(_FAILED)
    os._exit(main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
