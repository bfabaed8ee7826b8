"""Hands events to the run's log and to its observers, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, cast

from accelopt.events import Event, EventKind, Observer
from accelopt.run_store import RunStore


class EventHub:
    """Serializes events. An observer that raises is dropped, with one warning event."""

    def __init__(self, store: RunStore, observers: Sequence[Observer]) -> None:
        self._store = store
        self._observers = list(observers)
        # Reentrant, since an observer may cause an event.
        self._lock = threading.RLock()

    def emit(self, kind: EventKind, **fields: Any) -> None:
        """Log an event and show it to everyone; fields that are None are left out."""
        known = {name: value for name, value in fields.items() if value is not None}
        event = cast(
            Event, {"kind": kind, "time_s": time.time(), "run": self._store.run_id, **known}
        )
        with self._lock:
            self._store.append_event(event)
            for observer in list(self._observers):
                try:
                    observer.observe(event)
                except Exception as error:  # noqa: BLE001 - whoever watches must not end a run
                    self._observers.remove(observer)
                    self.emit("warning", message=_complaint(observer, error))

    def close(self) -> None:
        """Tell the observers that the run has ended."""
        with self._lock:
            observers, self._observers = self._observers, []
        for observer in observers:
            try:
                observer.close()
            except Exception as error:  # noqa: BLE001 - whoever watches must not end a run
                self.emit("warning", message=_complaint(observer, error))


def _complaint(observer: Observer, error: Exception) -> str:
    return f"observer {type(observer).__name__} was dropped: {type(error).__name__}: {error}"
