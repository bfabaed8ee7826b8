"""Asks the fixer to repair a kernel that failed."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.errors import ReplyFormatError
from accelopt.normalize import normalized_hash
from accelopt.replies import extract_kernel
from accelopt.requests import FixRequest
from accelopt_graphs.attempts import attempt_slot, save_draft
from accelopt_graphs.context import RunContext
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.state import AttemptState


def fixer(state: AttemptState, runtime: Runtime[RunContext]) -> AttemptState:
    """One repair round. Without a new kernel the attempt ends with what it has."""
    run = runtime.context
    with run.guard():
        slot, round_ = attempt_slot(state), state["round"]
        failed = run.store.candidate(slot)
        request = FixRequest(
            problem=run.problem,
            kernel=failed.source.text,
            parent=run.store.candidate(state["parent"]).source.text,
            plan=run.store.plan(state["plan"]).text,
            status=failed.evaluation.status.value,
            diagnostics=failed.evaluation.diagnostics,
            index=round_,
            seed=run.config.seed,
        )
        try:
            answer = run.chat.ask(
                slots.fixer_slot(slot, round_ + 1), request, iteration=state["iteration"]
            )
            text = extract_kernel(answer.reply)
        except (CallFailedError, ReplyFormatError):
            return AttemptState(outcome="given_up")  # type: ignore[typeddict-item]
        if normalized_hash(text) == normalized_hash(failed.source.text):
            return AttemptState(outcome="given_up")  # type: ignore[typeddict-item]
        save_draft(run, slot, round_ + 1, text)
        return AttemptState(round=round_ + 1, outcome="written")  # type: ignore[typeddict-item]
