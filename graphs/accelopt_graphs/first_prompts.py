"""How long the prompts of a run are: rendered from its task, with made-up plans and lessons."""

from __future__ import annotations

from accelopt import slots
from accelopt.backend import Backend
from accelopt.candidate import Candidate
from accelopt.config import RunConfig
from accelopt.cost_estimate import LESSON_TOKENS, PLAN_TOKENS, PromptSize, SearchSize
from accelopt.errors import AcceloptError
from accelopt.evaluation import Diagnostic, EvaluationStatus
from accelopt.kernel import KernelTask
from accelopt.models import Role
from accelopt.prompts.render import Request, render
from accelopt.requests import OfferedExperience
from accelopt.tokens import CHARACTERS_PER_TOKEN, estimated_tokens
from accelopt_graphs.request_builders import (
    execute_request,
    fix_request,
    plan_request,
    problem_facts,
    summarize_request,
)

_MOST_TRIED = 24
"""As many tried plans as a planner is told of."""

_TRIED_TOKENS = 60
"""First line of a tried plan, and what came of it."""

_FINDINGS = 3
"""Diagnostics of a kernel that fails."""

_FINDING_TOKENS = 60


def prompt_sizes(
    task: KernelTask, backend: Backend, config: RunConfig, size: SearchSize
) -> dict[Role, PromptSize]:
    """Tokens of each role's prompts, as a run of the task would render them.

    The baseline stands for every kernel; its profile is the backend's estimate.

    Raises:
        AcceloptError: the baseline fails on the backend.
    """
    problem = problem_facts(task, backend)
    parent = _baseline(task, backend)
    plan = _filler(PLAN_TOKENS.likely)
    seed, edit_mode = config.seed, config.edit_mode

    def planner(experiences: int, tried: int) -> Request:
        lesson = OfferedExperience(
            id="", title="", strategy=_filler(LESSON_TOKENS.likely), speedup=1.0
        )
        return plan_request(
            problem,
            parent,
            experiences=(lesson,) * experiences,
            tried=[_filler(_TRIED_TOKENS)] * tried,
            index=0,
            seed=seed,
        )

    executor = execute_request(problem, parent, plan, index=0, seed=seed, edit_mode=edit_mode)
    failed = _failing(parent)
    fixer = fix_request(problem, failed, parent, plan, index=0, seed=seed, edit_mode=edit_mode)
    summarizer = summarize_request(problem, parent, parent, speedup=1.0, seed=seed)
    later = size.iterations - 1
    lessons = min(config.memory_capacity, size.topk_experiences * later)
    grown = planner(lessons, min(_MOST_TRIED, size.num_plans * later))
    # A failing kernel is shown as a difference too, a pair of kernels with its counters: between
    # nothing and a whole kernel more.
    kernel_tokens = estimated_tokens(task.baseline.text)
    return {
        Role.PLANNER: PromptSize(first=_tokens(planner(0, 0)), grown=_tokens(grown)),
        Role.EXECUTOR: PromptSize(first=_tokens(executor), grown=_tokens(executor)),
        Role.FIXER: PromptSize(first=_tokens(fixer), grown=_tokens(fixer) + kernel_tokens),
        Role.SUMMARIZER: PromptSize(
            first=_tokens(summarizer), grown=_tokens(summarizer) + kernel_tokens
        ),
    }


def _baseline(task: KernelTask, backend: Backend) -> Candidate:
    evaluation = backend.estimate(task, task.baseline)
    if not evaluation.ok:
        findings = [finding.message for finding in evaluation.diagnostics]
        raise AcceloptError(
            f"the baseline of {task.name} fails on {backend.name} ({evaluation.status.value}): "
            + (findings[0] if findings else "no details"),
            hint="a search must start from a kernel that works",
        )
    return Candidate(id=slots.BASELINE, iteration=0, source=task.baseline, evaluation=evaluation)


def _failing(parent: Candidate) -> Candidate:
    finding = Diagnostic(rule="error", message=_filler(_FINDING_TOKENS), line=1)
    evaluation = parent.evaluation.model_copy(
        update={
            "status": EvaluationStatus.CONSTRAINT_VIOLATION,
            "diagnostics": (finding,) * _FINDINGS,
        }
    )
    return parent.model_copy(update={"id": "failing", "evaluation": evaluation})


def _filler(tokens: float) -> str:
    """A text of about so many tokens."""
    return "x" * round(tokens * CHARACTERS_PER_TOKEN)


def _tokens(request: Request) -> int:
    prompt = render(request)
    return estimated_tokens(prompt.system + prompt.user)
