"""Makes the request that an agent would be sent, without a run and without a paid model."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from accelopt import slots
from accelopt.backend import Backend
from accelopt.candidate import Candidate, speedup
from accelopt.entry_point import detect_dialect, find_entry, parse_kernel
from accelopt.errors import AcceloptError, ConfigError, TaskError
from accelopt.evaluation import Evaluation
from accelopt.kernel import KernelSource, KernelTask
from accelopt.models import ModelSettings, Role
from accelopt.plugins import installed
from accelopt.prompts.render import Request
from accelopt.replies import extract_kernel, strip_reasoning
from accelopt.requests import (
    EditMode,
    ExecuteRequest,
    FixRequest,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
)
from accelopt_graphs.messages import messages
from accelopt_graphs.request_builders import (
    entry_of,
    execute_request,
    fix_request,
    plan_request,
    problem_facts,
    summarize_request,
)

_OFFLINE_MODEL = "rewriter"
_SEED = 0
"""The default seed of a run."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a person gave; the rest is made up.

    Attributes:
        kernel: the candidate of a planner or executor, the failing kernel of a fixer.
        plan: text of the plan of an executor or fixer.
        slow, fast: the pair of a summarizer.
        edit_mode: how an executor or fixer is to answer.
    """

    kernel: KernelSource | None = None
    plan: str | None = None
    slow: KernelSource | None = None
    fast: KernelSource | None = None
    edit_mode: EditMode = "full"


@dataclass
class Preview:
    """Builds requests of one task for one backend.

    Attributes:
        notes: what was made up, one line each; filled while a request is built.
    """

    task: KernelTask
    backend: Backend
    notes: list[str] = field(default_factory=list)

    def request(self, role: Role, inputs: Inputs) -> Request:
        """The first request of a role in a run of the task, with what the person gave put in.

        Raises:
            ConfigError: only one kernel of a pair is given.
            AcceloptError: a kernel fails that must work, or works that must fail.
        """
        match role:
            case Role.PLANNER:
                return self._planner(self._candidate(inputs.kernel))
            case Role.EXECUTOR:
                return self._executor(self._candidate(inputs.kernel), inputs)
            case Role.FIXER:
                return self._fixer(inputs)
            case Role.SUMMARIZER:
                return self._summarizer(inputs)

    def _planner(self, parent: Candidate) -> PlanRequest:
        return plan_request(self._problem, parent, experiences=(), tried=(), index=0, seed=_SEED)

    def _executor(self, parent: Candidate, inputs: Inputs) -> ExecuteRequest:
        plan = self._plan(parent, inputs.plan)
        return execute_request(
            self._problem, parent, plan, index=0, seed=_SEED, edit_mode=inputs.edit_mode
        )

    def _fixer(self, inputs: Inputs) -> FixRequest:
        parent = self._candidate(None)
        if inputs.kernel is None:
            text = without_last_return(self.task.baseline)
            source = self.task.baseline.model_copy(update={"text": text})
            self.notes.append("the failing kernel is the baseline without its last return")
        else:
            source = inputs.kernel
        evaluation = self.backend.evaluate(self.task, source)
        if evaluation.ok:
            raise AcceloptError(
                f"{source.filename} passes on {self.backend.name}: there is nothing to fix",
                hint="give a kernel that fails with --kernel FILE",
            )
        plan = self._plan(parent, inputs.plan)
        return fix_request(
            self._problem,
            _as_candidate(source, evaluation, "failed"),
            parent,
            plan,
            index=0,
            seed=_SEED,
            edit_mode=inputs.edit_mode,
        )

    def _summarizer(self, inputs: Inputs) -> SummarizeRequest:
        if (inputs.slow is None) != (inputs.fast is None):
            raise ConfigError(
                "a pair has two kernels", hint="give --slow FILE and --fast FILE, or neither"
            )
        slow = self._candidate(inputs.slow)
        if inputs.fast is not None:
            fast = self._candidate(inputs.fast)
        else:
            fast = self._rewritten(slow, inputs)
            if _factor(slow, fast) < 1:
                slow, fast = fast, slow
                self.notes.append("it is slower, so the pair is turned round, as in a run")
        factor = _factor(slow, fast)
        if factor <= 1:
            self.notes.append(
                f"the fast kernel is not faster here ({factor:.4g}x); a run offers no such pair"
            )
        return summarize_request(self._problem, slow, fast, speedup=factor, seed=_SEED)

    def _rewritten(self, slow: Candidate, inputs: Inputs) -> Candidate:
        reply = _ask(self._executor(slow, Inputs(plan=inputs.plan)))
        text = extract_kernel(reply, entry=entry_of(slow.source), parent=slow.source.text)
        self.notes.append(f"the other kernel is what the {_OFFLINE_MODEL} makes of that plan")
        return self._candidate(slow.source.model_copy(update={"text": text}))

    def _plan(self, parent: Candidate, given: str | None) -> str:
        if given is not None:
            return given
        self.notes.append(f"the plan is the first one of the offline model {_OFFLINE_MODEL}")
        return strip_reasoning(_ask(self._planner(parent))).strip()

    def _candidate(self, source: KernelSource | None) -> Candidate:
        """A kernel with its estimate; the baseline when there is none."""
        kernel = self.task.baseline if source is None else source
        evaluation = self.backend.estimate(self.task, kernel)
        if not evaluation.ok:
            findings = [finding.message for finding in evaluation.diagnostics]
            raise AcceloptError(
                f"{kernel.filename} fails on {self.backend.name} ({evaluation.status.value}): "
                + (findings[0] if findings else "no details"),
                hint="only the fixer is shown kernels that fail",
            )
        return _as_candidate(kernel, evaluation, slots.BASELINE)

    @property
    def _problem(self) -> ProblemFacts:
        return problem_facts(self.task, self.backend)


def read_kernel(path: Path, task: KernelTask) -> KernelSource:
    """A kernel file for a task. One that can't be understood is taken as a kernel that fails.

    Raises:
        TaskError: the file can't be read.
    """
    text = read_text(path, "kernel")
    changes: dict[str, object] = {"text": text, "filename": path.name}
    with suppress(TaskError):
        changes |= {"entry": find_entry(text), "dialect": detect_dialect(text)}
    return task.baseline.model_copy(update=changes)


def read_text(path: Path, what: str) -> str:
    """Text of a file that a person named.

    Raises:
        TaskError: it can't be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise TaskError(f"can't read {what} file {path}: {reason}") from error


