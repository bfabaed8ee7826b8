"""The SDK's tools: found once, by absolute path and content, before any candidate runs.

A candidate that could put a program of its own on the path, or change the profiler's file, would
write its own latency (row 29 of the list in docs/security.md). So a tool's path and hash are taken
when the backend starts, and the hash is taken again before each use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from accelopt.errors import AcceloptError
from accelopt_trainium.launch import Finished, run_launched
from accelopt_trainium.locations import Locations

PROFILERS = ("neuron-profile", "neuron-explorer")
"""The profiler, and what replaces it in SDK 2.31 and later; both know `view`."""
LISTER = "neuron-ls"


@dataclass(frozen=True)
class Tool:
    """One program.

    Attributes:
        path: absolute, links followed.
        sha256: of its content when it was found.
    """

    path: Path
    sha256: str

    def check(self) -> None:
        """See that it is still the program that was found.

        Raises:
            AcceloptError: it is gone, or another one.
        """
        try:
            same = _digest(self.path) == self.sha256
        except OSError:
            same = False
        if not same:
            raise AcceloptError(
                f"{self.path} is not the program any more that it was when this run began",
                hint="no measurement can be trusted now: reinstall aws-neuronx-tools, start anew",
            )

    def run(self, arguments: list[str], *, folder: Path, timeout_s: float) -> Finished:
        """Run it, after `check`, in a clean environment; what it starts ends with it.

        Args:
            arguments: of the program.
            folder: working folder, which also takes its output.
            timeout_s: wall time.

        Raises:
            AcceloptError: it is not the same program any more, or can't be started.
        """
        self.check()
        environment = {"PATH": f"{self.path.parent}:{os.defpath}", "HOME": str(folder)}
        return run_launched(
            [str(self.path), *arguments],
            folder=folder,
            timeout_s=timeout_s,
            environment=environment,
        )


def find_tool(locations: Locations, *names: str) -> Tool | None:
    """The first of these programs that is installed; None when none is.

    Only the SDK's own folder and, if the machine's real root is asked, the path of this process are
    looked at.
    """
    for name in names:
        places = [locations.tools / name]
        if str(locations.root) == "/" and (on_path := shutil.which(name)):
            places.append(Path(on_path))
        for place in places:
            real = Path(os.path.realpath(place))
            if real.is_file() and os.access(real, os.X_OK):
                return Tool(real, _digest(real))
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
