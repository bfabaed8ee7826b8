"""Random numbers: uniform tiles and dropout.

The device's generator is not documented (spec 2.2). Ours is Philox, keyed by the seed and by the
number of the draw in the trace: a trace gives the same numbers whenever and wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np

from accelopt_simulator.numerics.values import (
    F32,
    Apply,
    Array,
    Operands,
    as_f32,
    cast,
    column,
    deliver,
)


def _drawer(attrs: dict[str, Any]) -> Callable[[Operands, tuple[int, ...]], Array]:
    """Uniform numbers in [0, 1); each execution of the instruction draws new ones."""
    executions = count()

    def draw(operands: Operands, shape: tuple[int, ...]) -> Array:
        seed = attrs["seed"]
        if "seed" in operands:
            seed = int(np.nan_to_num(operands["seed"].astype(np.float64)).reshape(-1)[0])
        # Seeded in the same iteration: the sequence starts again.
        execution = 0 if attrs.get("restart") else next(executions)
        key = np.array([seed % 2**32, (attrs["draw"] << 32) | execution], dtype=np.uint64)
        numbers: Array = np.random.Generator(np.random.Philox(key=key)).random(shape, dtype=F32)
        return numbers

    return draw


def _rand(attrs: dict[str, Any]) -> Apply:
    draw = _drawer(attrs)

    def apply(operands: Operands, where: Array | None) -> None:
        dst = operands["dst"]
        numbers = draw(operands, dst.shape)
        if dst.dtype != F32:
            # Rounding up to 1 would leave the interval.
            below_one = np.nextafter(np.asarray(1, dst.dtype), np.asarray(0, dst.dtype))
            numbers = np.minimum(numbers, as_f32(np.atleast_1d(below_one)))
        deliver(numbers, dst, where)

    return apply


def _dropout(attrs: dict[str, Any]) -> Apply:
    draw = _drawer(attrs)

    def apply(operands: Operands, where: Array | None) -> None:
        data, dst = operands["data"], operands["dst"]
        kept = draw(operands, dst.shape) >= column(operands["rate"], dst.ndim)
        data = data if data.dtype == dst.dtype else cast(as_f32(data), dst.dtype)
        result = np.where(kept, data, np.zeros((), dst.dtype))
        np.copyto(dst, result, where=True if where is None else where)

    return apply


RULES: MappingProxyType[str, Callable[[dict[str, Any]], Apply]] = MappingProxyType(
    {"rand": _rand, "dropout": _dropout}
)