def without_last_return(source: KernelSource) -> str:
    """Text of a kernel whose function lacks its last return statement.

    Raises:
        TaskError: it does not parse, or returns nothing.
    """
    entry = entry_of(source)
    found: list[tuple[ast.Return, bool]] = []
    for function in parse_kernel(source.text, source.filename).body:
        if isinstance(function, ast.FunctionDef) and function.name == entry:
            for node in ast.walk(function):
                for block in ("body", "orelse", "finalbody"):
                    statements = getattr(node, block, None)
                    if isinstance(statements, list):
                        alone = len(statements) == 1
                        found += [(s, alone) for s in statements if isinstance(s, ast.Return)]
    if not found:
        raise TaskError(f"{source.filename}: the function {entry!r} returns nothing")
    last, alone = max(found, key=lambda pair: pair[0].lineno)
    lines = source.text.split("\n")
    # A block must not be empty.
    instead = [" " * last.col_offset + "pass"] if alone else []
    return "\n".join([*lines[: last.lineno - 1], *instead, *lines[last.end_lineno :]])


def _as_candidate(source: KernelSource, evaluation: Evaluation, id_: str) -> Candidate:
    return Candidate(id=id_, iteration=0, source=source, evaluation=evaluation)


def _factor(slow: Candidate, fast: Candidate) -> float:
    before, after = slow.evaluation.latency_us, fast.evaluation.latency_us
    return speedup(before, after) if before and after else 1.0


def _ask(request: PlanRequest | ExecuteRequest) -> str:
    model = installed().chat_model(_OFFLINE_MODEL, ModelSettings())
    return str(model.invoke(messages(request)).text)
