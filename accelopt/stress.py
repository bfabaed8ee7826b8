"""Ordinary inputs with awkward ones mixed in, inside the same arrays.

A kernel that is right on normal draws only, or that looks at its inputs to find out whether it is
being checked, meets zeros, large, tiny, denormal, negated and repeated values and one changed
element between nominal ones (rows 7, 11 and 12 of the known reward hacks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from accelopt.kernel import KernelArgument

LARGE, TINY = 8.0, 1e-3
DENORMAL = 1e-40
"""Below the smallest normal float32, 1.2e-38."""

_BANDS = (64, 16)
"""An ingredient gets one band of an array, of so many if there are as many rows (or columns)."""

_Mix = Callable[[NDArray[np.floating], NDArray[np.floating]], NDArray[np.floating]]
"""The nominal values of a patch, and of another patch of its shape -> what the patch becomes."""

_MIXES: dict[str, _Mix] = {
    "zeros": lambda own, other: np.zeros_like(own),
    "large": lambda own, other: own * own.dtype.type(LARGE),
    "tiny": lambda own, other: own * own.dtype.type(TINY),
    "denormal": lambda own, other: np.sign(own) * own.dtype.type(DENORMAL),
    "negated": lambda own, other: -own,
    "repeated": lambda own, other: other,
}
ONE_CHANGED = "one changed element"


def mixed(
    inputs: Sequence[KernelArgument], seed: int, ingredients: Sequence[str]
) -> list[KernelArgument]:
    """Nominal inputs with ingredients mixed into every floating-point array.

    A patch covers a band of rows and half the columns, so that no row consists of an ingredient
    alone; arrays of one shape have theirs in different places. An array without negative values
    gets none. Integers (indices, say) are left alone.

    Args:
        inputs: natural inputs; not changed.
        seed: decides where the patches lie.
        ingredients: names out of `accelopt.kernel.MIX_INGREDIENTS`.
    """
    rng = np.random.RandomState(seed ^ 0x5EED)
    order = rng.permutation(max(_BANDS))
    result: list[KernelArgument] = []
    for value in inputs:
        if isinstance(value, np.ndarray) and _is_float(value) and value.size:
            result.append(_mixed_array(value, rng, order, ingredients))
            order = np.roll(order, len(_MIXES))
        else:
            result.append(value)
    return result


def _is_float(array: NDArray[np.generic]) -> bool:
    # bfloat16 and its like are of kind V, and convert to float32.
    return array.dtype.kind == "f" or (
        array.dtype.kind == "V" and array.dtype.name.startswith(("bfloat", "float"))
    )


def _mixed_array(
    array: NDArray[np.floating],
    rng: np.random.RandomState,
    order: NDArray[np.integer],
    ingredients: Sequence[str],
) -> NDArray[np.floating]:
    result = array.copy(order="C")
    nominal = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    table = result.reshape(nominal.shape)
    along = 0 if nominal.shape[0] >= min(_BANDS) else 1
    count = next((count for count in _BANDS if nominal.shape[along] >= count), min(_BANDS))
    bands = order[order < count]
    positive = bool(nominal.min() >= 0)
    spare = _patch(nominal.shape, along, (count, int(bands[-1])), rng)
    for name, band in zip(_MIXES, bands, strict=False):
        patch = _patch(nominal.shape, along, (count, int(band)), rng)
        if name in ingredients and not (positive and name == "negated"):
            own = nominal[patch]
            other = np.resize(nominal[spare], own.shape) if nominal[spare].size else own
            table[patch] = _MIXES[name](own, other)
    row, column = rng.randint(nominal.shape[0]), rng.randint(nominal.shape[1])
    if ONE_CHANGED in ingredients:
        table[row, column] = (3 if positive else -3) * nominal[row, column] + 1
    return result


def _patch(
    shape: tuple[int, ...], along: int, band: tuple[int, int], rng: np.random.RandomState
) -> tuple[slice, slice]:
    """One band of one axis, given as (number of bands, index), and a random half of the other."""
    size, (count, index) = shape[along], band
    taken = slice(size * index // count, size * (index + 1) // count)
    width = shape[1 - along]
    start = int(rng.randint(width // 2 + 1))
    half = slice(start, start + max(1, width // 2))
    return (taken, half) if along == 0 else (half, taken)
