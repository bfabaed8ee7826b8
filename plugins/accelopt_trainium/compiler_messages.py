"""From what the tracer or the compiler said to a status and findings with the kernel's lines.

The SDK reports by exceptions: the NKI error codes (`err_*`) of its error manual, codes of the
compiler in brackets (`[NCC_...]`, `[GCA046]`, `[F134]`), or plain Python. All of it comes out of
the candidate's own process: it is shown, it can fail the kernel, and nothing else hangs on it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelopt.evaluation import Diagnostic, EvaluationStatus
from accelopt_trainium.launch import Finished

MAX_MESSAGE = 2000
ON_DEVICE_VARIABLE = "ACCELOPT_NEURON_COMPILE_ON_DEVICE"
"""Set to 1 if the installed compiler insists on a device: the candidate then sees one."""
_NKI_CODE = re.compile(r"\berr_[a-z0-9_]+")
_COMPILER_CODE = re.compile(r"\[(NCC_[A-Z0-9]+|[A-Z]{1,4}\d{2,4})\]")
_CODED_LINE = re.compile(r"(?m)\[(?:NCC_[A-Z0-9]+|[A-Z]{1,4}\d{2,4})\][^\n]*")
_NO_DEVICE = re.compile(r"nrt_init|NRT_|[Nn]o [Nn]euron ?[Dd]evice|/dev/neuron")
_ERROR_LINE = re.compile(r"(?:ERROR|USER|FATAL)[^\n]*?:\s*(\S[^\n]*)")
_AT_LINE = re.compile(r"kernel\.py\"?,? (?:line |:)?(\d+)|kernel\.py:(\d+)")
_MEMORY = re.compile(r"MemoryError|std::bad_alloc|[Oo]ut of memory|Cannot allocate memory")
_LOADING = frozenset(
    ["ImportError", "ModuleNotFoundError", "NameError", "AttributeError", "SystemExit"]
)


class CompilationError(Exception):
    """A kernel that does not become a program.

    Attributes:
        status: of the evaluation.
        diagnostics: findings.
    """

    def __init__(self, status: EvaluationStatus, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__(diagnostics[0].message if diagnostics else status.value)
        self.status, self.diagnostics = status, diagnostics


def failed(
    status: EvaluationStatus, rule: str, message: str, *, hint: str = "", line: int | None = None
) -> CompilationError:
    """A `CompilationError` with one finding."""
    finding = Diagnostic(rule=rule, message=message[:MAX_MESSAGE], hint=hint, line=line)
    return CompilationError(status, (finding,))


@dataclass(frozen=True)
class Report:
    """What the compiling process wrote down; every field may be a lie.

    Attributes:
        kind: class of the exception; empty without a report.
        message: its text.
        traceback: the whole of it.
        line: line of the kernel.
        loading: whether the file was still being loaded.
    """

    kind: str = ""
    message: str = ""
    traceback: str = ""
    line: int | None = None
    loading: bool = False
    found: bool = field(default=False)

    def error(self, done: Finished, filename: str) -> CompilationError:
        """Why there is no program."""
        if not self.found:
            code = done.code or 0
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            if _MEMORY.search(done.stderr) or code == -9:
                return failed(
                    EvaluationStatus.OUT_OF_MEMORY, "compile_memory", f"the compiler ended: {how}"
                )
            return failed(
                EvaluationStatus.LOAD_ERROR,
                "compiler_ended",
                f"the process that compiled {filename} ended without a word ({how}): "
                f"{done.last_words}",
            )
        said = f"{self.message}\n{done.stderr}"
        if self.kind == "RuntimeError" and _NO_DEVICE.search(self.message):
            # A candidate can say so too: it fails with it, and nothing else happens.
            return failed(
                EvaluationStatus.LOAD_ERROR,
                "compiler_wants_device",
                f"no program, and the SDK wanted a device: {self.message[:500]}",
                hint=f"if every kernel fails so, set {ON_DEVICE_VARIABLE}=1",
            )
        line = self.line or _line_in(said) or _line_in(self.traceback)
        rule = self._rule(said)
        finding = Diagnostic(rule=rule, message=self._words(done), line=line)
        return CompilationError(self._status(rule, said), (finding,))

    def _rule(self, said: str) -> str:
        for pattern, group in ((_NKI_CODE, 0), (_COMPILER_CODE, 1)):
            if found := pattern.search(said):
                return found[group]
        return "syntax_error" if self.kind == "SyntaxError" else self.kind or "compiler_error"

    def _words(self, done: Finished) -> str:
        if self.kind == "RuntimeError" and "Compilation failed" in self.message:
            # The command line that failed says nothing; the compiler's own lines do.
            said = f"{self.message}\n{done.stderr}"
            lines = [*dict.fromkeys(_CODED_LINE.findall(said) + _ERROR_LINE.findall(said))]
            if lines:
                return "; ".join(line.strip() for line in lines[:3])[:MAX_MESSAGE]
        return (self.message or self.kind or done.last_words)[:MAX_MESSAGE]

    def _status(self, rule: str, said: str) -> EvaluationStatus:
        if self.kind == "MemoryError" or _MEMORY.search(said):
            return EvaluationStatus.OUT_OF_MEMORY
        if self.kind == "NotImplementedError":
            return EvaluationStatus.UNSUPPORTED_OP
        refused = rule.startswith("err_") or _COMPILER_CODE.fullmatch(f"[{rule}]") is not None
        if refused or "Compilation failed" in self.message:
            return EvaluationStatus.CONSTRAINT_VIOLATION
        if self.loading or self.kind in _LOADING:
            return EvaluationStatus.LOAD_ERROR
        # Raised while the kernel was traced: the SDK's own refusal, or the kernel's own mistake.
        ours = f"{Path('candidate') / 'kernel.py'}"
        last = self.traceback.rstrip().rfind('  File "')
        in_kernel = ours in self.traceback[last : last + 400] if last >= 0 else False
        return EvaluationStatus.LOAD_ERROR if in_kernel else EvaluationStatus.CONSTRAINT_VIOLATION


def read_report(content: bytes) -> Report:
    """Read what the compiling process wrote; anything malformed is as good as nothing."""
    try:
        error: Any = json.loads(content).get("error")
    except (ValueError, AttributeError, RecursionError):
        return Report()
    if not isinstance(error, dict):
        return Report()
    line = error.get("line")
    return Report(
        kind=_text(error.get("kind"), 100),
        message=_text(error.get("message"), 20000),
        traceback=_text(error.get("traceback"), 40000),
        line=line if isinstance(line, int) and 0 < line < 1 << 20 else None,
        loading=error.get("loading") is True,
        found=True,
    )


def _line_in(text: str) -> int | None:
    found = [one or other for one, other in _AT_LINE.findall(text)]
    return int(found[-1]) if found and len(found[-1]) < 7 else None


def _text(value: object, most: int) -> str:
    return value[:most].encode("utf-8", "replace").decode() if isinstance(value, str) else ""
