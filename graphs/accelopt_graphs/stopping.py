"""How a run ends before its time."""

from __future__ import annotations

import threading


class RunStoppedError(Exception):
    """Raised inside the graph when the run was asked to stop; never leaves the provider."""


class StopSignal:
    """Asks every step whether to go on.

    Args:
        asked: the caller's event: stop, resumable.
    """

    def __init__(self, asked: threading.Event) -> None:
        self._asked = asked
        self._lock = threading.Lock()
        self.error: BaseException | None = None
        """What ended the run, when it was not the caller."""

    def check(self) -> None:
        """Raise when the run is to end.

        Raises:
            RunStoppedError: somebody asked, or another step has failed for good.
        """
        if self._asked.is_set() or self.error is not None:
            raise RunStoppedError

    def break_off(self, error: BaseException) -> None:
        """A step failed for good: the others, which the graph can't cancel, need not start.

        They then end with `RunStoppedError`, and the graph may report any of the errors, so the
        first one is kept here.
        """
        with self._lock:
            if self.error is None:
                self.error = error

    def sleep(self, seconds: float) -> None:
        """Wait, but wake up when somebody asks to stop.

        Raises:
            RunStoppedError: as `check`.
        """
        self._asked.wait(seconds)
        self.check()
