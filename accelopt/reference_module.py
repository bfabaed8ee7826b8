"""Turns a reference file - a few plain functions - into a `Reference`.

A reference file offers `get_inputs([seed])` and `forward(*inputs)`, and may offer
`transform_to_nki_inputs(inputs)`, `transform_nki_outputs(outputs, reference)`, `signature()`,
`work()`, `TITLE`, `TOLERANCE`, `SEEDS`, `GRID`, `MIN_FLOAT_BITS`, `MIX`, and `STRESS` with
`stress_inputs(name, seed)`: inputs of its own against shortcuts, each with its own tolerance::

    STRESS = {
        "large_logits": {"relative_l2": 2e-5},
        "small_outputs": {"elementwise": 1e-3, "floor": 1e-30},
    }
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accelopt.errors import TaskError
from accelopt.kernel import (
    MIX_INGREDIENTS,
    ArgumentSpec,
    Array,
    KernelArgument,
    StressCase,
    Work,
)

_GLOBAL_GENERATOR = threading.Lock()
"""Held while NumPy's global generator belongs to one `get_inputs()` call."""

_NO_DTYPE = frozenset({"float64", "int64", "uint64", "complex64", "complex128", "object"})


def load_reference(source: str, path: Path) -> ModuleType:
    """Execute the text of a reference file as a module of its own.

    Args:
        source: the text; may differ from what is in the file (a variant's sizes filled in).
        path: where it came from, for messages and tracebacks.

    Raises:
        TaskError: it does not parse, or fails while being imported.
    """
    digest = hashlib.sha256(f"{path}\0{source}".encode()).hexdigest()[:16]
    name = f"_accelopt_reference_{digest}"
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = getattr(error, "msg", error)
        raise TaskError(
            f"{path}{line}: {reason}", hint="the reference must parse as Python"
        ) from error
    module = ModuleType(name)
    module.__file__ = str(path)
    # Dataclasses look their module up by name.
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except Exception as error:
        del sys.modules[name]
        raise TaskError(
            f"{path}{_line_of(error, path)}: {type(error).__name__}: {error}",
            hint="the reference must import on its own",
        ) from error
    return module


