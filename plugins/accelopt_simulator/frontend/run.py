"""Runs a kernel file under the tracer and returns a trace or diagnostics. Worker side only."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from accelopt_simulator.frontend import operators
from accelopt_simulator.frontend.allocation import check_allocation
from accelopt_simulator.frontend.facades import noting_refusals
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.neuronxcc_nki.modules import KernelFunction, modules
from accelopt_simulator.frontend.parameters import (
    ArgumentSpec,
    declare_outputs,
    make_arguments,
)
from accelopt_simulator.frontend.rewrite import compile_kernel
from accelopt_simulator.frontend.sandbox import Sandbox
from accelopt_simulator.frontend.session import KERNEL_FILENAME, Session, tracing
from accelopt_simulator.trace.codec import MAX_BYTES
from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.schema import Trace
from accelopt_simulator.trace.validate import validate

DIALECT = "neuronxcc.nki"


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """What the worker is asked.

    Attributes:
        text: the kernel file.
        entry: name of its kernel function.
        arguments: per kernel argument `(shape, dtype name)`, or a plain number.
        grid: SPMD grid the kernel is launched with; empty for none.
        guarded: whether the kernel runs in the sandbox. Only tests of what lies behind it say no.
    """

    text: str
    entry: str
    arguments: tuple[ArgumentSpec, ...]
    grid: tuple[int, ...] = ()
    guarded: bool = True


@dataclass(kw_only=True)
class TraceResult:
    """A trace, or why there is none.

    Attributes:
        trace: the trace; None when the kernel broke a rule.
        status: `ok`, `load_error`, `unsupported_op`, `constraint_violation` or `rejected`.
        diagnostics: plain dictionaries with the fields of `accelopt.Diagnostic`: why there is no
            trace, or with a trace the warnings.
    """

    trace: Trace | None = None
    status: str = "ok"
    diagnostics: list[dict[str, Any]] = field(default_factory=list)


def trace_kernel(request: TraceRequest) -> TraceResult:
    """Run the kernel once, symbolically. Never raises for a kernel's fault."""
    with noting_refusals() as refusals:
        result = _result(request)
    if refusals:  # also when the kernel caught it
        return TraceResult(status="rejected", diagnostics=[_as_dict(refusals[0])])
    return result


def _check_size(trace: Trace) -> None:
    """What no decoder would take is the kernel's fault, and no forgery."""
    size = sum(array.nbytes for array in (*trace.columns.values(), *trace.constants))
    if size > MAX_BYTES - (1 << 20):
        raise TraceError(f"{size} bytes of trace, at most {MAX_BYTES}")


def _as_dict(fault: KernelFault) -> dict[str, Any]:
    return {
        "rule": fault.rule,
        "message": fault.message,
        "line": fault.line or _line_of(fault),
        "required": fault.required,
        "limit": fault.limit,
        "hint": fault.hint,
    }


def _result(request: TraceRequest) -> TraceResult:
    session = Session(DIALECT, request.entry)
    try:
        with nullcontext() if request.guarded else _dialect_modules():
            trace = _trace(request, session)
        validate(trace)
        _check_size(trace)
    except KernelFault as fault:
        return TraceResult(
            status="unsupported_op" if fault.unsupported else "constraint_violation",
            diagnostics=[_as_dict(fault)],
        )
    except SyntaxError as error:
        return _load_error("syntax_error", f"the file does not parse: {error.msg}", error.lineno)
    except RecursionError as error:
        return _load_error("recursion", "the kernel recurses too deeply", _line_of(error))
    except MemoryError:
        return TraceResult(
            status="out_of_memory",
            diagnostics=[{"rule": "memory_limit", "message": "the kernel ran out of memory"}],
        )
    except TraceError as error:
        return TraceResult(
            status="constraint_violation",
            diagnostics=[{"rule": "trace_limits", "message": f"the kernel is too large: {error}"}],
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever hostile code raises is its own fault
        name = type(error).__name__
        return _load_error(name, f"{name}: {_text(error)}", _line_of(error))
    return TraceResult(trace=trace, diagnostics=session.reported_warnings())


@contextmanager
def _dialect_modules() -> Iterator[None]:
    """Our modules under the SDK's names, as long as the kernel runs: kernels import in their body.

    Afterwards `sys.modules` is as before: in a caller's own process the real SDK may be loaded.
    """
    before = {name: module for name, module in sys.modules.items() if _of_dialect(name)}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules())
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _of_dialect(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _of_dialect(module: str) -> bool:
    return module.partition(".")[0] == "neuronxcc"


def _text(error: BaseException) -> str:
    """An exception's message; hostile ones may fail to give one."""
    try:
        return str(error)[:500]
    except Exception:  # noqa: BLE001
        return "no message"


def _trace(request: TraceRequest, session: Session) -> Trace:
    operators.install()
    code, names = compile_kernel(request.text, request.entry, guarded=request.guarded)
    unguarded: dict[str, Any] = {"__name__": "kernel_module", "__builtins__": __builtins__}
    namespace = (Sandbox().namespace() if request.guarded else unguarded) | names
    exec(code, namespace)  # no session yet: the file itself must not make NKI calls
    function = namespace.get(request.entry)
    if isinstance(function, KernelFunction):
        function = function.function
    if not callable(function):
        raise KernelFault("no_kernel", f"the file defines no function {request.entry!r}")
    with tracing(session):
        arguments = make_arguments(function, request.arguments, session)
        session.open_grid(request.grid)
        results = function(*arguments)
        session.check_finished()
        session.close_grid()
        try:
            declare_outputs(results, session)
        except KernelFault as fault:
            fault.line = function.__code__.co_firstlineno
            raise
        check_allocation(session)
        return session.builder.finish()


def _line_of(error: BaseException) -> int | None:
    """Innermost line of the kernel file in a traceback."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == KERNEL_FILENAME
    ]
    return lines[-1] if lines else None


def _load_error(rule: str, message: str, line: int | None) -> TraceResult:
    return TraceResult(
        status="load_error", diagnostics=[{"rule": rule, "message": message, "line": line}]
    )
