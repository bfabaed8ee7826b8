"""One model call over the wire: throttled, timed, retried, its failures counted, its cost known."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from accelopt.budget import Budget
from accelopt.errors import BudgetExhaustedError, ChatError, ConfigError
from accelopt.journal import Answer, Journal
from accelopt.models import Member
from accelopt.prices import Price
from accelopt.prompts.render import RenderedPrompt, Request
from accelopt.secrets import redact
from accelopt.tokens import estimated_tokens
from accelopt_graphs.answers import answer_of
from accelopt_graphs.deadline import call_within
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.messages import messages
from accelopt_graphs.model_errors import (
    CallFailedError,
    failure_kind,
    judge,
    one_line,
    refuses_temperature,
    retry_after_s,
)
from accelopt_graphs.stopping import RunStoppedError, StopSignal
from accelopt_graphs.throttle import Throttle

_LONGEST_BACKOFF_S = 60.0
_LONGEST_RETRY_AFTER_S = 3600.0
"""A server that asks for more is as good as gone; the call fails and the run goes on."""


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """How calls are made.

    Attributes:
        timeout_s: of one call, from its start to its last byte.
        retries: of a call that failed for a passing reason.
        concurrency: calls at once, per model.
        requests_per_minute: calls that may start per minute, per model; None does not count.
        first_delay_s: before the first retry; doubles with each.
    """

    timeout_s: float = 600.0
    retries: int = 3
    concurrency: int = 8
    requests_per_minute: float | None = None
    first_delay_s: float = 0.5


class ModelCalls:
    """Makes the calls of a run.

    Args:
        policy: how.
        budget: admits calls.
        prices: by model label; None where a price is not known.
        journal: where failures are counted.
        events: who hears of failures.
        stop: looked at while waiting.
    """

    def __init__(
        self,
        *,
        policy: CallPolicy,
        budget: Budget,
        prices: Mapping[str, Price | None],
        journal: Journal,
        events: EventHub,
        stop: StopSignal,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._prices = prices
        self._journal = journal
        self._events = events
        self._stop = stop
        self._lock = threading.Lock()
        self._throttles: dict[str, Throttle] = {}
        self._without_temperature: dict[str, BaseChatModel] = {}

    def call(
        self, slot: str, request: Request, prompt: RenderedPrompt, member: Member, iteration: int
    ) -> Answer:
        """The model's answer; the caller journals it.

        Raises:
            CallFailedError: the call failed for good.
            BudgetExhaustedError: the run can't pay for it.
            ChatError: the server refuses the run.
            RunStoppedError: the run is to end.
        """
        price = self._prices.get(member.label)
        expected = estimated_tokens(prompt.system + prompt.user)
        usage_key = f"{request.role}/{member.label}"
        throttle = self._throttle(member.label)
        # Seeded by the slot, so that calls which failed together do not come back together.
        jitter = random.Random(slot)
        delay_s = self._policy.first_delay_s
        attempt = 0
        while True:
            model = member.model
            try:
                with (
                    throttle.slot(self._stop),
                    self._budget.call(usage_key, price, expected, self._stop.check) as settle,
                ):
                    # Only now: while this call waited, another may have learned more.
                    model = self._without_temperature.get(member.label, member.model)
                    message = self._invoke(model, request, prompt)
                    answer = answer_of(
                        message,
                        model,
                        role=request.role,
                        label=member.label,
                        prompt=prompt,
                        price=price,
                    )
                    settle(answer.input_tokens, answer.output_tokens, answer.cost_usd)
                    return answer
            except (RunStoppedError, AssertionError, BudgetExhaustedError):
                # An assertion is a broken test double or a bug; never the model's fault.
                raise
            except Exception as error:
                self._note_failure(slot, request.role, iteration, member.label, error)
                if refuses_temperature(error) and self._drop_temperature(member, model):
                    continue
                verdict = judge(error)
                if verdict == "run":
                    raise _fatal(error) from error
                asked_s = retry_after_s(error)
                hopeless = asked_s is not None and asked_s > _LONGEST_RETRY_AFTER_S
                if verdict == "call" or hopeless or attempt >= self._policy.retries:
                    text = redact(f"{request.role} call {slot}: {one_line(error)}")
                    raise CallFailedError(text) from error
                if asked_s is None:
                    wait_s = min(delay_s * (0.5 + jitter.random()), _LONGEST_BACKOFF_S)
                    self._stop.sleep(wait_s)
                else:
                    # The whole server is busy, not this call alone.
                    throttle.pause(asked_s)
                attempt += 1
                delay_s *= 2

    def _invoke(
        self, model: BaseChatModel, request: Request, prompt: RenderedPrompt
    ) -> BaseMessage:
        question = messages(request, prompt)
        seconds = self._policy.timeout_s
        invoke: Callable[[], BaseMessage] = lambda: model.invoke(question)  # noqa: E731
        # A stop waits for calls under way: their answers are paid for.
        return call_within(seconds, invoke, self._stop, grace_s=seconds)

    def _throttle(self, label: str) -> Throttle:
        with self._lock:
            if label not in self._throttles:
                self._throttles[label] = Throttle(
                    self._policy.concurrency, self._policy.requests_per_minute
                )
            return self._throttles[label]

    def _note_failure(
        self, slot: str, role: str, iteration: int, label: str, error: Exception
    ) -> None:
        kind, message = failure_kind(error), redact(one_line(error))
        self._journal.record_failure(slot, kind, message)
        self._events.emit(
            "model_call_failed",
            role=role,
            slot=slot,
            iteration=iteration,
            model=label,
            failure=kind,
            message=message,
        )

    def _drop_temperature(self, member: Member, model: BaseChatModel) -> bool:
        """Reasoning models take no temperature: ask without from now on."""
        if getattr(model, "temperature", None) is None:
            return False
        with self._lock:
            fresh = member.label not in self._without_temperature
            changed: Any = model.model_copy(update={"temperature": None})
            self._without_temperature[member.label] = changed
        if fresh:
            text = f"{member.label} takes no temperature; it is asked without from now on"
            self._events.emit("warning", message=text)
        return True


def _fatal(error: Exception) -> Exception:
    if isinstance(error, ChatError | ConfigError):
        return error
    return ChatError(
        f"the model server refuses the run: {redact(one_line(error))}",
        hint="check the key, the address and the model name, then resume the run",
    )
