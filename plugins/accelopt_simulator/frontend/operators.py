"""Operators on tiles: the `nl` functions of the same name, without partition broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelopt_simulator.frontend.entry_points import plain
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.index import Index
from accelopt_simulator.frontend.indirect import dynamic_index
from accelopt_simulator.frontend.lower import (
    binary,
    bitwise_type,
    in_place,
    named,
    tensor_scalar,
)
from accelopt_simulator.frontend.tile import Tile

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "eq": "equal", "ne": "not_equal", "mod": "mod", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_IN_PLACE = {"iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "divide"}
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def _forward(op: str, name: str, comparison: bool) -> Callable[[Tile, Any], Any]:
    def operate(self: Tile, other: Any) -> Any:
        if other is None:
            return NotImplemented
        other = plain(other)
        if isinstance(other, Index):
            if comparison:
                raise KernelFault(
                    "err_unsupported_expression_in_mask",
                    "an index is compared with a tensor element, which is known at run time only",
                    hint="compute both sides and select with nl.where or a multiplication",
                )
            # An offset that is known at run time only: `tile[0, 0] + nl.arange(n)`.
            return getattr(dynamic_index(self), f"__{name}__")(other)
        dtype = bool if comparison else None
        return binary(op, self, other, dtype=dtype, partition_broadcast=False)

    return operate


def _reflected(op: str, name: str) -> Callable[[Tile, Any], Any]:
    def operate(self: Tile, other: Any) -> Any:
        other = plain(other)
        if isinstance(other, Index):
            return getattr(other, f"__{name}__")(dynamic_index(self))
        return binary(op, other, self, partition_broadcast=False)

    return operate


def _augmented(op: str) -> Callable[[Tile, Any], Any]:
    return lambda self, other: in_place(self, op, plain(other))


def _negative(self: Tile) -> Tile:
    return binary("multiply", self, -1.0, dtype=self.dtype)


def _invert(self: Tile) -> Tile:
    out = bitwise_type("invert", self, self, self.dtype_code)
    return tensor_scalar(self, "invert", 0.0, dtype=out)


def _floor_divide(self: Tile, other: Any) -> Tile:
    quotient = named(binary("divide", self, other, partition_broadcast=False))
    return tensor_scalar(quotient, "floor", 0.0)


def install() -> None:
    """Give `Tile` its operators; called once when the front end is loaded."""
    for name, op in _BINARY.items():
        setattr(Tile, f"__{name}__", _forward(op, name, name in _COMPARISONS))
        if name not in _COMPARISONS:
            setattr(Tile, f"__r{name}__", _reflected(op, name))
    for name, op in _IN_PLACE.items():
        setattr(Tile, f"__{name}__", _augmented(op))
    setattr(Tile, "__invert__", _invert)  # noqa: B010
    setattr(Tile, "__floordiv__", _floor_divide)  # noqa: B010
    setattr(Tile, "__neg__", _negative)  # noqa: B010 - a class attribute made outside of it
