"""ChatOpenAI for servers that only speak OpenAI's protocol; importing it is slow.

LangChain's own class keeps to what OpenAI's server sends. Read off langchain-openai 1.7: it drops
`reasoning_content`, takes a stream that breaks off for an answer, and answers `choices: []` with
an IndexError. The asynchronous calls, which nothing here makes, are left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import openai
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI

from accelopt_graphs.model_errors import CutStreamError, MalformedResponseError, ReportedError

REASONING_KEY = "reasoning_content"
"""Where the model's thoughts stand in a message's `additional_kwargs`."""

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_REFUSAL = "refusal"
_CHOICE_MARK = "model_provider"
_UNREADABLE = (AttributeError, LookupError, TypeError, ValueError)


class CompatibleChat(ChatOpenAI):
    """A chat model behind any OpenAI-compatible server.

    Attributes:
        old_token_limit: send the output limit as `max_tokens`, which is all that llama.cpp, Ollama
            and older vLLM know, instead of `max_completion_tokens`.
    """

    old_token_limit: bool = False

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """LangChain would look for this class in its own packages."""
        return False

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if self.old_token_limit and "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        try:
            return super()._generate(messages, stop, run_manager, **kwargs)
        except json.JSONDecodeError as error:
            raise MalformedResponseError(f"the server's answer is no JSON: {error}") from error

    def _create_chat_result(
        self, response: Any, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        body = _body(response)
        choices = _choices(body)
        try:
            result: ChatResult = super()._create_chat_result(response, generation_info)
        except _UNREADABLE as error:
            raise MalformedResponseError(
                f"the server's answer is no completion: {error}"
            ) from error
        for generation, choice in zip(result.generations, choices, strict=True):
            extra = generation.message.additional_kwargs
            # LangChain sets the field for every answer.
            if extra.get(_REFUSAL) is None:
                extra.pop(_REFUSAL, None)
            extra.update(_reasoning(choice["message"]))
        return result

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        events = choices = 0
        finished = False
        try:
            for chunk in super()._stream(*args, **kwargs):
                events += 1
                choices += _CHOICE_MARK in chunk.message.response_metadata
                finished = finished or _is_last(chunk)
                yield chunk
        except json.JSONDecodeError as error:
            raise MalformedResponseError(f"an event of the stream is no JSON: {error}") from error
        if not events:
            raise MalformedResponseError("the server answered with no stream of events")
        if not finished and not choices:
            raise MalformedResponseError("the stream holds no choices")
        if not finished:
            raise CutStreamError("the stream ended before the answer did")

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: Any
    ) -> ChatGenerationChunk | None:
        chunk = _with_delta(chunk)
        try:
            made: ChatGenerationChunk | None = super()._convert_chunk_to_generation_chunk(
                chunk, default_chunk_class, base_generation_info
            )
            if made is not None and chunk.get("choices"):
                delta = chunk["choices"][0]["delta"]
                made.message.additional_kwargs.update(_reasoning(delta) | _refusal(delta))
                made.message.response_metadata.setdefault(_CHOICE_MARK, "openai")
        except _UNREADABLE as error:
            raise MalformedResponseError(
                f"an event of the stream can't be read: {error}"
            ) from error
        return made


def _body(response: Any) -> dict[str, Any]:
    if isinstance(response, openai.BaseModel):
        return response.model_dump(warnings=False)
    if isinstance(response, dict):
        return response
    start = " ".join(str(response).split())[:80]
    raise MalformedResponseError(f"the server's answer is no JSON object: {start!r}")


def _choices(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The choices of an answer, each with a message.

    Raises:
        ReportedError: the body reports an error instead.
        MalformedResponseError: there is none, or one has no message.
    """
    if error := body.get("error"):
        if isinstance(error, Mapping):
            raise ReportedError(str(error.get("message") or error), error.get("code"))
        raise ReportedError(str(error))
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedResponseError("the server's answer holds no choices")
    if not all(isinstance(c, dict) and isinstance(c.get("message"), dict) for c in choices):
        raise MalformedResponseError("a choice of the server's answer has no message")
    return choices


def _reasoning(message: Mapping[str, Any]) -> dict[str, str]:
    """The thoughts, from the first field that has any: some servers send them in both."""
    for name in _REASONING_FIELDS:
        value = message.get(name)
        if isinstance(value, str) and value:
            return {REASONING_KEY: value}
    return {}


def _refusal(delta: Mapping[str, Any]) -> dict[str, str]:
    value = delta.get(_REFUSAL)
    return {_REFUSAL: value} if isinstance(value, str) and value else {}


def _with_delta(chunk: dict[str, Any]) -> dict[str, Any]:
    """The event with an empty delta in place of a missing one, as some send it with the end."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return chunk
    if isinstance(choices[0].get("delta"), dict):
        return chunk
    return {**chunk, "choices": [{**choices[0], "delta": {}}]}


def _is_last(chunk: ChatGenerationChunk) -> bool:
    if (chunk.generation_info or {}).get("finish_reason"):
        return True
    # The Responses API has no finish reason; LangChain marks its last event.
    return getattr(chunk.message, "chunk_position", None) == "last"
