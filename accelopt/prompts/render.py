"""Renders a typed request as the system and user text that a model gets."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accelopt.evaluation import Diagnostic
from accelopt.prompts.template import fill_text, load_template
from accelopt.replies import NO_OPTIMIZATION
from accelopt.requests import (
    EditMode,
    ExecuteRequest,
    FixRequest,
    OfferedExperience,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
)

Request = PlanRequest | ExecuteRequest | FixRequest | SummarizeRequest


@dataclass(frozen=True)
class RenderedPrompt:
    """The text of one exchange."""

    system: str
    user: str

    @property
    def sha256(self) -> str:
        """Hash (hex) of both texts; with the slot, the key of a journalled answer."""
        return hashlib.sha256(f"{self.system}\0{self.user}".encode()).hexdigest()


def render(request: Request) -> RenderedPrompt:
    """The text of a request. Equal requests up to `index` and `seed` give equal texts.

    Raises:
        ConfigError: a template is damaged.
    """
    match request:
        case PlanRequest():
            values = _planner(request)
        case ExecuteRequest():
            values = _executor(request)
        case FixRequest():
            values = _fixer(request)
        case SummarizeRequest():
            values = _summarizer(request)
    template = load_template(f"{request.role}.md", frozenset(values))
    system, user = template.fill(values)
    if request.complaint:
        user += "\n\n" + fill_text("complaint.md", {"complaint": request.complaint.strip()})
    return RenderedPrompt(system, user)


def _planner(request: PlanRequest) -> dict[str, str]:
    facts = (f"line {line}: {fact}" for line, fact in sorted(request.line_facts.items()))
    return _problem(request.problem) | {
        "profile_glossary": _lines(_glossary(request), "Nothing is known about the counters."),
        "experiences": _lessons(request.experiences),
        "kernel": request.kernel.rstrip("\n"),
        "latency_us": repr(request.latency_us),
        "profile": _lines(request.profile, "No counters were reported."),
        "bottleneck": request.bottleneck or "Not known.",
        "line_facts": _lines(facts, "None."),
        "tried": _lines((f"- {plan}" for plan in request.tried), "None yet."),
    }


def _executor(request: ExecuteRequest) -> dict[str, str]:
    return (
        _problem(request.problem)
        | _judgement(request.problem)
        | {
            "kernel": request.kernel.rstrip("\n"),
            "plan": request.plan.strip(),
            "answer": _answer(request.edit_mode, "the kernel to start from"),
        }
    )


def _fixer(request: FixRequest) -> dict[str, str]:
    diff = difflib.unified_diff(
        request.parent.splitlines(),
        request.kernel.splitlines(),
        "working kernel",
        "failing kernel",
        lineterm="",
    )
    source = request.kernel.replace("\r\n", "\n").split("\n")
    findings = (_finding(finding, source) for finding in request.diagnostics)
    return (
        _problem(request.problem)
        | _judgement(request.problem)
        | {
            "kernel": request.kernel.rstrip("\n"),
            "parent": request.parent.rstrip("\n"),
            "plan": request.plan.strip(),
            "diff": _lines(diff, "(nothing)"),
            "status": request.status,
            "diagnostics": _lines(findings, "No details are known."),
            "answer": _answer(request.edit_mode, "the kernel that failed"),
        }
    )


def _summarizer(request: SummarizeRequest) -> dict[str, str]:
    return {
        **_names(request.problem),
        "no_optimization": NO_OPTIMIZATION,
        "slow": request.slow.rstrip("\n"),
        "fast": request.fast.rstrip("\n"),
        "speedup": f"{request.speedup:.4g}",
        "moved": _lines(request.moved, "None were reported."),
    }


def _names(problem: ProblemFacts) -> dict[str, str]:
    return {
        "device": problem.device,
        "language": problem.language or f"the dialect `{problem.dialect}`",
    }


def _problem(problem: ProblemFacts) -> dict[str, str]:
    return _names(problem) | {
        "api_notes": problem.api_notes.strip() or "Nothing else is known about the language.",
        "device_facts": _lines((f"- {fact}" for fact in problem.device_facts), "Not known."),
        "reference_source": problem.reference_source.strip("\n"),
        "entry": problem.entry,
    }


def _judgement(problem: ProblemFacts) -> dict[str, str]:
    numbered = (f"{number}. {line}" for number, line in enumerate(problem.arguments, start=1))
    return {
        "arguments": _lines(numbered, "No arguments."),
        "output_shape": str(tuple(problem.output_shape)),
        "tolerance": repr(problem.relative_l2_tolerance),
    }


def _answer(mode: EditMode, edited_kernel: str) -> str:
    if mode == "full":
        return fill_text("answer_full.md", {})
    return fill_text("answer_edits.md", {"edited_kernel": edited_kernel})


def _glossary(request: PlanRequest) -> Iterator[str]:
    """The entries about counters of this profile."""
    reported = {"latency_us"} | {line.partition(":")[0].strip() for line in request.profile}
    for line in request.problem.profile_glossary:
        counters, _, meaning = line.partition(":")
        names = [name for name in map(str.strip, counters.split(",")) if name in reported]
        if names:
            yield f"- {', '.join(names)}: {meaning.strip()}"


def _lessons(experiences: Iterable[OfferedExperience]) -> str:
    texts = []
    for lesson in experiences:
        heading = f"## {lesson.title or 'Lesson'} (speedup {lesson.speedup:.4g})"
        texts.append(f"{heading}\n\n{lesson.strategy.strip()}")
    return "\n\n".join(texts) or "None yet."


def _finding(finding: Diagnostic, source: list[str]) -> str:
    where = "" if finding.line is None else f" (line {finding.line}"
    if finding.line is not None:
        where += ")" if finding.column is None else f", column {finding.column})"
    text = f"- {finding.severity} {finding.rule}{where}: {finding.message}"
    if finding.required is not None:
        text += f"; asked for {finding.required}"
    if finding.limit is not None:
        text += f"; allowed {finding.limit}"
    if finding.line is not None and 1 <= finding.line <= len(source):
        text += f"\n  {finding.line} | {source[finding.line - 1]}"
    return f"{text}\n  hint: {finding.hint}" if finding.hint else text


def _lines(lines: Iterable[str], otherwise: str) -> str:
    return "\n".join(lines) or otherwise
