"""What went wrong with a model call: a passing thing, this call's own fault, or a reason to end."""

from __future__ import annotations

from typing import Literal

from accelopt.errors import BudgetExhaustedError, ChatError, ConfigError

Verdict = Literal["passing", "call", "run"]

_PASSING_STATUS = frozenset({408, 409, 425, 429})
_RUN_STATUS = frozenset({401, 403, 404})
_PASSING_NAMES = ("timeout", "connection", "connect", "ratelimit", "overloaded", "protocol")


class CallFailedError(ChatError):
    """One model call failed, after its retries; costs a sample, not the run."""


def judge(error: Exception) -> Verdict:
    """Whether to try again (`passing`), give the call up (`call`) or the run (`run`).

    Client libraries share no base class, so this goes by HTTP status, then by kind.
    """
    if isinstance(error, BudgetExhaustedError | ConfigError):
        return "run"
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        if status in _RUN_STATUS:
            return "run"
        return "passing" if status in _PASSING_STATUS or status >= 500 else "call"
    if isinstance(error, OSError | TimeoutError):
        return "passing"
    name = type(error).__name__.lower()
    if any(part in name for part in _PASSING_NAMES):
        return "passing"
    # A body that is no JSON, or not the JSON that was promised: most often a proxy's hiccup.
    # Clients let it surface as any of these.
    if isinstance(error, ValueError | TypeError | KeyError) or "validation" in name:
        return "passing"
    return "call"


def retry_after_s(error: Exception) -> float | None:
    """How long the server asks us to wait; None when it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        return None


def one_line(error: BaseException) -> str:
    """The error for people."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}"[:500] if first else type(error).__name__
