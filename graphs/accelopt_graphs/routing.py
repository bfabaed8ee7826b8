"""Where the search goes next. Pure functions of the state and the settings."""

from __future__ import annotations

from langgraph.graph import END
from langgraph.runtime import Runtime
from langgraph.types import Send

from accelopt.evaluation import EvaluationStatus
from accelopt.slots import slot_key
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import (
    AttemptInput,
    AttemptState,
    PlannerInput,
    SearchState,
    SummaryInput,
)

_MOST_TRIED = 24
"""A candidate that stays in the beam for long must not fill its prompt with old plans."""


def to_planners(state: SearchState, runtime: Runtime[RunContext]) -> list[Send]:
    """N planner calls for every candidate of the beam."""
    return [
        Send(
            "planner",
            PlannerInput(
                iteration=state["iteration"],
                parent_index=parent_index,
                parent=ref["id"],
                index=index,
                tried=state["tried"].get(ref["id"], [])[-_MOST_TRIED:],
            ),
        )
        for parent_index, ref in enumerate(state["beam"])
        for index in range(runtime.context.config.num_plans)
    ]


def to_attempts(state: SearchState, runtime: Runtime[RunContext]) -> list[Send] | str:
    """K attempts for every plan; without plans straight on."""
    plans = sorted(state.get("plans") or [], key=lambda plan: slot_key(plan["id"]))
    return [
        Send(
            "attempt",
            AttemptInput(
                iteration=state["iteration"],
                parent=plan["parent"],
                plan=plan["id"],
                sample=sample,
            ),
        )
        for plan in plans
        for sample in range(runtime.context.config.num_samples)
    ] or "curate"


def to_summarizers(state: SearchState) -> list[Send] | str:
    """One summarizer call for every pair; without pairs straight on."""
    return [
        Send("summarizer", SummaryInput(iteration=state["iteration"], pair=pair))
        for pair in state["pairs"]
    ] or "memory"


def after_selection(state: SearchState, runtime: Runtime[RunContext]) -> str:
    """The next iteration, or the end: all are done, or too many brought no faster kernel."""
    config = runtime.context.config
    tired = config.patience > 0 and state.get("stale", 0) >= config.patience
    return "recall" if state["iteration"] < config.iterations and not tired else END


def after_executor(state: AttemptState) -> str:
    """To the judge, if there is a kernel."""
    return "evaluate" if state["outcome"] == "written" else END


def after_evaluation(state: AttemptState, runtime: Runtime[RunContext]) -> str:
    """To the fixer, if the kernel failed and rounds are left."""
    if state["status"] == EvaluationStatus.OK.value:
        return END
    return "fixer" if state["round"] < runtime.context.config.fixer_rounds else END


def after_fixer(state: AttemptState) -> str:
    """To the judge, if there is a new kernel."""
    return "evaluate" if state["outcome"] == "written" else END
