"""Why a reply can't be used."""

from __future__ import annotations

from typing import Literal

from accelopt.errors import ReplyFormatError

Reason = Literal[
    "empty",
    "refusal",
    "no_code",
    "no_function",
    "truncated",
    "reasoning_only",
    "edit_not_found",
    "edit_ambiguous",
    "edit_overlap",
    "bad_diff",
]


class UnusableReply(ReplyFormatError):  # noqa: N818 - it describes the reply
    """A reply that can't be used, with a stable code for the cause.

    The message is written so that it can be sent back to the model.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
