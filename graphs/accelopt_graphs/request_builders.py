"""Typed requests from candidates: pure functions, so that equal candidates give equal requests."""

from __future__ import annotations

import random
from collections.abc import Iterable

from accelopt.backend import Backend
from accelopt.candidate import Candidate
from accelopt.entry_point import find_entry
from accelopt.errors import TaskError
from accelopt.evaluation import Profile
from accelopt.kernel import KernelSource, KernelTask
from accelopt.requests import (
    EditMode,
    ExecuteRequest,
    FixRequest,
    OfferedExperience,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
)

_HEADLINE_CHARACTERS = 200
"""As much of a plan's first line as the list of tried plans keeps."""


def problem_facts(task: KernelTask, backend: Backend) -> ProblemFacts:
    """What every agent is told about the task, the device and the kernel language.

    Raises:
        ConfigError: the backend knows nothing about the dialect.
    """
    dialect = task.baseline.dialect.value
    facts = backend.prompt_facts(dialect)
    return ProblemFacts(
        task=task.name,
        device=backend.device.title,
        dialect=dialect,
        reference_source=task.reference_source,
        arguments=tuple(
            f"{argument.shape} {argument.dtype}" if argument.value is None else repr(argument.value)
            for argument in task.arguments
        ),
        output_shape=task.output_shape,
        relative_l2_tolerance=task.relative_l2_tolerance,
        device_facts=facts.hardware_limits,
        api_notes=facts.api_notes,
        profile_glossary=tuple(
            f"{names}: {meaning}" for names, meaning in facts.profile_glossary.items()
        ),
        language=facts.language,
        entry=entry_of(task.baseline),
    )


def entry_of(source: KernelSource) -> str:
    """Name of a kernel's function; `kernel` where the file leaves it open."""
    try:
        return source.entry or find_entry(source.text)
    except TaskError:
        # What is wrong with the kernel is for the judge to say.
        return "kernel"


def plan_request(
    problem: ProblemFacts,
    parent: Candidate,
    *,
    experiences: tuple[OfferedExperience, ...],
    tried: Iterable[str],
    index: int,
    seed: int,
) -> PlanRequest:
    """Ask for a plan for a candidate.

    Args:
        problem: task and device.
        parent: the candidate; its evaluation gives the profile.
        experiences: retrieved lessons.
        tried: texts of the plans already tried on it; their first lines are told.
        index: which of the N plans this is.
        seed: of the run.
    """
    evaluation = parent.evaluation
    return PlanRequest(
        problem=problem,
        kernel=parent.source.text,
        latency_us=evaluation.latency_us or 0.0,
        profile=_profile_lines(parent, seed),
        bottleneck=_bottleneck(parent),
        line_facts=evaluation.line_facts,
        experiences=experiences,
        tried=tuple(_first_line(plan) for plan in tried),
        index=index,
        seed=seed,
    )


def execute_request(
    problem: ProblemFacts,
    parent: Candidate,
    plan_text: str,
    *,
    index: int,
    seed: int,
    edit_mode: EditMode = "full",
) -> ExecuteRequest:
    """Ask for a kernel that carries out a plan for a candidate; `index` counts the K samples."""
    return ExecuteRequest(
        problem=problem,
        kernel=parent.source.text,
        plan=plan_text,
        edit_mode=edit_mode,
        index=index,
        seed=seed,
    )


def fix_request(
    problem: ProblemFacts,
    failed: Candidate,
    parent: Candidate,
    plan_text: str,
    *,
    index: int,
    seed: int,
    edit_mode: EditMode = "full",
) -> FixRequest:
    """Ask for a repaired kernel; `index` counts the repair rounds, from 0."""
    return FixRequest(
        problem=problem,
        kernel=failed.source.text,
        parent=parent.source.text,
        plan=plan_text,
        status=failed.evaluation.status.value,
        diagnostics=failed.evaluation.diagnostics,
        edit_mode=edit_mode,
        index=index,
        seed=seed,
    )


def summarize_request(
    problem: ProblemFacts, slow: Candidate, fast: Candidate, *, speedup: float, seed: int
) -> SummarizeRequest:
    """Ask for the lesson in a slow-fast pair."""
    return SummarizeRequest(
        problem=problem,
        slow=slow.source.text,
        fast=fast.source.text,
        speedup=speedup,
        moved=_moved(slow, fast),
        seed=seed,
    )


def _counters(profile: Profile | None) -> dict[str, float]:
    if profile is None:
        return {}
    # The latency has a line of its own in the prompt.
    return profile.model_dump(exclude_none=True, exclude={"latency_us", "other"})


def _profile_lines(candidate: Candidate, seed: int) -> tuple[str, ...]:
    """`name: value` lines, in an order of their own per candidate: no counter always leads."""
    lines = [
        f"{name}: {value!r}" for name, value in _counters(candidate.evaluation.profile).items()
    ]
    random.Random(f"{seed}:{candidate.id}").shuffle(lines)
    return tuple(lines)


def _bottleneck(candidate: Candidate) -> str:
    evaluation = candidate.evaluation
    parts = [f"The latency is bound by: {evaluation.bound}."] if evaluation.bound else []
    suffix = "_active_time_percent"
    shares = {
        name.removesuffix(suffix).removesuffix("_engine"): value
        for name, value in _counters(evaluation.profile).items()
        if name.endswith(suffix)
    }
    if shares:
        ranked = sorted(shares.items(), key=lambda share: (-share[1], share[0]))
        busy = ", ".join(f"{name} {100 * value:.1f} %" for name, value in ranked)
        parts.append(f"Busy share of the run: {busy}.")
    return "\n\n".join(part for part in (" ".join(parts), evaluation.explanation) if part)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:_HEADLINE_CHARACTERS] if text.strip() else ""


def _moved(slow: Candidate, fast: Candidate) -> tuple[str, ...]:
    before, after = slow.evaluation.profile, fast.evaluation.profile
    if before is None or after is None:
        return ()
    old, new = before.model_dump(exclude_none=True), after.model_dump(exclude_none=True)
    return tuple(
        f"{name}: {old[name]!r} -> {new[name]!r}"
        for name in old
        if name in new and old[name] != new[name]
    )
