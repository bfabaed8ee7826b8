"""Model calls: looked up in the journal first, paid for at most once, written down before use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from accelopt import slots
from accelopt.errors import ReplyFormatError
from accelopt.journal import Answer, Journal
from accelopt.models import Ensemble, Role
from accelopt.prompts.render import Request, render
from accelopt.secrets import redact
from accelopt_graphs.answers import was_cut_off
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.model_calls import ModelCalls
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.outage import OutageWatch
from accelopt_graphs.recorded import RecordedAnswers
from accelopt_graphs.stopping import StopSignal

T = TypeVar("T")
Read = Callable[[str], T]
"""Takes what is needed out of a reply; raises `ReplyFormatError` when it can't."""


class ChatCaller:
    """Asks the models of a run.

    Args:
        journal: where answers are kept.
        models: one ensemble per role.
        calls: makes the calls.
        events: who hears about calls.
        stop: asked before every call.
        seed: of the run; picks the member of an ensemble that is asked in a slot.
        reasks: times a question is repeated when its answer can't be used.
        recorded: replay: the journal is the only model there is.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        models: Mapping[Role, Ensemble],
        calls: ModelCalls,
        events: EventHub,
        stop: StopSignal,
        seed: int,
        reasks: int,
        recorded: RecordedAnswers | None = None,
    ) -> None:
        self._journal = journal
        self._models = models
        self._calls = calls
        self._events = events
        self._stop = stop
        self._seed = seed
        self._reasks = reasks
        self._recorded = recorded
        self.outage = OutageWatch()

    def ask(self, slot: str, request: Request, read: Read[T], *, iteration: int) -> T:
        """What is read from the answer in a slot.

        An answer that can't be used is counted, and the question asked again in a slot of its own,
        with a word on what was wrong.

        Raises:
            CallFailedError: the call failed for good; costs a sample.
            ReplyFormatError: no answer could be used; costs a sample.
            BudgetExhaustedError: the run can't pay for it.
            ChatError: calls keep failing, or the server refuses the run.
            RunStoppedError: the run is to end.
        """
        place, question = slot, request
        for number in range(1, self._reasks + 2):
            answer = self._answer(place, question, iteration)
            try:
                return read(answer.reply)
            except ReplyFormatError as error:
                unusable = _explained(error, answer)
                self._note_unusable(place, question.role, iteration, unusable)
                if number > self._reasks:
                    raise unusable from error
            place = slots.reask_slot(slot, number)
            question = request.model_copy(update={"complaint": unusable.message})
        raise AssertionError("the last question ends with an answer or an error")

    def _answer(self, slot: str, request: Request, iteration: int) -> Answer:
        self._stop.check()
        prompt = render(request)
        known = self._journal.answer(slot, prompt.sha256)
        if known is None and self._recorded is not None:
            known = self._recorded.other_prompt(slot)
        if known is not None:
            self.outage.answered(request.role)
            self._finished(slot, request, iteration, known, cached=True)
            return known
        member = self._models[Role(request.role)].pick(self._seed, slot)
        where = {"role": request.role, "slot": slot, "iteration": iteration}
        self._events.emit("model_call_started", model=member.label, **where)
        try:
            answer = self._calls.call(slot, request, prompt, member, iteration)
        except CallFailedError as error:
            self._events.emit(
                "model_call_finished", **where, status="failed", message=redact(error.message)
            )
            self.outage.failed(request.role, error)
            raise
        answer = self._journal.record_answer(slot, prompt.sha256, answer)
        self.outage.answered(request.role)
        self._finished(slot, request, iteration, answer, cached=False)
        return answer

    def _note_unusable(self, slot: str, role: str, iteration: int, error: ReplyFormatError) -> None:
        kind = f"reply_format:{reason_of(error)}"
        self._journal.record_failure(slot, kind, error.message, once=True)
        self._events.emit(
            "reply_unusable",
            role=role,
            slot=slot,
            iteration=iteration,
            failure=kind,
            message=error.message,
        )

    def _finished(
        self, slot: str, request: Request, iteration: int, answer: Answer, *, cached: bool
    ) -> None:
        self._events.emit(
            "model_call_finished",
            role=request.role,
            slot=slot,
            iteration=iteration,
            status="ok",
            cached=cached,
            model=answer.label or None,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost_usd=answer.cost_usd,
        )


def reason_of(error: ReplyFormatError) -> str:
    """Stable code of what is wrong with a reply."""
    return str(getattr(error, "reason", "unusable"))


def _explained(error: ReplyFormatError, answer: Answer) -> ReplyFormatError:
    """The error; an answer that hit its output limit says so."""
    if not was_cut_off(answer):
        return error
    from accelopt.replies import UnusableReply

    return UnusableReply(
        "truncated", "the answer was cut off at the limit of output tokens; answer more briefly"
    )
