"""The command line that starts a process inside bubblewrap, and whether that works here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import accelopt
import accelopt_simulator
from accelopt.process import linux
from accelopt.process.environment import clean_environment

PROBE_S = 20.0
SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/libx32")
LINKER_FILES = ("/etc/ld.so.cache", "/etc/ld.so.preload")
# What the server keeps of the superuser's rights: to change its children's user and root folder,
# and to end them afterwards.
KEPT_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SYS_CHROOT", "CAP_KILL")
NOWHERE = "/nowhere"
"""An empty folder that is not writable: where the server and all candidates are."""
NAMESPACES = ("pid", "net", "ipc", "uts", "cgroup-try")


def command(inner: list[str], environment: Mapping[str, str]) -> list[str]:
    """The command that runs `inner` with nothing but the interpreter's files, all read-only.

    Raises:
        FileNotFoundError: bubblewrap is not installed.
    """
    program = shutil.which("bwrap", path=os.defpath + ":/usr/local/bin") or shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bwrap is not installed")
    arguments = [program, "--die-with-parent", "--new-session", "--clearenv"]
    for name, value in environment.items():
        arguments += ["--setenv", name, value]
    arguments += [f"--unshare-{kind}" for kind in NAMESPACES]
    if os.geteuid() == 0:
        # No user namespace: in one that maps a single user, the candidates could not become
        # another one than the superuser, and outside that is who they would be.
        arguments += ["--cap-drop", "ALL"]
        for capability in KEPT_CAPABILITIES:
            arguments += ["--cap-add", capability]
    else:
        arguments += ["--unshare-user"]
    # Before the folders that are shown: an installation may lie in /tmp.
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", NOWHERE]
    for folder in SYSTEM_FOLDERS:
        if os.path.islink(folder):
            arguments += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            arguments += ["--ro-bind", folder, folder]
    for file in LINKER_FILES:
        arguments += ["--ro-bind-try", file, file]
    for path in interpreter_folders():
        arguments += ["--ro-bind", path, path]
    arguments += ["--remount-ro", "/tmp", "--remount-ro", "/", "--chdir", NOWHERE]
    return [*arguments, "--", *inner]


def interpreter_folders() -> list[str]:
    """The installation, the virtual environment and our packages; none inside another."""
    wanted = {Path(sys.base_prefix), Path(sys.prefix)}
    wanted |= {Path(module.__path__[0]) for module in (accelopt, accelopt_simulator)}
    # A virtual environment's interpreter is a link, often to the installation.
    wanted.add(Path(os.path.realpath(sys.executable)).parent)
    wanted |= {Path(entry) for entry in sys.path if _holds_packages(entry)}
    kept: list[str] = []
    for path in sorted({Path(os.path.abspath(p)) for p in wanted}):
        inside = (path.is_relative_to(other) for other in (*kept, *SYSTEM_FOLDERS))
        if not any(inside):
            kept.append(str(path))
    return kept


def _holds_packages(entry: str) -> bool:
    """Folders of installed packages; not those of an editable installation, which hold more."""
    return os.path.basename(entry) in ("site-packages", "dist-packages") and os.path.isdir(entry)


@cache
def problem() -> str:
    """Why bubblewrap can't be used here; empty when it can. Tried once, by running it."""
    if not linux.IS_LINUX:
        return "it exists for Linux only"
    inner = [sys.executable, "-I", "-S", "-c", "import sys"]
    try:
        done = subprocess.run(
            command(inner, clean_environment()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
        )
    except FileNotFoundError as error:
        return str(error)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it can't be run: {error}"
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else f"it ends with code {done.returncode}"
    return ""
