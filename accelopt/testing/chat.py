"""A chat model that answers from a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from accelopt.requests import REQUEST_KEY, parse_request

Reply = str | BaseException


class UnexpectedCallError(AssertionError):
    """A scripted model was called more often than its script says."""


class ScriptedChatModel(BaseChatModel):
    """Answers with queued replies, or with what a function makes of the request.

    Calls that run at once take queued replies in the order in which they arrive; give a function
    where that matters. A reply that is an exception is raised.

    Attributes:
        calls: how many calls were made.
        prompts: text of every prompt, in the order of arrival.
        requests: the typed request of every call that carried one.
    """

    _queue: list[Reply] = PrivateAttr(default_factory=list)
    _answer: Callable[[Any], Reply] | None = PrivateAttr(default=None)
    _prompts: list[str] = PrivateAttr(default_factory=list)
    _requests: list[Any] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        answer: Callable[[Any], Reply] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._queue = list(replies)
        self._answer = answer

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return len(self._prompts)

    @property
    def prompts(self) -> list[str]:
        """Text of every prompt, in the order of arrival."""
        return list(self._prompts)

    @property
    def requests(self) -> list[Any]:
        """The typed request of every call that carried one."""
        return list(self._requests)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n\n".join(str(message.content) for message in messages)
        carried = [m.additional_kwargs[REQUEST_KEY] for m in messages if _carries(m)]
        request = parse_request(carried[-1]) if carried else None
        with self._lock:
            self._prompts.append(prompt)
            if request is not None:
                self._requests.append(request)
            if self._queue:
                reply: Reply = self._queue.pop(0)
            elif self._answer is not None:
                reply = self._answer(request)
            else:
                raise UnexpectedCallError(f"call {len(self._prompts)} is not in the script")
        if isinstance(reply, BaseException):
            raise reply
        message = AIMessage(
            content=reply,
            usage_metadata={
                "input_tokens": len(prompt.split()),
                "output_tokens": len(reply.split()),
                "total_tokens": len(prompt.split()) + len(reply.split()),
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _carries(message: BaseMessage) -> bool:
    return REQUEST_KEY in message.additional_kwargs
