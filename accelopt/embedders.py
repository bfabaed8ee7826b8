"""A deterministic local embedder, so that the memory needs no download and no network."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

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
        return [list(_vector(text, self._dimension)) for text in texts]


# A kernel that stays in the beam is looked up again and again.
@lru_cache(maxsize=32)
def _vector(text: str, dimension: int) -> tuple[float, ...]:
    vector = np.zeros(dimension, dtype=np.float64)
    for feature, (count, weight) in sorted(_features(text).items()):
        number = _number(feature)
        sign = 1.0 if number & 1 else -1.0
        vector[(number >> 1) % dimension] += sign * weight * math.log1p(count)
    norm = float(np.linalg.norm(vector))
    if norm == 0.0:
        # A text without tokens still needs a direction; any fixed one will do.
        vector[0] = norm = 1.0
    return tuple(float(value) for value in vector / norm)


@lru_cache(maxsize=8192)
def _number(feature: str) -> int:
    digest = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _features(text: str) -> dict[str, tuple[int, float]]:
    """Feature -> (how often, weight)."""
    tokens = _TOKEN.findall(text)
    found: dict[str, tuple[int, float]] = {}
    for token, count in Counter(tokens).items():
        found[f"t:{token}"] = (count, 1.0)
    for pair, count in Counter(pairwise(tokens)).items():
        found[f"b:{pair[0]} {pair[1]}"] = (count, _BIGRAM_WEIGHT)
    parts: Counter[str] = Counter()
    for token, count in Counter(tokens).items():
        split = _parts(token)
        if len(split) > 1:
            for part in split:
                parts[part] += count
    for part, count in parts.items():
        found[f"p:{part}"] = (count, _PART_WEIGHT)
    return found


@lru_cache(maxsize=8192)
def _parts(token: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in _PART.findall(token))
