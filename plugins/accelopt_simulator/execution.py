"""How the simulator runs a kernel: its trace, with the executor."""

from __future__ import annotations

from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from accelopt.comparison import Execute, Execution
from accelopt.evaluation import Diagnostic
from accelopt.kernel import KernelArgument
from accelopt_simulator.numerics.execute import ExecutionResult, Executor
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace

MAX_HAZARDS = 10


def execute_trace(trace: Trace, analysis: Analysis) -> Execute:
    """A function that runs the trace on arguments."""
    executor = Executor(trace, analysis)

    def execute(arguments: Sequence[KernelArgument]) -> Execution:
        # Many small products on several BLAS threads can be a hundred times slower than on one.
        with threadpool_limits(limits=1):
            result = executor.run(arguments)
        return Execution(result.outputs, tuple(_hazards(result)))

    return execute


def _hazards(execution: ExecutionResult) -> list[Diagnostic]:
    found = []
    for rule, line in sorted(execution.hazards):
        name, _, function = rule.partition(":")
        found.append(
            Diagnostic(
                rule=name,
                message=f"{function} gets an input outside its valid range; its result is NaN",
                line=line or None,
                hint="use the vector engine's counterpart, or keep the input in range",
            )
        )
    return found[:MAX_HAZARDS]
