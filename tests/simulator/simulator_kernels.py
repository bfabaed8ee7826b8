"""Helpers that trace, check and execute kernels in this process, without the worker."""

from __future__ import annotations

import textwrap

import numpy as np

from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.frontend.run import TraceRequest, TraceResult, trace_kernel
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.numerics.execute import ExecutionResult, Executor
from accelopt_simulator.trace.schema import Trace
from accelopt_simulator.verdict import LatencyReport

HEADER = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa

"""
HEADER_LINES = HEADER.count("\n")


def whole_kernel(text):
    """A full kernel file from the text of its functions."""
    return HEADER + textwrap.dedent(text).strip("\n") + "\n"


def trace(text, *arguments, grid=()) -> TraceResult:
    """Trace the function `kernel` of a text; arrays stand for their shape and type."""
    specs = tuple((a.shape, a.dtype.name) if isinstance(a, np.ndarray) else a for a in arguments)
    return trace_kernel(
        TraceRequest(text=whole_kernel(text), entry="kernel", arguments=specs, grid=grid)
    )


def traced(text, *arguments, grid=()) -> Trace:
    """The trace of a kernel that must trace."""
    result = trace(text, *arguments, grid=grid)
    assert result.status == "ok", result.diagnostics
    assert result.trace is not None
    return result.trace


def findings(text, *arguments, bits=8, grid=()) -> list[Diagnostic]:
    """What a kernel is rejected for, in the front end or in the constraints."""
    result = trace(text, *arguments, grid=grid)
    if result.trace is None:
        return [Diagnostic.model_validate(d) for d in result.diagnostics]
    return check_constraints(result.trace, TRN1, min_float_bits=bits)


def rules(text, *arguments, bits=8, grid=()) -> list[str]:
    """Rules that a kernel breaks, in the front end or in the constraints."""
    return [finding.rule for finding in findings(text, *arguments, bits=bits, grid=grid)]


def execute(text, *arguments, grid=()) -> ExecutionResult:
    """Trace, check and execute a kernel."""
    found = traced(text, *arguments, grid=grid)
    findings = check_constraints(found, TRN1, min_float_bits=8)
    assert findings == []
    return Executor(found).run(arguments)


def run_kernel(text, *arguments, grid=()):
    """The kernel's first output."""
    return execute(text, *arguments, grid=grid).outputs[0]


def latency(text, *arguments) -> LatencyReport:
    """What the latency model says about a kernel."""
    found = traced(text, *arguments)
    assert check_constraints(found, TRN1, min_float_bits=8) == []
    return estimate_latency(found, TRN1, TRN1_TIMING)