def _line_of(error: BaseException, path: Path) -> str:
    """`, line n` of the innermost frame inside the file, if there is one."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


class ModuleReference:
    """A `Reference` made of a module's functions."""

    def __init__(self, module: ModuleType, path: Path) -> None:
        """Wrap `module`.

        Raises:
            TaskError: `get_inputs` or `forward` is missing.
        """
        self._module = module
        self._path = path
        for name in ("get_inputs", "forward"):
            if not callable(getattr(module, name, None)):
                raise TaskError(
                    f"{path} has no function {name}", hint=f"add `def {name}(...)` to the reference"
                )
        self._takes_seed = self._wants_seed()

    def _wants_seed(self) -> bool:
        parameters = inspect.signature(self._module.get_inputs).parameters.values()
        positional = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        required = [p for p in positional if p.default is p.empty]
        if len(required) > 1:
            raise TaskError(
                f"{self._path}: get_inputs takes {len(required)} arguments",
                hint="it is called as get_inputs(seed) or get_inputs()",
            )
        return bool(positional)

    def _call(self, name: str, *arguments: Any) -> Any:
        function: Callable[..., Any] = getattr(self._module, name)
        try:
            return function(*arguments)
        except TaskError:
            raise
        except Exception as error:
            raise TaskError(
                f"{self._path}{_line_of(error, self._path)}: {name} failed: "
                f"{type(error).__name__}: {error}",
                hint="run the reference on its own to see why",
            ) from error

    def inputs(self, seed: int) -> list[KernelArgument]:
        """Draw the natural inputs for a seed, in call order.

        A `get_inputs()` without a parameter draws from NumPy's global generator, which is seeded
        for the call and put back after it.

        Raises:
            TaskError: `get_inputs` failed or returned something else than arrays and numbers.
        """
        if self._takes_seed:
            drawn = self._call("get_inputs", seed)
        else:
            with _GLOBAL_GENERATOR:
                state = np.random.get_state()
                np.random.seed(seed)
                try:
                    drawn = self._call("get_inputs")
                finally:
                    np.random.set_state(state)
        return self._arguments("get_inputs", drawn)

    def stress_inputs(self, name: str, seed: int) -> list[KernelArgument]:
        """Draw the natural inputs of a stress case.

        Raises:
            TaskError: `stress_inputs` failed or returned something else than arrays and numbers.
        """
        return self._arguments("stress_inputs", self._call("stress_inputs", name, seed))

    def stress_cases(self) -> tuple[StressCase, ...]:
        """The file's `STRESS`, checked.

        Raises:
            TaskError: it is malformed, or there is no `stress_inputs`.
        """
        stated = getattr(self._module, "STRESS", {})
        try:
            cases = tuple(_stress_case(name, dict(rule)) for name, rule in dict(stated).items())
        except (TypeError, ValueError) as error:
            raise TaskError(
                f"{self._path}: STRESS is not usable: {error}",
                hint='write {"case": {"relative_l2": 2e-5}}, or "elementwise" and "floor"',
            ) from error
        if cases and not callable(getattr(self._module, "stress_inputs", None)):
            raise TaskError(
                f"{self._path} has STRESS, but no function stress_inputs",
                hint="add `def stress_inputs(name, seed)`, which returns inputs like get_inputs",
            )
        return cases

    def mix(self) -> tuple[str, ...]:
        """What may be mixed into nominal inputs: the file's `MIX`, else everything.

        Raises:
            TaskError: it is not a list of known ingredients.
        """
        stated = getattr(self._module, "MIX", MIX_INGREDIENTS)
        if isinstance(stated, list | tuple) and set(stated) <= set(MIX_INGREDIENTS):
            return tuple(name for name in MIX_INGREDIENTS if name in stated)
        raise TaskError(
            f"{self._path}: MIX is {stated!r}", hint=f"a list out of {', '.join(MIX_INGREDIENTS)}"
        )

    def _arguments(self, name: str, values: Any) -> list[KernelArgument]:
        if not isinstance(values, list | tuple):
            raise TaskError(
                f"{self._path}: {name} returned {type(values).__name__}",
                hint="return a list of arrays and numbers",
            )
        arguments: list[KernelArgument] = []
        for position, value in enumerate(values):
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, bool) or not isinstance(value, np.ndarray | float | int):
                raise TaskError(
                    f"{self._path}: {name} returned {type(value).__name__} at position {position}",
                    hint="only arrays, floats and ints can be kernel arguments",
                )
            arguments.append(value)
        return arguments

    def forward(self, inputs: Sequence[KernelArgument]) -> Array:
        """Compute the right answer from natural inputs.

        Raises:
            TaskError: `forward` failed or did not return one array.
        """
        result = self._call("forward", *inputs)
        if isinstance(result, list | tuple) and len(result) == 1:
            result = result[0]
        if not isinstance(result, np.ndarray):
            raise TaskError(
                f"{self._path}: forward returned {type(result).__name__}",
                hint="return one NumPy array",
            )
        return result

    def kernel_inputs(self, inputs: Sequence[KernelArgument]) -> list[KernelArgument]:
        """Lay natural inputs out as the kernel's arguments.

        Raises:
            TaskError: the transform failed, or an array has a type no kernel can take.
        """
        values: Any = list(inputs)
        if hasattr(self._module, "transform_to_nki_inputs"):
            values = self._call("transform_to_nki_inputs", values)
        arguments = self._arguments("transform_to_nki_inputs", values)
        for position, value in enumerate(arguments):
            if isinstance(value, np.ndarray) and value.dtype.name in _NO_DTYPE:
                raise TaskError(
                    f"{self._path}: kernel argument {position} is {value.dtype.name}",
                    hint="cast it, for example with .astype(np.float32)",
                )
        return arguments

    def natural_output(self, outputs: Sequence[Array], expected: Array) -> Array:
        """Lay the kernel's outputs out like the reference's output.

        Raises:
            ValueError: the kernel's outputs can't have that layout.
        """
        values: Any = tuple(outputs)
        if hasattr(self._module, "transform_nki_outputs"):
            # A transform fails because of what the kernel returned: that is the kernel's fault.
            try:
                values = self._module.transform_nki_outputs(values, expected)
            except Exception as error:
                raise ValueError(f"transform_nki_outputs: {error}") from error
            if isinstance(values, np.ndarray):
                values = (values,)
        if len(values) != 1:
            raise ValueError(f"{len(values)} outputs instead of 1")
        array = np.asarray(values[0])
        if array.shape == expected.shape:
            return array
        if hasattr(self._module, "transform_nki_outputs") or array.size != expected.size:
            raise ValueError(f"output shape {array.shape} does not fit {expected.shape}")
        return array.reshape(expected.shape)

    def signature(self, seed: int) -> tuple[tuple[ArgumentSpec, ...], tuple[int, ...]]:
        """Kernel arguments and natural output shape.

        From the file's `signature()` - a list with a shape or a number per kernel argument, and the
        output shape - where there is one; otherwise inputs are drawn and the reference is run.

        Raises:
            TaskError: `signature` returned something else, or drawing failed.
        """
        if hasattr(self._module, "signature"):
            declared = self._call("signature")
            try:
                arguments, output = declared
                specs = tuple(
                    ArgumentSpec(shape=tuple(int(n) for n in a))
                    if isinstance(a, list | tuple)
                    else _scalar_spec(a)
                    for a in arguments
                )
                return specs, tuple(int(n) for n in output)
            except (TypeError, ValueError) as error:
                raise TaskError(
                    f"{self._path}: signature() returned {declared!r}",
                    hint="return ([shape or number per kernel argument], output shape)",
                ) from error
        inputs = self.inputs(seed)
        drawn = tuple(
            ArgumentSpec(shape=a.shape, dtype=a.dtype.name)
            if isinstance(a, np.ndarray)
            else _scalar_spec(a)
            for a in self.kernel_inputs(inputs)
        )
        return drawn, self.forward(inputs).shape

    def work(self, arguments: Sequence[ArgumentSpec], output_shape: tuple[int, ...]) -> Work:
        """Roofline work: the file's `work()`, else bytes alone.

        Raises:
            TaskError: `work()` returned something else than the three counts.
        """
        if hasattr(self._module, "work"):
            counts = self._call("work")
            try:
                return Work(**{key: int(value) for key, value in counts.items()})
            except Exception as error:
                raise TaskError(
                    f"{self._path}: work() returned {counts!r}",
                    hint="return a dict with hbm_bytes, matmul_flops and vector_flops",
                ) from error
        sizes = [4 * int(np.prod(output_shape))]
        sizes += [int(np.prod(a.shape)) * item_bytes(a.dtype) for a in arguments if a.value is None]
        return Work(hbm_bytes=sum(sizes), from_bytes_alone=True)


def _stress_case(name: str, rule: dict[str, float]) -> StressCase:
    floor = float(rule.pop("floor", 0.0))
    if len(rule) != 1:
        raise ValueError(f"{name} states {len(rule)} metrics instead of one")
    ((metric, tolerance),) = rule.items()
    return StressCase(name=str(name), metric=metric, tolerance=float(tolerance), floor=floor)


def item_bytes(dtype: str) -> int:
    """Bytes of one element, ml_dtypes names included."""
    return numpy_type(dtype).itemsize


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The NumPy type of a name, ml_dtypes names included."""
    try:
        return np.dtype(dtype)
    except TypeError:
        import ml_dtypes  # takes over a second: only for types that NumPy does not know

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
        return small


def _scalar_spec(value: float | int) -> ArgumentSpec:
    if isinstance(value, bool) or not isinstance(value, float | int):
        raise TypeError(f"{value!r} is neither a shape nor a number")
    return ArgumentSpec(dtype="int" if isinstance(value, int) else "float", value=value)
