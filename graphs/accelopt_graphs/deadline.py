"""A bound on the whole of a call, for calls that can't be cancelled."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from accelopt_graphs.stopping import RunStoppedError, StopSignal

T = TypeVar("T")

_LOOK_UP_S = 0.1


class CallTimeoutError(TimeoutError):
    """A call took longer than it may."""


def call_within(
    seconds: float, function: Callable[[], T], stop: StopSignal, *, grace_s: float = 0.0
) -> T:
    """What `function` gives, when it does so in time.

    A client's own time-out bounds the silence between two bytes, so a server that dribbles can
    hold a call for ever. The function runs in a daemon thread with the caller's context variables;
    when the time is over the thread is left to itself, and what it still gives is dropped.

    Args:
        seconds: how long it may take.
        function: the call; what it raises comes out unchanged.
        stop: looked at while waiting.
        grace_s: how long the call may still take once a stop is asked for, so that an answer that
            is already paid for is not lost.

    Raises:
        CallTimeoutError: it took longer.
        RunStoppedError: the run is to end, and the grace is over.
    """
    stop.check()
    call = _Call(function)
    deadline_s = time.monotonic() + seconds
    stopped_s: float | None = None
    while not call.done.is_set():
        now_s = time.monotonic()
        if stopped_s is None and _is_stopped(stop):
            stopped_s = now_s
        if stopped_s is not None and now_s >= stopped_s + grace_s:
            raise RunStoppedError
        if now_s >= deadline_s:
            raise CallTimeoutError(f"the call took longer than {seconds:g} s")
        ends_s = deadline_s if stopped_s is None else min(deadline_s, stopped_s + grace_s)
        call.done.wait(min(_LOOK_UP_S, ends_s - now_s))
    return call.result()


def _is_stopped(stop: StopSignal) -> bool:
    try:
        stop.check()
    except RunStoppedError:
        return True
    return False


class _Call(Generic[T]):
    """A function that runs in a thread of its own from the start."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.done = threading.Event()
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        # Daemon: an abandoned call must not keep the process alive.
        threading.Thread(
            target=context.run, args=(self._run,), name="model-call", daemon=True
        ).start()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _run(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._error = error
        finally:
            self.done.set()
