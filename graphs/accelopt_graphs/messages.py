"""Requests as LangChain messages that carry the request they were rendered from."""

from __future__ import annotations

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from accelopt.prompts.render import RenderedPrompt, Request, render
from accelopt.requests import REQUEST_KEY


def messages(request: Request, prompt: RenderedPrompt | None = None) -> list[BaseMessage]:
    """A system and a human message; the human message carries the request as plain data."""
    text = render(request) if prompt is None else prompt
    return [
        SystemMessage(content=text.system),
        HumanMessage(
            content=text.user,
            additional_kwargs={REQUEST_KEY: request.model_dump(mode="json")},
        ),
    ]
