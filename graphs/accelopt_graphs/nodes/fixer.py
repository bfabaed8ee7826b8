"""Asks the fixer to repair a kernel that failed."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.errors import ReplyFormatError
from accelopt.replies import ExtractedKernel, extract_reply
from accelopt_graphs.attempts import attempt_slot, save_draft, was_tried
from accelopt_graphs.context import RunContext
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.request_builders import fix_request
from accelopt_graphs.state import AttemptState


def fixer(state: AttemptState, runtime: Runtime[RunContext]) -> AttemptState:
    """One repair round. Without a kernel that is new the attempt ends with what it has."""
    run = runtime.context
    with run.guard():
        slot, round_ = attempt_slot(state), state["round"]
        failed = run.store.candidate(slot)
        request = fix_request(
            run.problem,
            failed,
            run.store.candidate(state["parent"]),
            run.store.plan(state["plan"]).text,
            index=round_,
            seed=run.config.seed,
            edit_mode=run.config.edit_mode,
        )

        def read(reply: str) -> ExtractedKernel:
            # Edits in a repair refer to the kernel that failed.
            return extract_reply(reply, entry=run.problem.entry, parent=failed.source.text)

        try:
            found = run.chat.ask(
                slots.fixer_slot(slot, round_ + 1), request, read, iteration=state["iteration"]
            )
        except (CallFailedError, ReplyFormatError):
            return AttemptState(outcome="given_up")  # type: ignore[typeddict-item]
        if was_tried(run, slot, round_, found.source):
            return AttemptState(outcome="given_up")  # type: ignore[typeddict-item]
        run.store.save_failed_attempt(failed)
        save_draft(run, slot, round_ + 1, found)
        return AttemptState(round=round_ + 1, outcome="written")  # type: ignore[typeddict-item]
