"""Has candidates compiled to a NEFF, each in a confined process of its own."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelopt.entry_point import find_entry
from accelopt.errors import AcceloptError, TaskError
from accelopt.evaluation import Diagnostic, EvaluationStatus
from accelopt.kernel import KernelSource, KernelTask
from accelopt.parsing import parse_python
from accelopt_trainium import compile_main, confinement
from accelopt_trainium.compiler_messages import (
    ON_DEVICE_VARIABLE,
    CompilationError,
    failed,
    read_report,
)
from accelopt_trainium.launch import run_launched
from accelopt_trainium.locations import Locations

MAX_NEFF_BYTES = 1 << 30
MAX_REPORT_BYTES = 1 << 18
COMPILER_FLAGS = "--auto-cast=none"
"""Through NEURON_CC_FLAGS: no silent change of precision (the published protocol)."""


@dataclass(frozen=True)
class Program:
    """A compiled kernel.

    Attributes:
        neff: the program, in the judge's own folder, under the judge's own name.
        sha256: of its content.
        parameters: names of the kernel's parameters, in call order.
        compile_s: wall time of the compilation.
    """

    neff: Path
    sha256: str
    parameters: tuple[str, ...]
    compile_s: float


class Compiler:
    """Compiles kernels for one device generation.

    Args:
        locations: where the SDK lies.
        target: `trn1` or `trn2`.
    """

    def __init__(self, locations: Locations, target: str) -> None:
        self._locations, self._target = locations, target

    def compile(
        self, task: KernelTask, source: KernelSource, folder: Path, *, timeout_s: float, core: int
    ) -> Program:
        """Compile one kernel.

        Args:
            task: whose arguments it is compiled for.
            source: the kernel.
            folder: an empty folder of the judge's.
            timeout_s: wall time.
            core: what a compiler that insists on a device is given (`ON_DEVICE_VARIABLE`).

        Raises:
            CompilationError: the kernel is at fault.
            AcceloptError: the SDK can't be run.
        """
        try:
            entry = source.entry or find_entry(source.text, source.filename)
        except TaskError as error:
            raise failed(EvaluationStatus.LOAD_ERROR, "no_kernel", error.message) from None
        parameters = _parameters(source.text, entry)
        theirs, ours = folder / "candidate", folder / "program"
        for place in (theirs, ours):
            place.mkdir(mode=0o700)
        (theirs / compile_main.KERNEL).write_text(source.text, "utf-8", errors="surrogatepass")
        request = {
            "dialect": source.dialect.value,
            "entry": entry,
            "grid": list(source.grid),
            "parameters": list(parameters),
            "target": self._target,
            "arguments": [
                {"shape": list(spec.shape), "dtype": spec.dtype, "value": spec.value}
                for spec in task.arguments
            ],
        }
        (theirs / "request.json").write_text(json.dumps(request), encoding="utf-8")
        device = os.environ.get(ON_DEVICE_VARIABLE) == "1"
        try:
            done = run_launched(
                [str(self._locations.python), "-I", compile_main.__file__, str(theirs)],
                folder=theirs,
                timeout_s=timeout_s,
                environment=self._environment(theirs, core if device else None),
                confinement=confinement.rules(
                    self._locations, theirs, timeout_s=timeout_s, device=device
                ),
            )
        except OSError as error:
            raise AcceloptError(f"the compiler can't be run: {error}") from error
        if done.timed_out:
            raise failed(
                EvaluationStatus.TIMEOUT,
                "compile_timeout",
                f"the compilation took longer than {timeout_s:.0f} s",
            )
        report = read_report(_read(theirs / compile_main.REPORT, MAX_REPORT_BYTES))
        content = _read(theirs / compile_main.NEFF, MAX_NEFF_BYTES)
        if not content:
            raise report.error(done, source.filename)
        neff = ours / "kernel.neff"
        neff.write_bytes(content)
        shutil.rmtree(theirs, ignore_errors=True)
        return Program(neff, hashlib.sha256(content).hexdigest(), parameters, done.elapsed_s)

    def _environment(self, folder: Path, core: int | None) -> dict[str, str]:
        python = self._locations.python
        environment = {
            # The SDK starts neuronx-cc by name.
            "PATH": f"{python.parent}:{self._locations.tools}:{os.defpath}",
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "NEURON_CC_FLAGS": COMPILER_FLAGS,
            "NEURON_PLATFORM_TARGET_OVERRIDE": self._target,
            "NEURON_LOGICAL_NC_CONFIG": "1",
            "NEURON_RT_LOG_LEVEL": "ERROR",
            "NKI_DEBUG_INFO": "1",
        }
        if core is not None:
            environment["NEURON_RT_VISIBLE_CORES"] = str(core)
        return environment


def _parameters(text: str, entry: str) -> tuple[str, ...]:
    """Names of a kernel's parameters, read without running it."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = getattr(error, "msg", None) or str(error)
        finding = Diagnostic(rule="syntax_error", message=str(message), line=line)
        raise CompilationError(EvaluationStatus.LOAD_ERROR, (finding,)) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            taken = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            return tuple(argument.arg for argument in taken)
    raise failed(EvaluationStatus.LOAD_ERROR, "no_kernel", f"the file has no kernel {entry!r}")


def _read(path: Path, max_bytes: int) -> bytes:
    """A plain file that somebody untrusted wrote; empty when there is none, or it is too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        info: Any = os.fstat(file.fileno())
        # A hard link would be a file of somebody else's.
        plain = os.path.isfile(path) and info.st_nlink == 1 and info.st_size <= max_bytes
        return file.read(max_bytes + 1)[:max_bytes] if plain else b""
