"""Asks the executor for one kernel that carries out a plan."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.errors import ReplyFormatError
from accelopt.replies import extract_kernel
from accelopt.requests import ExecuteRequest
from accelopt_graphs.attempts import attempt_slot, save_draft, without_kernel
from accelopt_graphs.context import RunContext, candidate_ref
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.state import AttemptState


def executor(state: AttemptState, runtime: Runtime[RunContext]) -> AttemptState:
    """Write a kernel; a call that fails or a reply without code ends this attempt only."""
    run = runtime.context
    with run.guard():
        slot = attempt_slot(state)
        request = ExecuteRequest(
            problem=run.problem,
            kernel=run.store.candidate(state["parent"]).source.text,
            plan=run.store.plan(state["plan"]).text,
            index=state["sample"],
            seed=run.config.seed,
        )
        try:
            answer = run.chat.ask(slot, request, iteration=state["iteration"])
            text = extract_kernel(answer.reply)
        except (CallFailedError, ReplyFormatError) as error:
            rule = "reply_format" if isinstance(error, ReplyFormatError) else "model_call"
            return _failed(run, state, rule, error.message)
        save_draft(run, slot, 0, text)
        return AttemptState(round=0, outcome="written")  # type: ignore[typeddict-item]


def _failed(run: RunContext, state: AttemptState, rule: str, message: str) -> AttemptState:
    candidate = without_kernel(run, state, rule, message)
    run.store.save_candidate(candidate)
    run.events.emit(
        "evaluation_finished",
        candidate=candidate.id,
        parent=candidate.parent,
        plan=candidate.plan,
        iteration=candidate.iteration,
        status=candidate.evaluation.status.value,
        message=message,
    )
    return AttemptState(  # type: ignore[typeddict-item]
        round=0, outcome="failed", attempts=[candidate_ref(candidate)]
    )
