"""Model calls: looked up in the journal first, retried, counted, written down before use."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from accelopt.errors import ChatError, ConfigError
from accelopt.journal import Answer, Journal
from accelopt.models import Role
from accelopt.prompts.render import RenderedPrompt, Request, render
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.messages import messages
from accelopt_graphs.model_errors import CallFailedError, judge, one_line, retry_after_s
from accelopt_graphs.stopping import StopSignal

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 60.0
_FAILED_CALLS_IN_A_ROW = 20


class ChatCaller:
    """Asks the models of a run.

    Args:
        journal: where answers are kept.
        models: one per role.
        events: who hears about calls.
        stop: asked before every call.
        retries: of a call that failed for a passing reason.
        first_delay_s: before the first retry; doubles with each.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        models: Mapping[Role, BaseChatModel],
        events: EventHub,
        stop: StopSignal,
        retries: int,
        first_delay_s: float = _FIRST_DELAY_S,
    ) -> None:
        self._journal = journal
        self._models = models
        self._events = events
        self._stop = stop
        self._retries = retries
        self._first_delay_s = first_delay_s
        self._lock = threading.Lock()
        self._failed_in_a_row: Counter[str] = Counter()
        self.succeeded = 0
        """Calls that gave an answer, journalled ones included."""
        self.last_failure = ""

    def ask(self, slot: str, request: Request, *, iteration: int) -> Answer:
        """The answer in a slot; paid for at most once.

        Raises:
            CallFailedError: the call failed for good; costs a sample.
            ChatError: calls keep failing, or the server refuses the run.
            RunStoppedError: the run is to end.
        """
        self._stop.check()
        prompt = render(request)
        known = self._journal.answer(slot, prompt.sha256)
        if known is not None:
            self._note_success(request.role)
            self._finished(slot, request, iteration, known, cached=True)
            return known
        self._events.emit("model_call_started", role=request.role, slot=slot, iteration=iteration)
        try:
            answer = self._invoke(slot, request, prompt)
        except CallFailedError as error:
            self._events.emit(
                "model_call_finished",
                role=request.role,
                slot=slot,
                iteration=iteration,
                status="failed",
                message=error.message,
            )
            self._note_failure(request.role, error)
            raise
        answer = self._journal.record_answer(slot, prompt.sha256, answer)
        self._note_success(request.role)
        self._finished(slot, request, iteration, answer, cached=False)
        return answer

    def _invoke(self, slot: str, request: Request, prompt: RenderedPrompt) -> Answer:
        model = self._models[Role(request.role)]
        # Seeded by the slot, so that calls which failed together do not come back together.
        jitter = random.Random(slot)
        delay_s = self._first_delay_s
        for attempt in range(self._retries + 1):
            try:
                return _answer(model.invoke(messages(request, prompt)), model)
            except AssertionError:
                # A broken test double or a bug; never the model's fault.
                raise
            except Exception as error:
                verdict = judge(error)
                if verdict == "run":
                    raise _fatal(error) from error
                if verdict == "call" or attempt == self._retries:
                    raise CallFailedError(
                        f"{request.role} call {slot}: {one_line(error)}"
                    ) from error
                asked_s = retry_after_s(error)
                wait_s = delay_s * (0.5 + jitter.random()) if asked_s is None else asked_s
                self._stop.sleep(min(wait_s, _LONGEST_DELAY_S))
                delay_s *= 2
        raise AssertionError("a call ends with an answer or an error")

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
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
        )

    def _note_success(self, role: str) -> None:
        with self._lock:
            self.succeeded += 1
            self._failed_in_a_row[role] = 0

    def _note_failure(self, role: str, error: CallFailedError) -> None:
        with self._lock:
            self.last_failure = error.message
            # Per role, since each may have a server of its own.
            self._failed_in_a_row[role] += 1
            broken = self._failed_in_a_row[role] >= _FAILED_CALLS_IN_A_ROW
        if broken:
            # One lost call costs a sample; an outage would use up the iterations for nothing.
            raise ChatError(
                f"{_FAILED_CALLS_IN_A_ROW} {role} calls in a row failed, the last: {error.message}",
                hint="check the model server, then resume the run",
            ) from error


def _fatal(error: Exception) -> Exception:
    if isinstance(error, ChatError | ConfigError):
        return error
    return ChatError(
        f"the model server refuses the run: {one_line(error)}",
        hint="check the key, the address and the model name, then resume the run",
    )


def _answer(message: BaseMessage, model: BaseChatModel) -> Answer:
    usage = getattr(message, "usage_metadata", None) or {}
    metadata = message.response_metadata or {}
    named = metadata.get("model_name") or getattr(model, "model_name", "") or model._llm_type
    reasoning = message.additional_kwargs.get("reasoning_content") or ""
    return Answer(
        reply=str(message.text),
        reasoning=reasoning if isinstance(reasoning, str) else "",
        model=str(named),
        input_tokens=int(usage.get("input_tokens", 0) or 0),
        output_tokens=int(usage.get("output_tokens", 0) or 0),
    )
