"""An observer that remembers what it saw."""

from __future__ import annotations

from accelopt.events import Event


class RecordingObserver:
    """Keeps every event.

    Attributes:
        events: what was observed, in order.
        closed: how often it was closed.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = 0

    def observe(self, event: Event) -> None:
        """Remember the event."""
        self.events.append(event)

    def close(self) -> None:
        """Count the call."""
        self.closed += 1

    def kinds(self) -> list[str]:
        """The kinds of the events, in order."""
        return [event["kind"] for event in self.events]

    def of(self, kind: str) -> list[Event]:
        """The events of one kind, in order."""
        return [event for event in self.events if event["kind"] == kind]
