"""The offline chat model: answers typed requests by rewriting kernels, without any network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ValidationError

from accelopt.errors import ChatError
from accelopt.requests import (
    REQUEST_KEY,
    ExecuteRequest,
    FixRequest,
    PlanRequest,
    parse_request,
)
from accelopt_rewriter import executor, fixer, planner, summarizer

MODEL_NAME = "rewriter"


class RewriterChatModel(BaseChatModel):
    """Plans, writes, fixes and summarizes kernels by rule.

    It reads the typed request that a message carries, never the prose, and gives the same answer
    to the same request.
    """

    @property
    def _llm_type(self) -> str:
        return MODEL_NAME

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": MODEL_NAME}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = AIMessage(
            content=answer(messages),
            usage_metadata={"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
            response_metadata={"model_name": MODEL_NAME, "finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def answer(messages: Sequence[BaseMessage]) -> str:
    """The answer to the request that the last human message carries.

    Raises:
        ChatError: there is no such request.
    """
    human = next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)
    data = None if human is None else human.additional_kwargs.get(REQUEST_KEY)
    if data is None:
        raise ChatError(
            "the rewriter was sent a message without a typed request",
            hint="it answers accelopt's agents only; use a language model for prose",
        )
    try:
        request = parse_request(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ChatError(
            f"the rewriter was sent a malformed request: {where}: {first['msg']}",
            hint="the caller and the rewriter must be of the same version",
        ) from error
    if isinstance(request, PlanRequest):
        return planner.answer(request)
    if isinstance(request, ExecuteRequest):
        return executor.answer(request)
    if isinstance(request, FixRequest):
        return fixer.answer(request)
    return summarizer.answer(request)
