"""Asks the executor for one kernel that carries out a plan."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.errors import ReplyFormatError
from accelopt.replies import ExtractedKernel, extract_reply
from accelopt_graphs.attempts import attempt_slot, save_draft, without_kernel
from accelopt_graphs.context import RunContext, candidate_ref
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.request_builders import execute_request
from accelopt_graphs.state import AttemptState


def executor(state: AttemptState, runtime: Runtime[RunContext]) -> AttemptState:
    """Write a kernel; a call that fails or replies without code end this attempt only."""
    run = runtime.context
    with run.guard():
        slot = attempt_slot(state)
        parent = run.store.candidate(state["parent"])
        request = execute_request(
            run.problem,
            parent,
            run.store.plan(state["plan"]).text,
            index=state["sample"],
            seed=run.config.seed,
            edit_mode=run.config.edit_mode,
        )

        def read(reply: str) -> ExtractedKernel:
            return extract_reply(reply, entry=run.problem.entry, parent=parent.source.text)

        try:
            found = run.chat.ask(slot, request, read, iteration=state["iteration"])
        except (CallFailedError, ReplyFormatError) as error:
            return _failed(run, state, error)
        save_draft(run, slot, 0, found)
        return AttemptState(round=0, outcome="written")  # type: ignore[typeddict-item]


def _failed(run: RunContext, state: AttemptState, error: Exception) -> AttemptState:
    candidate = without_kernel(run, state, error)
    run.store.save_candidate(candidate)
    run.events.emit(
        "evaluation_finished",
        candidate=candidate.id,
        parent=candidate.parent,
        plan=candidate.plan,
        iteration=candidate.iteration,
        status=candidate.evaluation.status.value,
        message=candidate.evaluation.diagnostics[0].message,
    )
    return AttemptState(  # type: ignore[typeddict-item]
        round=0, outcome="failed", attempts=[candidate_ref(candidate)]
    )
