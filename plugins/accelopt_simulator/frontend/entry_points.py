"""Arguments of NKI calls as plain values.

A value is asked more than once: its type is checked, then it is used. A kernel's own subclass could
answer differently the second time, so what enters is made plain first, or is refused.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from accelopt_simulator.frontend.faults import KernelFault

MAX_NESTING = 16

_EXACT = frozenset(
    {
        int, float, bool, str, bytes, complex, type(None), type(Ellipsis), np.ndarray,
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial,
        np.ufunc, range,
    }
)  # fmt: skip


def plain(value: Any, depth: int = 0) -> Any:
    """The value itself, or a plain copy of it.

    Raises:
        KernelFault: it is an object of a class that NKI knows nothing of.
    """
    kind = type(value)
    if kind in _EXACT:
        return value
    if depth > MAX_NESTING:
        raise KernelFault("bad_argument", "an argument of an NKI call is nested too deeply")
    if kind is tuple:
        return tuple([plain(item, depth + 1) for item in value])
    if kind is list:
        return [plain(item, depth + 1) for item in value]
    if kind is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if kind is dict:
        return {plain(k, depth + 1): plain(v, depth + 1) for k, v in value.items()}
    module = kind.__module__
    if _ours(module) or issubclass(kind, (np.generic, np.dtype)):
        return value
    if issubclass(kind, type):
        return value if _ours(value.__module__) or (issubclass(
            value, (np.generic, bool, int, float)
        ) and not _from_kernel(value)) else _refuse(value)  # fmt: skip
    return _plain_base(value, depth)


def _plain_base(value: Any, depth: int) -> Any:
    """What a subclass of a number, a text or a container holds; its own methods are not asked."""
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, tuple):
        return tuple([plain(item, depth + 1) for item in tuple.__iter__(value)])
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in list.__iter__(value)]
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    if _harmless(type(value)):
        return value
    return _refuse(value)


def _refuse(value: Any) -> Any:
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    raise KernelFault(
        "bad_argument",
        f"an NKI call gets an object of the class {name}",
        hint="pass tiles, indices, numbers, tuples, lists or NumPy arrays",
    )


def _ours(module: str) -> bool:
    return module.startswith("accelopt_simulator.")


def _from_kernel(kind: type) -> bool:
    return kind.__module__ == "kernel_module"


def _harmless(kind: type) -> bool:
    """Iterators and views of the standard library and NumPy; the classes of a kernel are not."""
    return kind.__module__ in ("builtins", "itertools", "functools", "numpy", "collections")


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the dialect that makes its arguments plain first."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(
            *[plain(item) for item in args], **{key: plain(item) for key, item in kwargs.items()}
        )

    return call
