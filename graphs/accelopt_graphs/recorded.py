"""Replay: a run's recorded answers in place of its models."""

from __future__ import annotations

import threading

from accelopt.journal import Answer, Journal
from accelopt.replay import LOST_CALL
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.stopping import RunStoppedError


class RecordedAnswers:
    """Finds the answer of a slot although its prompt is another one now.

    Args:
        journal: with the recorded answers.

    Attributes:
        changed_prompts: slots whose prompt is not the recorded one, in the order of being asked.
        missing: the first slot without an answer; empty when there was one in each.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self.changed_prompts: list[str] = []
        self.missing = ""

    def other_prompt(self, slot: str) -> Answer:
        """The answer that was given in a slot to another prompt.

        Raises:
            CallFailedError: the recorded call failed for good.
            RunStoppedError: none was given: the recorded run ended here.
        """
        known = self._journal.answers_in(slot)
        if not known and self._journal.record(LOST_CALL, slot) is not None:
            raise CallFailedError(f"the recorded call {slot} failed")
        with self._lock:
            if not known:
                self.missing = self.missing or slot
                raise RunStoppedError
            self.changed_prompts.append(slot)
        return known[-1]
