"""Where the search goes next. Pure functions of the state and the settings."""

from __future__ import annotations

from collections.abc import Callable

from langgraph.graph import END
from langgraph.runtime import Runtime
from langgraph.types import Send

from accelopt.config import RunConfig
from accelopt.evaluation import EvaluationStatus
from accelopt.slots import slot_key
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import (
    AttemptInput,
    AttemptState,
    CandidateRef,
    PlannerInput,
    SearchState,
    SummaryInput,
)

_MOST_TRIED = 24
"""A candidate that stays in the beam for long must not fill its prompt with old plans."""


def from_start_to(first: str) -> Callable[[SearchState], str]:
    """The way from the start: a fork goes on with the beam it was given, at `first`; else the
    baseline is judged."""

    def from_start(state: SearchState) -> str:
        return first if state.get("beam") else "baseline"

    return from_start


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
    config = runtime.context.config
    bar_us = beam_bar_us(state["beam"], config.beam_width)
    learns = config.topk_experiences > 0
    return _attempts(state, config.num_samples, bar_us, learns=learns) or "curate"


def to_samples(state: SearchState, runtime: Runtime[RunContext]) -> list[Send] | str:
    """K attempts for every plan, of which only a faster kernel than the best so far matters."""
    bar_us = state["best"]["latency_us"]
    samples = runtime.context.config.num_samples
    return _attempts(state, samples, bar_us, learns=False) or "keep_best"


def _attempts(
    state: SearchState, samples: int, bar_us: float | None, *, learns: bool
) -> list[Send]:
    plans = sorted(state.get("plans") or [], key=lambda plan: slot_key(plan["id"]))
    return [
        Send(
            "attempt",
            AttemptInput(
                iteration=state["iteration"],
                parent=plan["parent"],
                plan=plan["id"],
                sample=sample,
                bar_us=bar_us,
                learns=learns,
            ),
        )
        for plan in plans
        for sample in range(samples)
    ]


def beam_bar_us(beam: list[CandidateRef], width: int) -> float | None:
    """Latency that a child must stay below to enter the next beam; None while there is room.

    Parents compete with children and win ties, so what is not faster than the slowest of a full
    beam can't get in, whatever else the iteration brings.
    """
    latencies = [ref["latency_us"] for ref in beam if ref["latency_us"] is not None]
    return max(latencies) if len(latencies) >= width else None


def to_summarizers(state: SearchState) -> list[Send] | str:
    """One summarizer call for every pair; without pairs straight on."""
    return [
        Send("summarizer", SummaryInput(iteration=state["iteration"], pair=pair))
        for pair in state["pairs"]
    ] or "memory"


def after_selection(state: SearchState, runtime: Runtime[RunContext]) -> str:
    """The next iteration, or the end."""
    return END if is_over(state, runtime.context.config) else "recall"


def after_round(state: SearchState, runtime: Runtime[RunContext]) -> str:
    """The next round of best-of-n, or the end."""
    return END if is_over(state, runtime.context.config) else "draw"


def is_over(state: SearchState, config: RunConfig) -> bool:
    """All iterations are done, or too many brought no faster kernel."""
    tired = config.patience > 0 and state.get("stale", 0) >= config.patience
    return state["iteration"] >= config.iterations or tired


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
