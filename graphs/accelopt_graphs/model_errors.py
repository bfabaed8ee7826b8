"""What went wrong with a model call: a passing thing, this call's own fault, or a reason to end."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from accelopt.errors import BudgetExhaustedError, ChatError, ConfigError

Verdict = Literal["passing", "call", "run"]

FailureKind = Literal[
    "rate_limit",
    "server_error",
    "timeout",
    "connection",
    "cut_stream",
    "malformed_response",
    "request_refused",
    "authentication",
    "not_found",
    "other",
]

_VERDICTS: Mapping[FailureKind, Verdict] = {
    "rate_limit": "passing",
    "server_error": "passing",
    "timeout": "passing",
    "connection": "passing",
    "cut_stream": "passing",
    # Most often a proxy's hiccup.
    "malformed_response": "passing",
    "request_refused": "call",
    "authentication": "run",
    "not_found": "run",
    "other": "call",
}
_KIND_OF_STATUS: Mapping[int, FailureKind] = {
    401: "authentication",
    403: "authentication",
    404: "not_found",
    408: "timeout",
    429: "rate_limit",
}
_PASSING_REFUSALS = frozenset({409, 425})
# Order matters: a time-out is often a kind of connection error.
_KIND_OF_NAME: tuple[tuple[str, FailureKind], ...] = (
    ("timeout", "timeout"),
    ("ratelimit", "rate_limit"),
    ("throttl", "rate_limit"),
    ("overloaded", "rate_limit"),
    ("connect", "connection"),
    ("protocol", "connection"),
    ("validation", "malformed_response"),
)
# How httpx and its kin say that a body ended too soon.
_CUT_BODY = ("incomplete", "without sending complete", "ended prematurely")
_NO_QUOTA = "insufficient_quota"
_REFUSES_TEMPERATURE = re.compile(
    r"not\s+support|unsupported|only\s+the\s+default|may\s+only\s+be\s+set|deprecated"
    r"|not\s+(allowed|permitted|available|compatible)|unknown|unrecognized|extra\s+inputs",
    re.IGNORECASE,
)


class CallFailedError(ChatError):
    """One model call failed, after its retries; costs a sample, not the run."""


class CutStreamError(ConnectionError):
    """A streamed answer ended before its finish reason: part of it is missing."""


class MalformedResponseError(ValueError):
    """The server answered with something that is no completion."""


class ReportedError(RuntimeError):
    """The server reported an error inside an answer with status 200.

    Attributes:
        code: as the server gave it; mostly an HTTP status.
    """

    def __init__(self, message: str, code: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code


def judge(error: Exception) -> Verdict:
    """Whether to try again (`passing`), give the call up (`call`) or the run (`run`)."""
    if isinstance(error, BudgetExhaustedError | ConfigError):
        return "run"
    if getattr(error, "code", None) == _NO_QUOTA:
        # OpenAI says it with 429, but no waiting fills an account.
        return "run"
    if _status(error) in _PASSING_REFUSALS:
        return "passing"
    return _VERDICTS[failure_kind(error)]


def failure_kind(error: BaseException) -> FailureKind:
    """What happened, for people and for counting.

    Client libraries share no base class, so this goes by HTTP status, then by kind and name of
    the error and of those that caused it.
    """
    status = _status(error)
    if status is not None:
        default: FailureKind = "server_error" if status >= 500 else "request_refused"
        return _KIND_OF_STATUS.get(status, default)
    causes = tuple(_causes(error))
    if any(_is_cut(cause) for cause in causes):
        return "cut_stream"
    for cause in causes:
        kind = _kind_by_type(cause)
        if kind != "other":
            return kind
    return "other"


def refuses_temperature(error: BaseException) -> bool:
    """Whether the request was refused (status 400) since the model takes no temperature."""
    text = str(error)
    return (
        _status(error) == 400
        and "temperature" in text.lower()
        and _REFUSES_TEMPERATURE.search(text) is not None
    )


def retry_after_s(error: BaseException) -> float | None:
    """Seconds that the server asks us to wait; None when it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    return _seconds_until(value, headers.get("date")) if seconds is None else seconds


def one_line(error: BaseException) -> str:
    """The error for people."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}"[:500] if first else type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, outermost first."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP error status, wherever the client library keeps it."""
    for cause in _causes(error):
        response: Any = getattr(cause, "response", None)
        if isinstance(response, Mapping):  # botocore
            in_response = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            in_response = getattr(response, "status_code", None)
        known = (getattr(cause, "status_code", None), getattr(cause, "code", None), in_response)
        for value in known:
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            if isinstance(number, int) and 400 <= number < 600:
                return int(number)
    return None


def _is_cut(error: BaseException) -> bool:
    if isinstance(error, CutStreamError):
        return True
    named = type(error).__name__.lower()
    return ("protocol" in named or "incomplete" in named) and any(
        part in str(error).lower() for part in _CUT_BODY
    )


def _kind_by_type(error: BaseException) -> FailureKind:
    if isinstance(error, TimeoutError):
        return "timeout"
    name = type(error).__name__.lower()
    for part, kind in _KIND_OF_NAME:
        if part in name:
            return kind
    if isinstance(error, OSError):
        return "connection"
    # A body that is no JSON, or not the JSON that was promised; clients let it surface as any
    # of these.
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
        return "malformed_response"
    # An error event in the middle of a stream has no status of its own.
    return "server_error" if name == "apierror" or isinstance(error, ReportedError) else "other"


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _seconds_until(date: object, server_date: object) -> float | None:
    """Seconds until an HTTP date by the server's clock, else by ours; None when it is past."""
    then = _timestamp(date)
    if then is None:
        return None
    now = _timestamp(server_date)
    seconds = then - (time.time() if now is None else now)
    return seconds if seconds >= 0 else None


def _timestamp(date: object) -> float | None:
    try:
        return parsedate_to_datetime(str(date)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
