"""What a model's message says, as an answer to journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from accelopt.journal import Answer
from accelopt.prices import Price
from accelopt.prompts.render import RenderedPrompt
from accelopt.tokens import estimated_tokens


def answer_of(
    message: BaseMessage,
    model: BaseChatModel,
    *,
    role: str,
    label: str,
    prompt: RenderedPrompt,
    price: Price | None,
) -> Answer:
    """The answer in a message, with what it cost."""
    metadata: Mapping[str, Any] = message.response_metadata or {}
    reply, reasoning = _storable(_reply(message)), _storable(_reasoning(message))
    usage: Mapping[str, Any] = getattr(message, "usage_metadata", None) or {}
    sent, received = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
    counted = bool(sent or received)
    if not counted:
        sent = estimated_tokens(prompt.system + prompt.user)
        received = estimated_tokens(reply + reasoning)
    named = metadata.get("model_name") or getattr(model, "model_name", "") or model._llm_type
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or ""
    return Answer(
        reply=reply,
        reasoning=reasoning,
        model=str(named),
        role=role,
        label=label,
        finish_reason=str(reason),
        input_tokens=sent,
        output_tokens=received,
        tokens_estimated=not counted,
        cost_usd=None if price is None else price.cost_usd(sent, received),
    )


def was_cut_off(answer: Answer) -> bool:
    """Whether the model stopped at its output limit."""
    return answer.finish_reason.lower() in ("length", "max_tokens", "max_output_tokens")


def _storable(text: str) -> str:
    """The text without half characters, which JSON may carry and no file or database takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _reply(message: BaseMessage) -> str:
    text = str(message.text)
    # Some servers put a refusal beside an empty content.
    refusal = message.additional_kwargs.get("refusal")
    return refusal if not text.strip() and isinstance(refusal, str) else text


def _reasoning(message: BaseMessage) -> str:
    given = message.additional_kwargs.get("reasoning_content")
    if isinstance(given, str) and given:
        return given
    if isinstance(message.content, str):
        return ""
    parts = [block for block in message.content if isinstance(block, dict)]
    texts = [part.get("thinking") or part.get("reasoning") or "" for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)
