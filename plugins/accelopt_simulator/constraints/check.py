"""All checks of a trace, in the order in which later ones may rely on earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accelopt.device import DeviceSpec
from accelopt.evaluation import Diagnostic
from accelopt_simulator.constraints.attributes import check_attributes
from accelopt_simulator.constraints.bounds import check_bounds
from accelopt_simulator.constraints.context import Context
from accelopt_simulator.constraints.dependencies import (
    check_output_dependencies,
    check_outputs_written,
    check_precision,
)
from accelopt_simulator.constraints.indirect import check_indirect
from accelopt_simulator.constraints.memory import check_operands, check_tensors
from accelopt_simulator.constraints.numbers import check_numbers
from accelopt_simulator.constraints.structure import check_structure
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace

MAX_FINDINGS = 20

Check = Callable[[Context], Iterator[Diagnostic]]

FIRST: tuple[Check, ...] = (check_structure,)
THEN: tuple[Check, ...] = (
    check_attributes,
    check_indirect,
    check_tensors,
    check_operands,
    check_numbers,
    check_bounds,
    check_output_dependencies,
    check_outputs_written,
    check_precision,
)


def check_constraints(
    trace: Trace, device: DeviceSpec, *, min_float_bits: int = 32
) -> list[Diagnostic]:
    """Everything the compiler would reject, at most `MAX_FINDINGS` findings.

    Args:
        trace: a validated trace.
        device: what it is for.
        min_float_bits: least floating-point precision of the task.
    """
    context = Context(trace, Analysis(trace), device, min_float_bits)
    for checks in (FIRST, THEN):
        findings: list[Diagnostic] = []
        for check in checks:
            for finding in check(context):
                if finding not in findings:
                    findings.append(finding)
                if len(findings) >= MAX_FINDINGS:
                    return findings
        if findings:
            return findings
    return []
