"""Element types of NKI and their NumPy counterparts (spec section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: NKI name.
        storage_name: NumPy or ml_dtypes name of the type that values are kept in.
        itemsize: bytes on the device.
        float_bits: precision in bits for a floating type, 0 for an integer type.
    """

    name: str
    storage_name: str
    itemsize: int
    float_bits: int

    @property
    def is_float(self) -> bool:
        """Whether this is a floating type."""
        return self.float_bits > 0

    @cached_property
    def storage(self) -> np.dtype[np.generic]:
        """Type that values are kept in: bit-exact, except that tfloat32 is kept as float32 with the
        low 13 mantissa bits rounded away."""
        if self.storage_name in _MINIFLOATS:
            # Importing ml_dtypes takes over a second: only for kernels that use its types.
            import ml_dtypes

            small: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, self.storage_name))
            return small
        return np.dtype(self.storage_name)


_MINIFLOATS = frozenset({"bfloat16", "float8_e4m3", "float8_e5m2"})


def _make(name: str, storage: str, itemsize: int, float_bits: int) -> DType:
    return DType(name, storage, itemsize, float_bits)


# The position in this tuple is the type's code in a trace: append only.
DTYPES: tuple[DType, ...] = (
    _make("float32", "float32", 4, 32),
    _make("bfloat16", "bfloat16", 2, 16),
    _make("float16", "float16", 2, 16),
    _make("tfloat32", "float32", 4, 19),
    _make("float8_e4m3", "float8_e4m3", 1, 8),
    _make("float8_e5m2", "float8_e5m2", 1, 8),
    _make("int32", "int32", 4, 0),
    _make("uint32", "uint32", 4, 0),
    _make("int16", "int16", 2, 0),
    _make("uint16", "uint16", 2, 0),
    _make("int8", "int8", 1, 0),
    _make("uint8", "uint8", 1, 0),
    _make("bool", "uint8", 1, 0),
)

CODE_BY_NAME = {dtype.name: code for code, dtype in enumerate(DTYPES)}
FLOAT32 = CODE_BY_NAME["float32"]
INT32 = CODE_BY_NAME["int32"]
UINT32 = CODE_BY_NAME["uint32"]
UINT8 = CODE_BY_NAME["uint8"]
BOOL = CODE_BY_NAME["bool"]
BFLOAT16 = CODE_BY_NAME["bfloat16"]
TFLOAT32 = CODE_BY_NAME["tfloat32"]

_CODE_BY_STORAGE = {
    dtype.storage_name: code
    for code, dtype in enumerate(DTYPES)
    if dtype.name not in ("tfloat32", "bool")
} | {"bool": BOOL, "void32": CODE_BY_NAME["tfloat32"]}


def code_of(dtype: object) -> int:
    """Code of a NumPy type, type name or NKI type object.

    Raises:
        TypeError: NKI has no such type (64-bit types, complex, object, ...).
    """
    if isinstance(dtype, str) and dtype in CODE_BY_NAME:
        return CODE_BY_NAME[dtype]
    try:
        return _CODE_BY_STORAGE[np.dtype(dtype).name]  # type: ignore[call-overload]
    except (TypeError, KeyError):
        raise TypeError(f"NKI has no element type {dtype!r}") from None


_FLOAT_PROMOTION = {
    frozenset(("float8_e4m3", "float8_e5m2")): "bfloat16",
    frozenset(("float8_e4m3", "float16")): "float16",
    frozenset(("float8_e4m3", "bfloat16")): "bfloat16",
    frozenset(("float8_e5m2", "float16")): "float16",
    frozenset(("float8_e5m2", "bfloat16")): "bfloat16",
    frozenset(("float16", "bfloat16")): "float32",
}
_INT_PROMOTION = {
    frozenset(("uint8", "int8")): "int16",
    frozenset(("uint8", "uint16")): "uint16",
    frozenset(("uint8", "int16")): "int16",
    frozenset(("int8", "uint16")): "int32",
    frozenset(("int8", "int16")): "int16",
    frozenset(("uint16", "int16")): "int32",
    frozenset(("int8", "uint32")): "float32",
    frozenset(("int16", "uint32")): "float32",
    frozenset(("int32", "uint32")): "float32",
}


def promote(a: int, b: int) -> int:
    """Promoted type of two type codes (spec section 1.14; commutative)."""
    first, second = DTYPES[a], DTYPES[b]
    if a == b:
        return a
    if first.is_float and second.is_float:
        pair = frozenset((first.name, second.name))
        if pair in _FLOAT_PROMOTION:
            return CODE_BY_NAME[_FLOAT_PROMOTION[pair]]
        for wide in ("float32", "tfloat32"):
            if wide in pair:
                return CODE_BY_NAME[wide]
    if first.is_float or second.is_float:
        return a if first.is_float else b
    names = ["uint8" if d.name == "bool" else d.name for d in (first, second)]
    if names[0] == names[1]:
        return CODE_BY_NAME[names[0]]
    pair = frozenset(names)
    if pair in _INT_PROMOTION:
        return CODE_BY_NAME[_INT_PROMOTION[pair]]
    for wide in ("uint32", "int32"):
        if wide in pair:
            return CODE_BY_NAME[wide]
    raise AssertionError(f"no promotion for {names}")
