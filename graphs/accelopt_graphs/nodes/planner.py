"""Asks the planner for one plan for one candidate."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.candidate import Plan
from accelopt.errors import ReplyFormatError
from accelopt_graphs.context import RunContext
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.prose import read_prose
from accelopt_graphs.request_builders import plan_request
from accelopt_graphs.state import PlannerInput, PlanRef, SearchState, TriedRef


def planner(state: PlannerInput, runtime: Runtime[RunContext]) -> SearchState:
    """One plan; a call that fails costs this plan and nothing else."""
    run = runtime.context
    with run.guard():
        slot = slots.plan_slot(state["iteration"], state["parent_index"], state["index"])
        parent = run.store.candidate(state["parent"])
        request = plan_request(
            run.problem,
            parent,
            experiences=run.memory.offered(
                slots.retrieval_slot(state["iteration"], state["parent_index"])
            ),
            tried=tuple(_tried_line(run, tried) for tried in state["tried"]),
            index=state["index"],
            seed=run.config.seed,
        )
        try:
            text = run.chat.ask(slot, request, read_prose, iteration=state["iteration"])
        except (CallFailedError, ReplyFormatError):
            return SearchState(plans=[])
        run.store.save_plan(Plan(id=slot, parent=parent.id, text=text))
        return SearchState(plans=[PlanRef(id=slot, parent=parent.id)])


def _tried_line(run: RunContext, tried: TriedRef) -> str:
    lines = run.store.plan(tried["plan"]).text.strip().splitlines()
    return f"{lines[0][:200]} ({tried['outcome']})" if lines else tried["outcome"]
