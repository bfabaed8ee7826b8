"""The module objects that kernels of the `neuronxcc.nki` dialect import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from accelopt_simulator.frontend.annotations import MUTABLE, TensorAnnotation
from accelopt_simulator.frontend.entry_points import entry_point
from accelopt_simulator.frontend.facades import RefusedError
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.neuronxcc_nki import compiler, isa, language
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.types import ParDim


class KernelFunction:
    """What `nki.jit` makes of a function. Called inside a kernel, it is inlined."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        current()
        return self.function(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Any:
        raise KernelFault(
            "err_nested_kernel_with_spmd_grid",
            "a kernel is launched with a grid inside another kernel",
            hint="call it without a grid",
        )


def _decorator(*args: Any, **kwargs: Any) -> Any:
    """`nki.jit` and its kin: bare, with options, or applied to a decorated kernel."""
    if args and callable(args[0]):
        first = args[0]
        return first if isinstance(first, KernelFunction) else KernelFunction(first)
    return KernelFunction


class FrameworkKernel:
    """Base class of framework integrations; a kernel file may derive from it (spec 1.19)."""

    def dump_config(self, *args: Any, **kwargs: Any) -> Any:
        """Part of the framework's side."""
        raise _host_only("FrameworkKernel.dump_config")


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """`nki.simulate_kernel`: the vendor's host-side simulator.

    Raises:
        KernelFault: always; a kernel file is traced here, and its values exist only afterwards.
    """
    raise _host_only("nki.simulate_kernel")


def _host_only(what: str) -> KernelFault:
    return KernelFault(
        "host_call",
        f"{what} runs kernels on the host, which a kernel file can't do here",
        hint="remove the call; the kernel is executed by the judge",
    )


class NkiModule(ModuleType):
    """A module whose missing names say whether NKI has them or not."""

    def __init__(
        self, name: str, names: Mapping[str, Any], not_modelled: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(name)
        self.__dict__.update({key: _entry(value) for key, value in names.items()})
        self.__dict__["_not_modelled"] = not_modelled
        self.__dict__["__path__"] = []
        self.__dict__["__all__"] = [key for key in names if not key.startswith("_")]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise RefusedError(f"changes {self.__name__}.{name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise RefusedError(f"changes {self.__name__}.{name}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in self.__dict__.get("_not_modelled", ()):
            raise unsupported(f"{self.__name__.removeprefix('neuronxcc.')}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _entry(value: Any) -> Any:
    """Functions of the dialect get plain values, whatever a kernel passes."""
    plain_function = isinstance(value, FunctionType) and value is not _decorator
    return entry_point(value) if plain_function else value


def modules() -> dict[str, ModuleType]:
    """Module name -> module, to be put into `sys.modules` of the worker."""
    nl = NkiModule("neuronxcc.nki.language", language.NAMESPACE, language.NOT_MODELLED)
    nisa = NkiModule("neuronxcc.nki.isa", isa.NAMESPACE, isa.NOT_MODELLED)
    constants = NkiModule(
        "neuronxcc.nki.isa.constants", {n: isa.NAMESPACE[n] for n in ("engine", "oob_mode")}
    )
    nisa.__dict__["constants"] = constants
    ncc = NkiModule("neuronxcc.nki.compiler", compiler.NAMESPACE)
    annotation = TensorAnnotation()
    nt = NkiModule(
        "neuronxcc.nki.typing",
        {
            "tensor": annotation,
            "mutable": MUTABLE,
            "mutable_tensor": TensorAnnotation(mutable=True),
        },
    )
    decorators = dict.fromkeys(("jit", "trace", "baremetal", "benchmark", "profile"), _decorator)
    nki = NkiModule(
        "neuronxcc.nki",
        decorators
        | {"simulate_kernel": simulate_kernel, "FrameworkKernel": FrameworkKernel}
        | {"language": nl, "isa": nisa, "typing": nt, "compiler": ncc, "tensor": annotation},
        frozenset(),
    )
    root = NkiModule("neuronxcc", {"nki": nki})
    nl.__dict__["par_dim"] = ParDim
    return {m.__name__: m for m in (root, nki, nl, nisa, ncc, constants, nt)}
