"""Tells a lost call, which costs a sample, from an outage, which would use up a run for nothing."""

from __future__ import annotations

import threading
from collections import Counter

from accelopt.errors import ChatError
from accelopt_graphs.model_errors import CallFailedError

FAILED_CALLS_IN_A_ROW = 20


class OutageWatch:
    """Counts calls that failed in a row, per role, since each may have a server of its own.

    Attributes:
        succeeded: calls that gave an answer, journalled ones included.
        last_failure: message of the last call that failed; empty when none did.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_a_row: Counter[str] = Counter()
        self.succeeded = 0
        self.last_failure = ""

    def answered(self, role: str) -> None:
        """A call gave an answer."""
        with self._lock:
            self.succeeded += 1
            self._in_a_row[role] = 0

    def failed(self, role: str, error: CallFailedError) -> None:
        """A call failed for good.

        Raises:
            ChatError: so did all of the last ones.
        """
        with self._lock:
            self.last_failure = error.message
            self._in_a_row[role] += 1
            broken = self._in_a_row[role] >= FAILED_CALLS_IN_A_ROW
        if broken:
            raise ChatError(
                f"{FAILED_CALLS_IN_A_ROW} {role} calls in a row failed, the last: {error.message}",
                hint="check the model server, then resume the run",
            ) from error
