"""The contract of an embedder: text to vector, for the optimization memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Turns texts into vectors whose cosine similarity means relevance.

    Attributes:
        name: stored with a memory, so that vectors of two embedders are never mixed.
        dimension: length of every vector.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit-length vector per text; deterministic."""
        ...
