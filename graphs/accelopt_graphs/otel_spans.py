"""Events of a run as spans: the run, its iterations, their model calls and evaluations.

Spans hold names, numbers and failure kinds. No message of an event is put on them but the task's
name: error messages may quote prompts, kernels and replies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from accelopt.events import Event

_NANOSECONDS = 1_000_000_000
_SERVER = re.compile(r"@https?://", re.IGNORECASE)

# How OpenTelemetry's conventions for generative AI call a provider that they name otherwise.
_PROVIDERS = {
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "azure_openai": "azure.ai.openai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}


@dataclass
class _Call:
    """A model call under way.

    Attributes:
        span: its span.
        failure: kind of its last failed try; empty without one.
    """

    span: Span
    failure: str = ""


class RunSpans:
    """Spans of one session of a run.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._run: Span | None = None
        self._iterations: dict[int, Span] = {}
        self._ended: set[int] = set()
        self._calls: dict[str, _Call] = {}
        self._evaluations: dict[str, Span] = {}
        self._now_ns = 0
        self._handlers: dict[str, Callable[[Event], None]] = {
            "run_started": self._run_started,
            "run_resumed": self._run_started,
            "iteration_started": self._iteration_started,
            "model_call_started": self._call_started,
            "model_call_failed": self._call_failed,
            "model_call_finished": self._call_finished,
            "reply_unusable": self._reply_unusable,
            "evaluation_started": self._evaluation_started,
            "evaluation_finished": self._evaluation_finished,
            "experience_added": self._experience_added,
            "beam_selected": self._beam_selected,
            "run_finished": self._run_ended,
            "run_stopped": self._run_ended,
        }

    def add(self, event: Event) -> None:
        """Take an event in; kinds that are not known are passed over."""
        self._now_ns = round(event["time_s"] * _NANOSECONDS)
        handler = self._handlers.get(event["kind"])
        if handler is not None:
            handler(event)

    def end(self) -> None:
        """End every span that is still open: the run was cut off, or its calls were."""
        for call in self._calls.values():
            _cut_off(call.span)
            if call.failure:
                call.span.set_status(StatusCode.ERROR, call.failure)
            call.span.end(self._now_ns)
        for span in self._evaluations.values():
            _cut_off(span)
            span.end(self._now_ns)
        for span in self._iterations.values():
            span.end(self._now_ns)
        self._calls, self._evaluations, self._iterations = {}, {}, {}
        if self._run is not None:
            self._run.end(self._now_ns)
            self._run = None

    def _run_started(self, event: Event) -> None:
        run = self._run_span(event)
        # Told by name where the run tells; the message of these events is the name of the task.
        told = cast(Mapping[str, Any], event)
        _set(
            run,
            {
                "accelopt.task": told.get("task", told.get("message")),
                "accelopt.backend": told.get("backend"),
                "accelopt.graph": told.get("graph"),
                "accelopt.iterations": told.get("iterations"),
                "accelopt.resumed": event["kind"] == "run_resumed",
            },
        )

    def _run_ended(self, event: Event) -> None:
        run = self._run_span(event)
        _set(run, _prefixed(event, "status", "candidate", "best_latency_us", "percent_of_peak"))
        _set(run, _prefixed(event, "cost_usd"))
        if event["kind"] == "run_finished":
            run.set_status(StatusCode.OK)
        elif event.get("status") == "failed":
            run.set_status(StatusCode.ERROR, "failed")

    def _iteration_started(self, event: Event) -> None:
        number = event.get("iteration", 0)
        self._ended.discard(number)
        span = self._parent(event)
        _set(span, _prefixed(event, "planned_evaluations", "beam"))

    def _beam_selected(self, event: Event) -> None:
        span = self._parent(event)
        names = ("beam", "candidate", "best_latency_us", "cost_usd")
        span.add_event("beam_selected", _known(_prefixed(event, *names)), self._now_ns)
        number = event.get("iteration", 0)
        if number in self._iterations:
            self._iterations.pop(number).end(self._now_ns)
            self._ended.add(number)

    def _experience_added(self, event: Event) -> None:
        values = _known(_prefixed(event, "candidate", "speedup", "status"))
        self._parent(event).add_event("experience_added", values, self._now_ns)

    def _call_started(self, event: Event) -> None:
        slot = event.get("slot", "")
        if slot in self._calls:
            before = self._calls.pop(slot).span
            _cut_off(before)
            before.end(self._now_ns)
        self._calls[slot] = _Call(self._call_span(event))

    def _call_failed(self, event: Event) -> None:
        """A try that failed; the call may go on."""
        call = self._calls.get(event.get("slot", ""))
        failure = event.get("failure", "error")
        if call is not None:
            call.failure = failure
        span = self._parent(event) if call is None else call.span
        span.add_event("model_call_failed", {"error.type": failure}, self._now_ns)

    def _call_finished(self, event: Event) -> None:
        # A journalled answer was asked for in an earlier session, and has no start here.
        call = self._calls.pop(event.get("slot", ""), None) or _Call(self._call_span(event))
        span = call.span
        _set(
            span,
            {
                **_model(event),
                "gen_ai.usage.input_tokens": event.get("input_tokens"),
                "gen_ai.usage.output_tokens": event.get("output_tokens"),
                **_prefixed(event, "cost_usd", "cached", "status"),
            },
        )
        if event.get("status") == "failed":
            failure = call.failure or "error"
            span.set_attribute("error.type", failure)
            span.set_status(StatusCode.ERROR, failure)
        span.end(self._now_ns)

    def _reply_unusable(self, event: Event) -> None:
        # Its call is over: the answer came, and could not be used.
        values = {"error.type": event.get("failure", "unusable")}
        values |= _known(_prefixed(event, "role", "slot"))
        self._parent(event).add_event("reply_unusable", values, self._now_ns)

    def _evaluation_started(self, event: Event) -> None:
        candidate = event.get("candidate", "")
        if candidate in self._evaluations:
            before = self._evaluations.pop(candidate)
            _cut_off(before)
            before.end(self._now_ns)
        self._evaluations[candidate] = self._start("evaluate", self._parent(event))

    def _evaluation_finished(self, event: Event) -> None:
        # What was known already is not judged, and has no start.
        span = self._evaluations.pop(event.get("candidate", ""), None)
        if span is None:
            span = self._start("evaluate", self._parent(event))
        names = ("candidate", "parent", "plan", "status", "latency_us", "speedup")
        _set(span, _prefixed(event, *names, "percent_of_peak", "cached"))
        # A kernel that fails is a result; the evaluation went well.
        span.end(self._now_ns)

    def _run_span(self, event: Event) -> Span:
        if self._run is None:
            self._run = self._start("accelopt run", None)
            self._run.set_attribute("accelopt.run", event["run"])
        return self._run

    def _parent(self, event: Event) -> Span:
        """The span of the event's iteration; that of the run for what lies outside of any."""
        run, number = self._run_span(event), event.get("iteration", 0)
        if number < 1 or number in self._ended:
            return run
        if number not in self._iterations:
            # A resumed run may go on in the middle of an iteration.
            span = self._start(f"iteration {number}", run)
            span.set_attribute("accelopt.iteration", number)
            self._iterations[number] = span
        return self._iterations[number]

    def _call_span(self, event: Event) -> Span:
        attributes = _model(event)
        name = " ".join(["chat", str(attributes.get("gen_ai.request.model", ""))]).strip()
        span = self._start(name, self._parent(event), SpanKind.CLIENT)
        _set(span, {"gen_ai.operation.name": "chat", **attributes})
        _set(span, _prefixed(event, "role", "slot"))
        return span

    def _start(self, name: str, parent: Span | None, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        # The context says whose child a span is; without a parent it is empty, so that somebody's
        # own span in this thread does not become one.
        context = set_span_in_context(parent) if parent is not None else Context()
        return self._tracer.start_span(name, context, kind, start_time=self._now_ns)


def _cut_off(span: Span) -> None:
    span.set_attribute("accelopt.unfinished", True)


def _model(event: Event) -> dict[str, Any]:
    """Provider and model of a call; a server's address is left out, for it may hold a password."""
    label = _SERVER.split(event.get("model", ""), maxsplit=1)[0]
    if not label:
        return {}
    provider, _, name = label.partition(":")
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": name or provider,
    }


def _prefixed(event: Event, *names: str) -> dict[str, Any]:
    """Fields of an event as attributes of ours."""
    fields = cast(Mapping[str, Any], event)
    return {f"accelopt.{name}": fields.get(name) for name in names}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _set(span: Span, values: Mapping[str, Any]) -> None:
    span.set_attributes(_known(values))
