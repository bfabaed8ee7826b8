"""How many model calls a server gets at once and per minute, and when it gets none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accelopt_graphs.stopping import StopSignal

if TYPE_CHECKING:
    from langchain_core.rate_limiters import InMemoryRateLimiter

# How long a wait may go on before a stop is looked for.
_LOOK_UP_S = 0.25


class Throttle:
    """One per server and model; every call to it goes through a slot.

    Args:
        concurrency: calls at once.
        requests_per_minute: calls that may start per minute, spread evenly; None does not count.
        clock: seconds that only go forward; what pauses are measured with.

    Raises:
        ValueError: a bound is not positive.
    """

    def __init__(
        self,
        concurrency: int,
        requests_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if concurrency < 1 or (requests_per_minute is not None and requests_per_minute <= 0):
            raise ValueError("a throttle needs positive bounds")
        self._places = threading.BoundedSemaphore(concurrency)
        self._limiter = None if requests_per_minute is None else _limiter(requests_per_minute)
        self._interval_s = 60 / requests_per_minute if requests_per_minute else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._paused_until_s = clock()

    @contextmanager
    def slot(self, stop: StopSignal) -> Iterator[None]:
        """Wait until a call may start, and hold its place while it runs.

        Raises:
            RunStoppedError: the run is to end.
        """
        stop.check()
        while not self._places.acquire(timeout=_LOOK_UP_S):
            stop.check()
        try:
            self._wait_for_turn(stop)
            yield
        finally:
            self._places.release()

    def pause(self, seconds: float) -> None:
        """Let no call start for so long: the server said that it has too much to do.

        A shorter pause never ends a longer one.
        """
        with self._lock:
            self._paused_until_s = max(self._paused_until_s, self._clock() + seconds)

    def _wait_for_turn(self, stop: StopSignal) -> None:
        while True:
            stop.check()
            paused_s = self._paused_s()
            if paused_s > 0:
                stop.sleep(min(paused_s, _LOOK_UP_S))
            elif self._limiter is None or self._limiter.acquire(blocking=False):
                return
            else:
                stop.sleep(min(self._interval_s, _LOOK_UP_S))

    def _paused_s(self) -> float:
        with self._lock:
            return self._paused_until_s - self._clock()


def _limiter(requests_per_minute: float) -> InMemoryRateLimiter:
    from langchain_core.rate_limiters import InMemoryRateLimiter

    limiter = InMemoryRateLimiter(requests_per_second=requests_per_minute / 60, max_bucket_size=1)
    # Its bucket starts empty: with one request per minute, the first would wait for one.
    limiter.available_tokens = 1.0
    return limiter
