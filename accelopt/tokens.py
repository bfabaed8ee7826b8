"""How many tokens a text has, roughly, where nobody has counted them."""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 3.5
"""Of kernels and prose together. A rule of thumb: the vendors' tokenizers give 3 to 4 for such
texts, and none can be loaded without a download."""


def estimated_tokens(text: str) -> int:
    """Tokens of a text, give or take a quarter."""
    return round(len(text) / CHARACTERS_PER_TOKEN)
