"""A deterministic local embedder, so that the memory needs no download and no network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|\d+(?:\.\d+)?|[^\sA-Za-z_0-9]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BIGRAM_WEIGHT = 0.5
_PART_WEIGHT = 0.5


class HashedTokenEmbedder:
    """Bag of hashed tokens: identifiers, their parts, and pairs of neighbours.

    Two kernels are close when they use the same calls, names and idioms. Counts are log-scaled, so
    a name used a hundred times does not drown the rest; signed hashing keeps collisions unbiased.
    """

    def __init__(self, dimension: int = 512) -> None:
        if dimension < 8:
            raise ValueError("an embedding needs at least 8 dimensions")
        self._dimension = dimension

    @property
    def name(self) -> str:
        """Name of the embedder, kept with a memory."""
        return "hashed-tokens"

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit-length vector per text; deterministic across processes and machines."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        vector = np.zeros(self._dimension, dtype=np.float64)
        weights: dict[str, float] = {}
        counts: Counter[str] = Counter()
        for feature, weight in _features(text):
            counts[feature] += 1
            weights[feature] = weight
        for feature, count in sorted(counts.items()):
            digest = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            number = int.from_bytes(digest, "little")
            sign = 1.0 if number & 1 else -1.0
            vector[(number >> 1) % self._dimension] += sign * weights[feature] * np.log1p(count)
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:
            # A text without tokens still needs a direction; any fixed one will do.
            vector[0] = norm = 1.0
        return [float(value) for value in vector / norm]


def _features(text: str) -> Iterator[tuple[str, float]]:
    previous = ""
    for token in _TOKEN.findall(text):
        yield f"t:{token}", 1.0
        parts = [part.lower() for part in _PART.findall(token)]
        if len(parts) > 1:
            for part in parts:
                yield f"p:{part}", _PART_WEIGHT
        if previous:
            yield f"b:{previous} {token}", _BIGRAM_WEIGHT
        previous = token
