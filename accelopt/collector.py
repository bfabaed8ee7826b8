"""Keeps Python's cyclic garbage collector from walking through all loaded libraries in a run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_OBJECTS = 20_000


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Collect less often, and only what is made inside; as before afterwards.

    A run loads libraries with about a million objects, and parsing a kernel makes tens of
    thousands that live for a moment: by default the collector then walks through everything again
    and again, which cost more than the whole loop (20 ms instead of 4 for one parse).
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
