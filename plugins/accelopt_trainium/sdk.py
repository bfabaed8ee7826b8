"""What is installed of the Neuron SDK, found out without importing any of it into this process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from accelopt.kernel import Dialect
from accelopt.process.environment import clean_environment
from accelopt_trainium.locations import PYTHON_VARIABLE, Locations
from accelopt_trainium.versions import Part, mismatches

ASK_S = 30.0
_ASK = """
import importlib.metadata as metadata, json
found = {}
for name in ("neuronx-cc", "nki"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        found[name] = ""
print(json.dumps(found))
"""
_PACKAGES = {"tools": "aws-neuronx-tools", "runtime": "aws-neuronx-runtime-lib"}
_NAMED_LIBRARY = re.compile(r"libnrt\.so\.(\d+\.\d+(?:\.\d+)*)$")

LEGACY_RELEASES = (26, 27)
"""Releases whose `neuronxcc.nki.baremetal` this package knows."""
NKI_FROM = (0, 3)
"""First version of the `nki` package this package knows (SDK 2.29)."""


@dataclass(frozen=True)
class Sdk:
    """Versions of the installed parts; empty where one is missing.

    Attributes:
        neuronx_cc, nki: Python packages, as the SDK's interpreter sees them.
        runtime: libnrt.
        driver: kernel module.
        tools: `aws-neuronx-tools`.
        problem: why the interpreter could not be asked.
    """

    neuronx_cc: str
    nki: str
    runtime: str
    driver: str
    tools: str
    problem: str = ""

    @property
    def parts(self) -> list[Part]:
        """All parts."""
        return [
            Part("neuronx-cc", self.neuronx_cc),
            Part("nki", self.nki),
            Part("runtime", self.runtime),
            Part("driver", self.driver),
            Part("tools", self.tools),
        ]

    @property
    def mismatches(self) -> list[str]:
        """Parts that do not belong together."""
        return mismatches(self.parts)

    @property
    def dialects(self) -> frozenset[Dialect]:
        """The dialects this SDK compiles, as far as this package knows how to ask it."""
        found = set()
        if set(Part("neuronx-cc", self.neuronx_cc).releases) & set(LEGACY_RELEASES):
            found.add(Dialect.NEURONXCC_NKI)
        if (Part("nki", self.nki).numbers or (0, 0)) >= NKI_FROM:
            found.add(Dialect.NKI)
        return frozenset(found)

    def pair(self, dialect: Dialect) -> str:
        """The compiler and runtime that a kernel of a dialect goes through, in words."""
        runtime = f"libnrt {self.runtime or 'of unknown version'}"
        if dialect is Dialect.NKI:
            return f"nki {self.nki} with neuronx-cc {self.neuronx_cc or '(none)'}, on {runtime}"
        return f"neuronxcc.nki.baremetal of neuronx-cc {self.neuronx_cc}, on {runtime}"

    @property
    def fingerprint(self) -> str:
        """All versions in one word, for the key of evaluations."""
        return "/".join(f"{part.name}-{part.version or 'none'}" for part in self.parts)


def find_sdk(locations: Locations) -> Sdk:
    """Look at the machine; asks the SDK's interpreter once per process and interpreter."""
    packages, problem = _ask_python(str(locations.python), _changed(locations.python))
    return Sdk(
        neuronx_cc=packages.get("neuronx-cc", ""),
        nki=packages.get("nki", ""),
        runtime=_runtime_version(locations),
        driver=_text(locations.driver_version),
        tools=_package_version(locations, "tools"),
        problem=problem,
    )


def what_is_missing(locations: Locations, sdk: Sdk) -> str:
    """Why no kernel can be run with this SDK, and how to get what is missing; empty if none."""
    if not sdk.neuronx_cc and not sdk.nki:
        elsewhere = ", ".join(map(str, locations.other_pythons()))
        hint = f" (there is one at {elsewhere})" if elsewhere else ""
        reason = f": {sdk.problem}" if sdk.problem else ""
        return (
            f"no Neuron SDK: {locations.python} has neither neuronx-cc nor nki{reason}; install it "
            f"on a Trainium instance, or set {PYTHON_VARIABLE} to an interpreter that has it{hint}"
        )
    if not sdk.dialects:
        return (
            f"neuronx-cc {sdk.neuronx_cc or '(none)'} and nki {sdk.nki or '(none)'}: SDK 2.26, "
            "2.27, or 2.29 and later is needed"
        )
    if not locations.library.exists():
        return f"no runtime: {locations.library} is missing; install aws-neuronx-runtime-lib"
    return ""


@lru_cache(maxsize=8)
def _ask_python(python: str, changed: float) -> tuple[dict[str, str], str]:
    del changed  # part of the key: an interpreter that was replaced is asked again
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_S,
            env=clean_environment(),
            check=False,
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return {}, str(error) or type(error).__name__
    return ({str(k): str(v) for k, v in found.items()}, "") if isinstance(found, dict) else ({}, "")


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _runtime_version(locations: Locations) -> str:
    """The file behind the library's link carries it in its name."""
    named = _NAMED_LIBRARY.search(os.path.realpath(locations.library))
    return named[1] if named else _package_version(locations, "runtime")


def _package_version(locations: Locations, part: str) -> str:
    package = _PACKAGES[part]
    current = ""
    for line in _text(locations.package_status).splitlines():
        key, _, value = line.partition(": ")
        if key == "Package":
            current = value.strip()
        elif key == "Version" and current == package:
            return value.strip()
    rpm = shutil.which("rpm") if str(locations.root) == "/" else None
    if rpm is None:
        return ""
    try:
        done = subprocess.run(
            [rpm, "-q", "--qf", "%{VERSION}", package],
            capture_output=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
