"""Help for tests of plugins and graphs.

A scripted model, a backend that does as it is told, and the conformance kit for backends.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accelopt.testing.backend import DummyBackend, dummy_kernel, dummy_task
from accelopt.testing.conformance import ConformanceReport, check_backend
from accelopt.testing.observers import RecordingObserver
from accelopt.testing.samples import ConformanceSample, nki_sample

if TYPE_CHECKING:
    from accelopt.testing.chat import ScriptedChatModel, UnexpectedCallError

__all__ = [
    "ConformanceReport",
    "ConformanceSample",
    "DummyBackend",
    "RecordingObserver",
    "ScriptedChatModel",
    "UnexpectedCallError",
    "check_backend",
    "dummy_kernel",
    "dummy_task",
    "nki_sample",
]

# These need LangChain, whose import is slow.
_LAZY = {"ScriptedChatModel", "UnexpectedCallError"}


def __getattr__(name: str) -> Any:
    """Import what needs LangChain on first use."""
    if name in _LAZY:
        return getattr(import_module("accelopt.testing.chat"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
