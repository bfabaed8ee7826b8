"""Keeps what a process once had in memory out of files that native code writes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_M_PERTURB = -6
_PATTERN = 0xAA


@contextmanager
def wiped_allocations() -> Iterator[None]:
    """Memory that native code allocates inside begins as a pattern, not as what was there before.

    Chroma's index files hold memory that was never written to: parts of whatever the process had
    freed, prompts and API keys included (seen with chromadb 1.5). Where the C library has no such
    switch (it is glibc's), nothing changes.
    """
    mallopt = _mallopt()
    if mallopt is not None:
        mallopt(_M_PERTURB, _PATTERN)
    try:
        yield
    finally:
        if mallopt is not None:
            mallopt(_M_PERTURB, 0)


@cache
def _mallopt() -> Any:
    try:
        return ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # pragma: no cover - another C library
        return None
