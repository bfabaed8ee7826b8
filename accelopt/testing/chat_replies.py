"""What a scripted chat server can answer: good replies, and the ways in which servers fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Text:
    """A completion.

    Attributes:
        text: the content; None is sent as `null` (as beside a refusal).
        prompt_tokens: reported as used by the prompt.
        completion_tokens: reported as used by the answer.
        finish_reason: for example `stop` or `length`.
        reasoning: the model's thoughts in a field of their own; empty sends none.
        reasoning_field: `reasoning_content` (DeepSeek, llama.cpp) or `reasoning` (vLLM, Ollama).
        refusal: what the model says instead of an answer; None sends no such field.
        delay_s: seconds until the answer starts.
    """

    text: str | None
    prompt_tokens: int = 1
    completion_tokens: int = 1
    finish_reason: str = "stop"
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    refusal: str | None = None
    delay_s: float = 0.0


@dataclass(frozen=True)
class Status:
    """An HTTP error.

    Attributes:
        status: the HTTP status.
        message: of the error body.
        retry_after: value of a `Retry-After` header; None sends none.
        code: the error's own code, for example `insufficient_quota`.
        headers: further headers.
    """

    status: int
    message: str = "scripted failure"
    retry_after: str | float | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """Nothing at all, until the client gives up or the server closes."""


@dataclass(frozen=True)
class Cut:
    """A reply that breaks off: half a body, or some stream events without an end.

    Attributes:
        text: what is sent of the content.
        clean: a stream ends as if all was well (a proxy closed it) instead of in the middle of
            its transfer encoding (the server died). Without streaming it makes no difference.
    """

    text: str = "half of an ans"
    clean: bool = True


@dataclass(frozen=True)
class Dribble:
    """A completion sent one byte at a time.

    Attributes:
        interval_s: seconds between two bytes.
        text: the content.
    """

    interval_s: float = 0.05
    text: str = "at long last"


@dataclass(frozen=True)
class MalformedJson:
    """Status 200 and a body (or a stream event) that is no JSON."""


@dataclass(frozen=True)
class EmptyChoices:
    """Status 200 and `choices: []`."""


@dataclass(frozen=True)
class NullChoices:
    """Status 200 and `choices: null`."""


@dataclass(frozen=True)
class Html:
    """Status 200 and a web page, as a proxy's login page."""


@dataclass(frozen=True)
class ErrorInBody:
    """Status 200, and the error stands in the body or in a stream event.

    Attributes:
        message: of the error.
        code: its code, mostly an HTTP status.
    """

    message: str = "the engine died"
    code: int | str | None = 500


Reply = (
    Text
    | Status
    | Hang
    | Cut
    | Dribble
    | MalformedJson
    | EmptyChoices
    | NullChoices
    | Html
    | ErrorInBody
)


def completion(model: str, reply: Text) -> dict[str, Any]:
    """The body of a completion."""
    choice = {"index": 0, "message": _message(reply), "finish_reason": reply.finish_reason}
    return _envelope("chat.completion", model, [choice]) | {"usage": _usage(reply)}


def events(model: str, reply: Text, *, usage: bool) -> list[dict[str, Any]]:
    """The events of a streamed completion: role, pieces, finish reason, usage when asked for."""
    message = _message(reply)
    message.pop("role")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name, value in sorted(message.items(), key=lambda item: item[0] == "content"):
        if value is not None:
            deltas += [{name: piece} for piece in pieces(value)]
    chunks = [chunk(model, [_choice(delta)]) for delta in deltas]
    chunks.append(chunk(model, [_choice({}, reply.finish_reason)]))
    if usage:
        chunks.append(chunk(model, []) | {"usage": _usage(reply)})
    return chunks


def cut_events(model: str, text: str) -> list[dict[str, Any]]:
    """The events of a stream that breaks off."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": p} for p in pieces(text))]
    return [chunk(model, [_choice(delta)]) for delta in deltas]


def chunk(model: str, choices: list[dict[str, Any]] | None) -> dict[str, Any]:
    """One stream event."""
    return _envelope("chat.completion.chunk", model, choices)


def pieces(text: str, size: int = 7) -> list[str]:
    """The text in pieces of `size` characters, as tokens arrive."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def error_body(message: str, code: int | str | None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": "scripted", "param": None, "code": code}}


def _message(reply: Text) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message[reply.reasoning_field] = reply.reasoning
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    return message


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _envelope(kind: str, model: str, choices: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 1, "model": model, "choices": choices}


def _usage(reply: Text) -> dict[str, int]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
