"""Renders a typed request as the system and user text that a model gets."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from accelopt.errors import ConfigError
from accelopt.evaluation import Diagnostic
from accelopt.kernel import Dialect
from accelopt.prompts.template import load_template, load_text
from accelopt.replies import NO_OPTIMIZATION
from accelopt.requests import (
    ExecuteRequest,
    FixRequest,
    OfferedExperience,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
)

Request = PlanRequest | ExecuteRequest | FixRequest | SummarizeRequest

_RULES = {
    Dialect.NEURONXCC_NKI.value: "rules_neuronxcc_nki.md",
    Dialect.NKI.value: "rules_nki.md",
}


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
        ConfigError: a template is damaged, or the dialect is unknown.
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
    return RenderedPrompt(*template.fill(values))


def _planner(request: PlanRequest) -> dict[str, str]:
    facts = (f"line {line}: {fact}" for line, fact in sorted(request.line_facts.items()))
    return _device(request.problem) | {
        "nki_facts": load_text("nki_facts.md"),
        "profile_glossary": load_text("profile_glossary.md"),
        "experiences": _lessons(request.experiences),
        "reference_source": request.problem.reference_source.strip("\n"),
        "kernel": request.kernel.strip("\n"),
        "latency_us": repr(request.latency_us),
        "profile": _lines(request.profile, "No counters were reported."),
        "bottleneck": request.bottleneck or "Not known.",
        "line_facts": _lines(facts, "None."),
        "tried": _lines((f"- {plan}" for plan in request.tried), "None yet."),
    }


def _executor(request: ExecuteRequest) -> dict[str, str]:
    return (
        _device(request.problem)
        | _coding(request.problem)
        | {"kernel": request.kernel.strip("\n"), "plan": request.plan.strip()}
    )


def _fixer(request: FixRequest) -> dict[str, str]:
    diff = difflib.unified_diff(
        request.parent.splitlines(),
        request.kernel.splitlines(),
        "working kernel",
        "failing kernel",
        lineterm="",
    )
    return (
        _device(request.problem)
        | _coding(request.problem)
        | {
            "kernel": request.kernel.strip("\n"),
            "parent": request.parent.strip("\n"),
            "plan": request.plan.strip(),
            "diff": _lines(diff, "(nothing)"),
            "status": request.status,
            "diagnostics": _lines(map(_finding, request.diagnostics), "No details are known."),
        }
    )


def _summarizer(request: SummarizeRequest) -> dict[str, str]:
    return {
        "dialect": request.problem.dialect,
        "device": request.problem.device,
        "no_optimization": NO_OPTIMIZATION,
        "slow": request.slow.strip("\n"),
        "fast": request.fast.strip("\n"),
        "speedup": f"{request.speedup:.4g}",
        "moved": _lines(request.moved, "None were reported."),
    }


def _device(problem: ProblemFacts) -> dict[str, str]:
    return {
        "dialect": problem.dialect,
        "device": problem.device,
        "device_facts": _lines(problem.device_facts, "Not known."),
    }


def _coding(problem: ProblemFacts) -> dict[str, str]:
    if problem.dialect not in _RULES:
        raise ConfigError(
            f"there are no coding rules for the dialect {problem.dialect!r}",
            hint=f"one of {', '.join(_RULES)}",
        )
    numbered = (f"{number}. {line}" for number, line in enumerate(problem.arguments, start=1))
    return {
        "nki_facts": load_text("nki_facts.md"),
        "dialect_rules": load_text(_RULES[problem.dialect]),
        "reference_source": problem.reference_source.strip("\n"),
        "arguments": _lines(numbered, "No arguments."),
        "output_shape": str(tuple(problem.output_shape)),
        "tolerance": repr(problem.relative_l2_tolerance),
    }


def _lessons(experiences: Iterable[OfferedExperience]) -> str:
    texts = []
    for lesson in experiences:
        heading = f"## {lesson.title or 'Lesson'} (speedup {lesson.speedup:.4g})"
        texts.append(f"{heading}\n\n{lesson.strategy.strip()}")
    return "\n\n".join(texts) or "None yet."


def _finding(finding: Diagnostic) -> str:
    where = "" if finding.line is None else f" (line {finding.line}"
    if finding.line is not None:
        where += ")" if finding.column is None else f", column {finding.column})"
    text = f"- {finding.severity} {finding.rule}{where}: {finding.message}"
    if finding.required is not None:
        text += f"; asked for {finding.required}"
    if finding.limit is not None:
        text += f"; allowed {finding.limit}"
    return f"{text}\n  hint: {finding.hint}" if finding.hint else text


def _lines(lines: Iterable[str], otherwise: str) -> str:
    return "\n".join(lines) or otherwise
