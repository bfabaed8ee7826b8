"""What a compiling candidate may reach: its folder, the SDK, system libraries; nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from accelopt.errors import BackendUnavailableError
from accelopt.process import landlock, linux
from accelopt_trainium.locations import Locations

ISOLATION_VARIABLE = "ACCELOPT_ISOLATION"
"""`auto` (the default), `process` or `bwrap`, as for the simulator's workers."""

MEMORY_BYTES = 64 << 30
FILE_BYTES = 4 << 30
PROCESSES = 4096
"""Of the whole user: the kernel counts no other way."""
CPUS_PER_COMPILATION = 8
"""CPU seconds are limited to this many times the wall time."""
PROBE_S = 20.0

_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.preload",
    "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/os-release",
    "/etc/alternatives", "/proc", "/sys", "/dev/urandom", "/dev/random", "/dev/zero",
)  # fmt: skip
_WRITABLE_DEVICES = ("/dev/null", "/dev/shm")


def rules(locations: Locations, folder: Path, *, timeout_s: float, device: bool) -> dict[str, Any]:
    """The confinement of one compilation, for the launcher.

    Args:
        locations: where the SDK lies.
        folder: the only folder it may write to.
        timeout_s: its wall time.
        device: whether it may open the device nodes.

    Raises:
        BackendUnavailableError: the isolation level that the environment asks for is not to be had.
    """
    devices = [str(path) for path in locations.device_files()] if device else []
    return {
        "memory_bytes": MEMORY_BYTES,
        "cpu_s": int(timeout_s * CPUS_PER_COMPILATION) + 1,
        "file_bytes": FILE_BYTES,
        "processes": PROCESSES,
        "readable": [*_SYSTEM, *_sdk_folders(locations), str(Path(__file__).parent)],
        "writable": [str(folder), *_WRITABLE_DEVICES, *devices],
        "wrapper": _wrapper(),
    }


def what_holds() -> tuple[str, str]:
    """The measures in force, in words, and what is missing; for `accelopt doctor`."""
    held = [f"Landlock {version}: own files only"] if (version := landlock.version()) else []
    missing = [] if held else ["Landlock: a candidate can read and write your files"]
    if _wrapper():
        held.append("bubblewrap: no network, no sight of other processes")
    else:
        missing.append("bubblewrap: UDP, and at level `process` the sight of other processes")
    return "; ".join([*held, "limits, no capabilities"]), "; ".join(missing)


def _sdk_folders(locations: Locations) -> list[str]:
    """The interpreter's installation and everything it imports from, and the SDK's own folder."""
    folders = {str(locations.root / "opt/aws"), str(locations.root / "sys")}
    for path in (locations.python, Path(os.path.realpath(locations.python))):
        # <prefix>/bin/python
        folders |= {str(path.parent), str(path.parent.parent)}
    folders |= set(_import_folders(str(locations.python)))
    return sorted(folders)


@cache
def _import_folders(python: str) -> tuple[str, ...]:
    ask = "import sys; print('\\n'.join([*sys.path, sys.prefix, sys.base_prefix]))"
    try:
        done = subprocess.run(
            [python, "-I", "-c", ask], capture_output=True, text=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line for line in done.stdout.splitlines() if os.path.isabs(line))


def _wrapper() -> list[str]:
    level = os.environ.get(ISOLATION_VARIABLE, "auto") or "auto"
    if level == "process" or not linux.IS_LINUX:
        return []
    command = _bubblewrap()
    if level == "bwrap" and not command:
        raise BackendUnavailableError(
            f"{ISOLATION_VARIABLE} asks for bubblewrap, which does not work here",
            hint="install it, or unset the variable",
        )
    return list(command)


@cache
def _bubblewrap() -> tuple[str, ...]:
    program = shutil.which("bwrap", path=os.defpath + ":/usr/local/bin") or shutil.which("bwrap")
    if program is None:
        return ()
    command = [program, "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc"]
    command += ["--unshare-net", "--unshare-pid", "--unshare-ipc"]
    if os.geteuid() == 0:
        command += ["--cap-drop", "ALL"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, timeout=PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(command) if done.returncode == 0 else ()
