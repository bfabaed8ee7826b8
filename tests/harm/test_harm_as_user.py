"""The same kernels, run by an ordinary user: no user to change to, so the rest must hold.

The tests run again in a process that was root and gave it up. Where the interpreter lies in a
folder that other users can't enter, bubblewrap shows it to them at the same place, and nothing else
of that folder; everything under test, the server's start included, is as it always is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accelopt_simulator.process import bwrap

UID = 12345
HERE = Path(__file__).parent
# Kernels that run out their limit are marked slow; so is everything at the level bwrap, where they
# don't run at all.
WITHIN_LIMIT = {"process": "not slow", "bwrap": "slow"}


def closed_folder(path):
    """The topmost folder on the way to a path that other users can't enter."""
    folders = [folder for folder in reversed(Path(path).parents) if folder.stat().st_mode & 1 == 0]
    return folders[0] if folders else None


def readable_prefix():
    """A command that makes the interpreter's folders reachable; empty where they are."""
    hidden = {path: closed_folder(path) for path in [*bwrap.interpreter_folders(), str(HERE)]}
    hidden = {path: folder for path, folder in hidden.items() if folder is not None}
    if not hidden:
        return []
    if bwrap.problem():
        pytest.skip(f"other users can't reach the interpreter, and no bwrap: {bwrap.problem()}")
    command = [shutil.which("bwrap"), "--dev-bind", "/", "/"]
    for folder in sorted({str(folder) for folder in hidden.values()}):
        command += ["--tmpfs", folder]
    for path, top in hidden.items():
        for folder in reversed(Path(path).parents):
            if folder != top and folder.is_relative_to(top):
                command += ["--perms", "0755", "--dir", str(folder)]
        command += ["--ro-bind", path, path]
    return [*command, "--"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests are run by a user already")
@pytest.mark.parametrize("level", ["process", "bwrap"])
def test_an_ordinary_user_is_protected_as_well(level):
    folder = Path(tempfile.mkdtemp(prefix="harm-user-"))
    try:
        os.chown(folder, UID, UID)
        tests = [
            str(HERE / "test_harm.py"),
            "-k",
            f"ends_as_a_result and {level}- or namespaces and {level}]",
        ]
        done = subprocess.run(
            [*readable_prefix(), sys.executable, str(HERE / "as_user.py"), str(UID), *tests,
             "-q", "-m", WITHIN_LIMIT[level], "-p", "no:cacheprovider",
             "-o", "faulthandler_timeout=0", "--basetemp", str(folder / "pytest")],
            env={"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ["PATH"],
                 "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=HERE.parents[1], capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        passed = re.search(r"(\d+) passed", done.stdout)
        assert passed is not None
        assert int(passed[1]) > 50
    finally:
        shutil.rmtree(folder)
