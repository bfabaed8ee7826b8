"""What a kernel's module runs with: guarded attributes, builtins and imports.

The front end shares a process with the candidate, so a candidate that got hold of the interpreter
or of the recorder could record what its source never asked for. Attributes go by the type of their
object: a kernel's own classes are its own, everything else shows what `sandbox_tables` lists.
A refusal is final: catching it does not help, the kernel ends as `rejected`.
"""

from __future__ import annotations

import builtins
import enum
import inspect
import string
import typing
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from accelopt_simulator.frontend.facades import Facade, RefusedError, facades
from accelopt_simulator.frontend.neuronxcc_nki.modules import FrameworkKernel, NkiModule, modules
from accelopt_simulator.frontend.sandbox_tables import (
    ATTRIBUTES,
    BUILTINS,
    CONTAINERS,
    EXCEPTIONS,
    NAMED_TUPLE,
    READABLE_SPECIAL,
    SPECIAL_METHODS,
)
from accelopt_simulator.frontend.structure_rules import GET, OWN

DIALECT_ROOT = "neuronxcc"
_NOTHING: frozenset[str] = frozenset()
_BASES = (
    object, enum.Enum, enum.IntEnum, enum.Flag, enum.IntFlag, FrameworkKernel,
    *(getattr(builtins, name) for name in EXCEPTIONS),
)  # fmt: skip
_PLAIN_TYPES = (
    int, float, bool, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, slice,
    range, type(None), object,
)  # fmt: skip


