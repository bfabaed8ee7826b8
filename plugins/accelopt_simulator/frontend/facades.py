"""Modules as kernels see them: a fixed set of names that nothing can be added to or taken from."""

from __future__ import annotations

import collections
import dataclasses
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.sandbox_tables import MODULES
from accelopt_simulator.frontend.session import KERNEL_FILENAME
from accelopt_simulator.frontend.types import NkiType

RULE = "source_screen"
HINT = "a kernel needs NKI, numpy and math, and no interpreter internals"


class RefusedError(KernelFault):
    """The kernel reached for something that no kernel needs; it ends as `rejected`.

    Deliberately no `AttributeError`: an import statement would go on to look in `sys.modules`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(RULE, message, hint=HINT)
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename != KERNEL_FILENAME:
            frame = frame.f_back
        found = frame.f_code.co_filename == KERNEL_FILENAME
        self.line = frame.f_lineno if found else None
        if _refusals:
            _refusals[-1].append(self)


_refusals: list[list[RefusedError]] = []


@contextmanager
def noting_refusals() -> Iterator[list[RefusedError]]:
    """The refusals of one kernel, those that it caught included."""
    _refusals.append([])
    try:
        yield _refusals[-1]
    finally:
        _refusals.pop()


class Facade:
    """A module of the standard library, NumPy or ml_dtypes, with the names kernels may use."""

    __slots__ = ("_attributes", "_module", "_names")

    def __init__(self, module: str, names: frozenset[str], own: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_attributes", dict(own))

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # for `from module import *`
            return sorted(self._names)
        if name not in self._names:
            # Loaded only for those who ask: ml_dtypes takes a second.
            if not name.startswith("_") and hasattr(importlib.import_module(self._module), name):
                raise RefusedError(f"uses {self._module}.{name}")
            raise AttributeError(f"module {self._module!r} has no attribute {name!r} here")
        if name not in self._attributes:
            self._attributes[name] = getattr(importlib.import_module(self._module), name)
        return self._attributes[name]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise RefusedError(f"changes {self._module}.{name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise RefusedError(f"changes {self._module}.{name}")

    def __repr__(self) -> str:
        return f"<module {self._module!r}>"


class ArrayType:
    """`np.ndarray` for `isinstance` and annotations: arrays are made by `np.zeros` and its like."""

    __slots__ = ()

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__

    def __getitem__(self, item: Any) -> ArrayType:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RefusedError("makes an array with np.ndarray; use np.empty")


def make_dtype(dtype: Any) -> np.dtype[Any]:
    """`np.dtype` of a plain type; no records, no objects."""
    if not isinstance(dtype, (type, np.dtype, NkiType)) and type(dtype) is not str:
        raise RefusedError("makes a structured NumPy type")
    made: np.dtype[Any] = np.dtype(dtype)
    if made.hasobject or made.fields or made.subdtype:
        raise RefusedError("makes a NumPy type of objects or records")
    return made


def _wraps(wrapped: Any, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """`functools.wraps` between functions: their name and text, nothing else."""

    def decorate(wrapper: Any) -> Any:
        if type(wrapped) is types.FunctionType and type(wrapper) is types.FunctionType:
            wrapper.__name__, wrapper.__doc__ = wrapped.__name__, wrapped.__doc__
        return wrapper

    return decorate


@contextmanager
def _module_of(cls: type) -> Iterator[None]:
    """An empty module where `dataclasses` looks annotations up that are texts."""
    sys.modules[cls.__module__] = types.ModuleType(cls.__module__)
    try:
        yield
    finally:
        del sys.modules[cls.__module__]


def facades(register: Callable[[type], type], is_own: Callable[[Any], bool]) -> dict[str, Facade]:
    """Facades of all modules but the dialect's.

    Args:
        register: notes a class as one of the kernel's own.
        is_own: whether an object is the kernel's own class, or an instance of one.
    """

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda later: dataclass(later, **options)
        if not isinstance(cls, type) or not is_own(cls):
            raise RefusedError("makes a dataclass of a class that is not the kernel's own")
        with _module_of(cls):
            return register(dataclasses.dataclass(cls, **options))

    def replace(instance: Any, /, **changes: Any) -> Any:
        if not is_own(instance):
            raise RefusedError("copies an object that is not the kernel's own")
        return dataclasses.replace(instance, **changes)

    def namedtuple(name: Any, names: Any, *, defaults: Any = None, rename: bool = False) -> Any:
        return register(collections.namedtuple(name, names, defaults=defaults, rename=rename))

    own: dict[str, dict[str, Any]] = {
        "dataclasses": {"dataclass": dataclass, "replace": replace},
        "collections": {"namedtuple": namedtuple},
        "functools": {"wraps": _wraps, "cache": functools.cache},
        "numpy": {"ndarray": ArrayType(), "dtype": make_dtype},
    }
    made = {name: Facade(name, names, own.get(name, {})) for name, names in MODULES.items()}
    for name, facade in made.items():
        parent, _, child = name.rpartition(".")
        if parent:
            made[parent]._attributes[child] = facade
    return made
