"""What happens in a run, as events, and who may watch.

Events are written to `events.jsonl` and handed to observers. Observers look and never touch: they
get plain data and their return value is ignored.
"""

from __future__ import annotations

from typing import Literal, NotRequired, Protocol, TypedDict

EventKind = Literal[
    "run_started",
    "run_resumed",
    "iteration_started",
    "model_call_started",
    "model_call_failed",
    "model_call_finished",
    "reply_unusable",
    "evaluation_started",
    "evaluation_finished",
    "experience_added",
    "beam_selected",
    "run_finished",
    "run_stopped",
    "warning",
]


class Event(TypedDict):
    """One event. Only the fields that apply to its kind are present."""

    kind: EventKind
    time_s: float
    """Seconds since the epoch."""
    run: str
    task: NotRequired[str]
    """Of the start of a run, as are backend and graph."""
    backend: NotRequired[str]
    graph: NotRequired[str]
    iteration: NotRequired[int]
    iterations: NotRequired[int]
    role: NotRequired[str]
    """Of a model call: planner, executor, fixer or summarizer."""
    slot: NotRequired[str]
    model: NotRequired[str]
    """Label of the model that was asked: `openai:gpt-5-mini`."""
    failure: NotRequired[str]
    """What went wrong with a call (`rate_limit`) or a reply (`reply_format:truncated`)."""
    cost_usd: NotRequired[float]
    """Of a call whose price is known; of the run so far, in events about the run."""
    candidate: NotRequired[str]
    parent: NotRequired[str]
    plan: NotRequired[str]
    status: NotRequired[str]
    latency_us: NotRequired[float]
    speedup: NotRequired[float]
    percent_of_peak: NotRequired[float]
    best_latency_us: NotRequired[float]
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    cached: NotRequired[bool]
    """The answer came from the journal; nothing was paid for."""
    planned_evaluations: NotRequired[int]
    """How many attempts this iteration will make."""
    beam: NotRequired[list[str]]
    message: NotRequired[str]


class Observer(Protocol):
    """Watches a run. Must be quick, and must not raise for an event kind it does not know."""

    def observe(self, event: Event) -> None:
        """Called once per event, from one thread at a time."""
        ...

    def close(self) -> None:
        """Called once when the run ends, however it ends."""
        ...