class OpaqueType:
    """What `type(x)` is for objects whose class is none of the kernel's business."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.__name__ = kind.__name__

    def __instancecheck__(self, value: Any) -> bool:
        return type(value) is self._kind

    def __repr__(self) -> str:
        return f"<class {self._kind.__name__!r}>"


class Sandbox:
    """Guards for one kernel."""

    def __init__(self) -> None:
        self._classes: set[type] = set()
        self._visible: dict[type, frozenset[str]] = {}
        self._opaque: dict[type, OpaqueType] = {}
        self._modules: dict[str, Any] = {
            **facades(self._register, self._is_own),
            **modules(),
        }

    def namespace(self) -> dict[str, Any]:
        """Globals of the kernel's module."""
        return {
            "__name__": "kernel_module",
            "__builtins__": self._builtins(),
            GET: self.get,
            OWN: self.own,
        }

    def _register(self, kind: type) -> type:
        self._classes.add(kind)
        return kind

    def _is_own(self, value: Any) -> bool:
        return type(value) in self._classes or (isinstance(value, type) and value in self._classes)

    # -- attributes -------------------------------------------------------------------------------

    def get(self, value: Any, name: str) -> Any:
        """`value.name`, where a kernel may read it.

        Raises:
            RefusedError: it may not.
            AttributeError: there is no such attribute.
        """
        kind = type(value)
        visible = self._visible.get(kind)
        if visible is None:
            visible = self._visible[kind] = self._listed(kind)
        if name in visible or self._may_read(value, kind, name):
            return getattr(value, name)
        if name in ("format", "format_map") and (value is str or isinstance(value, str)):
            return _formatter(value, name)
        if not name.startswith("_") and kind is not OpaqueType and _lacks(value, name):
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
        what = value.__name__ if isinstance(value, type) else kind.__name__
        raise RefusedError(f"reaches for the attribute {name} of {what}")

    def own(self, value: Any, name: str) -> Any:
        """The object itself, when a kernel may change its attribute `name`.

        Raises:
            RefusedError: it may not.
        """
        if self._is_own(value) and not name.startswith("__"):
            return value
        if isinstance(value, (Facade, NkiModule)):
            raise RefusedError(f"changes {value!r}: its attribute {name}")
        raise RefusedError(f"changes the attribute {name} of an object that is not its own")

    def _listed(self, kind: type) -> frozenset[str]:
        if kind in self._classes:
            return _NOTHING  # its own rules
        return next((ATTRIBUTES[base] for base in kind.__mro__ if base in ATTRIBUTES), _NOTHING)

    def _may_read(self, value: Any, kind: type, name: str) -> bool:
        if name == "mro" or type(name) is not str:
            return False
        public = not name.startswith("_")
        if kind is Facade or kind is NkiModule:
            return public
        if self._is_own(value):
            special = SPECIAL_METHODS | READABLE_SPECIAL | NAMED_TUPLE
            return name in special or not name.startswith("__")
        if kind is super:
            return (public or name in SPECIAL_METHODS) and value.__thisclass__ in self._classes
        if isinstance(value, enum.Enum):
            return name in ("name", "value")
        formats = name in ("format", "format_map")
        if isinstance(value, type):
            return name in READABLE_SPECIAL or (
                public and not formats and _class_shows(value, name)
            )
        if kind is OpaqueType:
            return name == "__name__"
        return public and not formats and isinstance(value, CONTAINERS)

    # -- builtins ---------------------------------------------------------------------------------

    def _builtins(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in dir(builtins):
            found[name] = getattr(builtins, name) if name in BUILTINS else _forbidden(name)
        return found | {
            "__name__": "builtins",
            "__build_class__": self._build_class,
            "__import__": self._import,
            "getattr": self._getattr,
            "hasattr": self._hasattr,
            "type": TypeGuard(self._type_of),
        }

    def _getattr(self, value: Any, name: Any, *default: Any) -> Any:
        if type(name) is not str or len(default) > 1:
            raise RefusedError("calls getattr with something else than a name")
        try:
            return self.get(value, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def _hasattr(self, value: Any, name: Any) -> bool:
        try:
            self._getattr(value, name)
        except AttributeError:
            return False
        return True

    def _type_of(self, value: Any) -> Any:
        kind = type(value)
        own = kind in self._classes or kind in _PLAIN_TYPES
        if own or issubclass(kind, (np.generic, BaseException)):
            return kind
        if kind not in self._opaque:
            self._opaque[kind] = OpaqueType(kind)
        return self._opaque[kind]

    def _build_class(self, body: Any, name: str, *bases: Any, **keywords: Any) -> Any:
        if keywords:
            raise RefusedError(f"defines the class {name} with keywords")
        for base in bases:
            generic = typing.get_origin(base) is typing.Generic
            if not (generic or base is typing.NamedTuple or base in self._classes
                    or any(base is known for known in _BASES)):  # fmt: skip
                raise RefusedError(f"derives the class {name} from {base!r}")
        return self._register(builtins.__build_class__(body, name, *bases))

    def _import(
        self, name: Any, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        if type(name) is not str or level:
            raise RefusedError("imports from the kernel's own package")
        top = name.partition(".")[0]
        if name not in self._modules:
            if top == DIALECT_ROOT:
                raise ModuleNotFoundError(f"No module named {name!r}")
            raise RefusedError(f"imports {name}")
        for wanted in names or ():
            if wanted.startswith("_"):
                raise RefusedError(f"imports {wanted} from {name}")
        return self._modules[name if names else top]


class TypeGuard:
    """`type(x)`, with one argument; a type to `isinstance` and in annotations."""

    def __init__(self, type_of: Callable[[Any], Any]) -> None:
        self._type_of = type_of

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if len(args) != 1 or keywords:
            raise RefusedError("makes a class with type(); use a class statement")
        return self._type_of(args[0])

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, (type, OpaqueType))

    def __getitem__(self, item: Any) -> TypeGuard:
        return self


def _forbidden(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **keywords: Any) -> NoReturn:
        raise RefusedError(f"uses {name}")

    return refuse


def _lacks(value: Any, name: str) -> bool:
    """Whether an object has no such attribute; its own code is not run to find out."""
    try:
        inspect.getattr_static(value, name)
    except AttributeError:
        return True
    return False


def _class_shows(kind: type, name: str) -> bool:
    """Public names of plain types, and constants of the dialect's classes."""
    if kind in _PLAIN_TYPES:
        return True
    ours = kind.__module__.startswith("accelopt_simulator.")
    return ours and any(name in base.__dict__ for base in kind.__mro__)


def _formatter(value: Any, name: str) -> Callable[..., str]:
    """`str.format` without fields that follow attributes."""
    bound = isinstance(value, str)

    def form(*args: Any, **keywords: Any) -> str:
        text, rest = (value, args) if bound else (args[0], args[1:])
        _check_format(str(text))
        result: str = getattr(str, name)(str(text), *rest, **keywords)
        return result

    return form


def _check_format(text: str, depth: int = 0) -> None:
    for _, field, spec, _ in string.Formatter().parse(text):
        if field is not None and ("." in field or "[" in field):
            raise RefusedError("follows an attribute in a format string; use an f-string")
        if spec and depth < 2:
            _check_format(spec, depth + 1)
