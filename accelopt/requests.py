"""Typed requests: what each agent is asked, before it becomes text.

Every chat message carries the request it was rendered from, in
`additional_kwargs["accelopt_request"]`, so an offline model can read it instead of prose.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from accelopt.evaluation import Diagnostic

REQUEST_KEY = "accelopt_request"
"""Where a message carries its request, in `additional_kwargs`."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProblemFacts(_Frozen):
    """What every agent is told about the task, the device and the kernel language.

    The last five come from the backend (`Backend.prompt_facts`) and the task's baseline.

    Attributes:
        task: task name.
        device: device name for people.
        dialect: import root of the kernel language.
        reference_source: text of the reference file.
        arguments: one line per kernel argument, in call order: `shape dtype` or `value`.
        output_shape: of the natural output.
        relative_l2_tolerance: the tolerance that is really enforced.
        device_facts: lines of hardware limits.
        api_notes: what every kernel has to respect, and the coding rules of the dialect.
        profile_glossary: `counter: meaning` lines; several counters have commas between them.
        language: what people call the kernel language; the dialect when empty.
        entry: name of the kernel function.
    """

    task: str
    device: str
    dialect: str
    reference_source: str
    arguments: tuple[str, ...]
    output_shape: tuple[int, ...]
    relative_l2_tolerance: float
    device_facts: tuple[str, ...] = ()
    api_notes: str = ""
    profile_glossary: tuple[str, ...] = ()
    language: str = ""
    entry: str = "kernel"


EditMode = Literal["full", "edits"]
"""How a kernel is to be answered: the complete file, or edits to the kernel in the prompt."""


class OfferedExperience(_Frozen):
    """One lesson as a planner sees it."""

    id: str
    title: str
    strategy: str
    speedup: float


class PlanRequest(_Frozen):
    """Ask the planner for one plan with one step.

    Attributes:
        problem: task and device.
        kernel: source of the candidate.
        latency_us: its latency.
        profile: `name: value` lines in a seeded order.
        bottleneck: what bounds it and where the time goes; may be empty.
        line_facts: short facts by source line.
        experiences: retrieved lessons.
        tried: plans already tried on this candidate, first line each.
        index: which of the N plans this is. Not part of the text.
        seed: of the run. Not part of the text.
        complaint: why the previous answer to this request could not be used; empty at first.
    """

    role: Literal["planner"] = "planner"
    problem: ProblemFacts
    kernel: str
    latency_us: float
    profile: tuple[str, ...]
    bottleneck: str = ""
    line_facts: dict[int, str] = {}
    experiences: tuple[OfferedExperience, ...] = ()
    tried: tuple[str, ...] = ()
    index: int = 0
    seed: int = 0
    complaint: str = ""


class ExecuteRequest(_Frozen):
    """Ask the executor for a kernel that carries out a plan.

    Attributes:
        problem: task and device.
        kernel: source of the parent.
        plan: the plan, as the planner wrote it.
        edit_mode: how to answer.
        index: which of the K samples this is. Not part of the text.
        seed: of the run. Not part of the text.
        complaint: why the previous answer to this request could not be used; empty at first.
    """

    role: Literal["executor"] = "executor"
    problem: ProblemFacts
    kernel: str
    plan: str
    edit_mode: EditMode = "full"
    index: int = 0
    seed: int = 0
    complaint: str = ""


class FixRequest(_Frozen):
    """Ask the fixer for a repaired kernel.

    Attributes:
        problem: task and device.
        kernel: source that failed.
        parent: source it was derived from.
        plan: the plan it was meant to carry out.
        status: evaluation status.
        diagnostics: findings, errors first.
        edit_mode: how to answer; edits refer to the kernel that failed.
        index: repair round, from 0. Not part of the text.
        seed: of the run. Not part of the text.
        complaint: why the previous answer to this request could not be used; empty at first.
    """

    role: Literal["fixer"] = "fixer"
    problem: ProblemFacts
    kernel: str
    parent: str
    plan: str
    status: str
    diagnostics: tuple[Diagnostic, ...]
    edit_mode: EditMode = "full"
    index: int = 0
    seed: int = 0
    complaint: str = ""


class SummarizeRequest(_Frozen):
    """Ask the summarizer for the lesson in a slow-fast pair.

    Attributes:
        problem: task and device.
        slow: source before.
        fast: source after.
        speedup: slow latency / fast latency.
        moved: counters that changed, `name: before -> after` lines.
        seed: of the run. Not part of the text.
        complaint: why the previous answer to this request could not be used; empty at first.
    """

    role: Literal["summarizer"] = "summarizer"
    problem: ProblemFacts
    slow: str
    fast: str
    speedup: float
    moved: tuple[str, ...] = ()
    seed: int = 0
    complaint: str = ""


AgentRequest = Annotated[
    PlanRequest | ExecuteRequest | FixRequest | SummarizeRequest, Field(discriminator="role")
]

_ADAPTER: TypeAdapter[PlanRequest | ExecuteRequest | FixRequest | SummarizeRequest] = TypeAdapter(
    AgentRequest
)


def parse_request(
    data: object,
) -> PlanRequest | ExecuteRequest | FixRequest | SummarizeRequest:
    """Rebuild a request from the plain data a message carries.

    Raises:
        pydantic.ValidationError: the data is not a request.
    """
    return _ADAPTER.validate_python(data)
