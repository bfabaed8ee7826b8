"""Replies that are prose: plans and lessons."""

from __future__ import annotations

from accelopt.replies import UnusableReply, refusal, strip_reasoning


def read_prose(reply: str) -> str:
    """A reply that is prose, without its reasoning.

    Raises:
        UnusableReply: it is empty, or a refusal.
    """
    text = strip_reasoning(reply).strip()
    if not text:
        raise UnusableReply("empty", "the answer is empty")
    refused = refusal(text)
    if refused is not None:
        raise UnusableReply("refusal", f"the answer is a refusal: {refused}")
    return text
