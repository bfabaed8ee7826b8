"""Executes a trace on NumPy arrays.

Loops run in program order; each instruction instance is one or a few NumPy calls on views of the
storage, so a tile's work is done while it is in cache. Constraints must have passed: the executor
relies on shapes that fit and indices in range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.dtypes import TFLOAT32
from accelopt_simulator.isa import OPS
from accelopt_simulator.numerics.batching import accumulation_loop
from accelopt_simulator.numerics.indirect_step import indirect_step, needs_indirect_step
from accelopt_simulator.numerics.rules import RULES, rounded
from accelopt_simulator.numerics.storage import Storage, plan_layouts, storage_bytes
from accelopt_simulator.numerics.views import Env, Predicate, View
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind, TensorRole, Trace
from accelopt_simulator.trace.windows import OperandWindows

MAX_INSTANCES = 20_000_000
MAX_ITERATIONS = 50_000_000
"""Loop iterations times nesting depth: what an enumeration of all loops holds in memory."""

MAX_STORAGE_BYTES = 8 << 30
MAX_WORK = 1 << 43
"""Multiply-adds and element operations together; the largest NKIBench task needs about 2**40."""


class WorkLimitError(Exception):
    """The trace asks for more work or memory than any honest kernel of its kind."""


class StorageLimitError(WorkLimitError):
    """The trace asks for more memory than any honest kernel of its kind."""


@dataclass
class ExecutionResult:
    """Outputs of one run.

    Attributes:
        outputs: in order of the kernel's results, as the kernel shapes them.
        hazards: numeric hazards met, as (rule, kernel line).
    """

    outputs: list[NDArray[Any]]
    hazards: set[tuple[str, int]] = field(default_factory=set)


def check_instances(trace: Trace, analysis: Analysis) -> None:
    """Bound the number of iterations and instruction instances before anything enumerates them.

    Raises:
        WorkLimitError: there are too many.
    """
    per_loop = [analysis.instances(loop) for loop in range(trace.num_loops)]
    iterations = sum(count * len(analysis.chain(loop)) for loop, count in enumerate(per_loop))
    if iterations > MAX_ITERATIONS:
        raise WorkLimitError(f"{iterations} loop iterations, at most {MAX_ITERATIONS}")
    counts = np.array([*per_loop, 1], dtype=np.int64)  # the last entry is for the top level
    instances = int(counts[analysis.innermost].sum())
    if instances > MAX_INSTANCES:
        raise WorkLimitError(f"{instances} instruction instances, at most {MAX_INSTANCES}")


def check_work(trace: Trace, analysis: Analysis) -> None:
    """Bound work and memory before anything is executed; `check_instances` has passed.

    Raises:
        WorkLimitError: a bound is exceeded; says which.
    """
    per_loop = [float(analysis.instances(loop)) for loop in range(trace.num_loops)]
    work = float(np.dot(np.array([*per_loop, 1.0])[analysis.innermost], _weights(trace)))
    if work > MAX_WORK:
        raise WorkLimitError(f"{work:.3g} element operations, at most {MAX_WORK:.3g}")
    size = storage_bytes(plan_layouts(analysis))
    if size > MAX_STORAGE_BYTES:
        raise StorageLimitError(f"{size} bytes of tensors, at most {MAX_STORAGE_BYTES}")


def _weights(trace: Trace) -> NDArray[np.float64]:
    """Rough element operations of one instance of each instruction."""
    weights = np.ones(trace.num_instructions)
    if not len(trace.access_tensor):
        return weights
    extents = np.append(trace.access_grid, 1).astype(np.float64)
    sizes = np.multiply.reduceat(extents, trace.access_grid_start[:-1])
    sizes[np.diff(trace.access_grid_start) == 0] = 1.0
    owner = np.repeat(np.arange(trace.num_instructions), np.diff(trace.ins_operand_start))
    chosen = trace.operand_kind == OperandKind.ACCESS
    np.maximum.at(weights, owner[chosen], sizes[trace.operand_ref[chosen]])
    matmuls = np.array([op == "nc_matmul" for op in trace.ops], dtype=bool)[trace.ins_op]
    weights[matmuls] *= 128
    return weights


class Executor:
    """A trace made ready to run; `run` may be called with several inputs.

    Args:
        trace: the trace.
        analysis: facts about it, if they are at hand.
        batched: whether loops of matmul accumulations may run as one product.
    """

    def __init__(
        self, trace: Trace, analysis: Analysis | None = None, *, batched: bool = True
    ) -> None:
        self.trace = trace
        self.batched = batched
        self.analysis = analysis or Analysis(trace)
        self.layouts = plan_layouts(self.analysis)
        self.storage = Storage(self.analysis, self.layouts)

    def run(self, arguments: Sequence[Any]) -> ExecutionResult:
        """Execute.

        Args:
            arguments: the kernel's arguments; arrays are read, never written.

        Returns:
            The outputs; they are valid until the next call.
        """
        trace = self.trace
        inputs: dict[int, NDArray[Any]] = {}
        for tensor in self.layouts:
            if trace.tensor_role[tensor] == TensorRole.INPUT:
                array = np.ascontiguousarray(arguments[trace.tensor_index[tensor]])
                inputs[tensor] = array.reshape(-1)
        hazards: set[tuple[str, int]] = set()
        env: Env = {}
        program = self._compile(-1, inputs, hazards)
        with np.errstate(all="ignore"):
            # Before anything is reset: whatever a proof of coverage got wrong shows as NaN.
            self.storage.poison_outputs()
            self.storage.reset(-1)
            for step in program:
                step(env)
        outputs = [t for t in self.layouts if trace.tensor_role[t] == TensorRole.OUTPUT]
        outputs.sort(key=lambda t: int(trace.tensor_index[t]))
        return ExecutionResult(
            [self.storage.arrays[t].reshape(trace.shape(t)) for t in outputs], hazards
        )

    def _compile(
        self, loop: int, inputs: dict[int, NDArray[Any]], hazards: set[tuple[str, int]]
    ) -> list[Callable[[Env], None]]:
        """Steps of a loop body (of the whole kernel for -1), inner loops as single steps."""
        trace = self.trace
        first = int(trace.loop_first[loop]) if loop >= 0 else 0
        last = int(trace.loop_last[loop]) if loop >= 0 else trace.num_instructions
        steps: list[Callable[[Env], None]] = []
        position = first
        for child in self.analysis.children(loop):
            steps += [
                self._step(i, inputs, hazards) for i in range(position, trace.loop_first[child])
            ]
            steps.append(self._inner(child, inputs, hazards))
            position = int(trace.loop_last[child])
        steps += [self._step(i, inputs, hazards) for i in range(position, last)]
        return steps

    def _inner(
        self, loop: int, inputs: dict[int, NDArray[Any]], hazards: set[tuple[str, int]]
    ) -> Callable[[Env], None]:
        """The step of an inner loop: one large product where it is a matmul accumulation."""
        if self.batched:
            arrays = self.storage.arrays | inputs
            whole = accumulation_loop(self.analysis, loop, self.layouts, arrays)
            if whole is not None:
                return whole
        return self._loop(loop, self._compile(loop, inputs, hazards))

    def _loop(self, loop: int, body: list[Callable[[Env], None]]) -> Callable[[Env], None]:
        trace, analysis, storage = self.trace, self.analysis, self.storage
        start, stop = int(trace.loop_start[loop]), int(trace.loop_stop[loop])
        step = int(trace.loop_step[loop])
        resets = loop in storage.resets

        def run(env: Env) -> None:
            for value in range(analysis.evaluate(start, env), analysis.evaluate(stop, env), step):
                env[loop] = value
                if resets:
                    storage.reset(loop)
                for action in body:
                    action(env)

        return run

    def _step(
        self, instruction: int, inputs: dict[int, NDArray[Any]], hazards: set[tuple[str, int]]
    ) -> Callable[[Env], None]:
        trace, analysis = self.trace, self.analysis
        if needs_indirect_step(trace, instruction):
            return indirect_step(analysis, instruction, self.layouts, self.storage.arrays | inputs)
        spec = OPS[trace.ops[trace.ins_op[instruction]]]
        apply = RULES[spec.name](trace.attr(instruction))
        results: list[str] = []
        line = int(trace.ins_line[instruction])
        views: list[tuple[str, View]] = []
        immediates: dict[str, Any] = {}
        for role, kind, ref in trace.operands(instruction):
            if kind is OperandKind.IMMEDIATE:
                immediates[role] = float(trace.immediate[ref])
                continue
            tensor = analysis.storage(int(trace.access_tensor[ref]))
            array = inputs[tensor] if tensor in inputs else self.storage.arrays[tensor]
            view = View(analysis, ref, self.layouts[tensor], array)
            views.append((role, view))
            narrow = trace.tensor_dtype[trace.access_tensor[ref]] == TFLOAT32
            if narrow and (role in spec.writes or role == "reduce_res"):
                results.append(role)
        if results:
            apply = rounded(apply, tuple(results))
        predicate = int(trace.ins_pred[instruction])
        if predicate < 0:

            def run(env: Env) -> None:
                operands = {role: view.at(env) for role, view in views}
                operands.update(immediates)
                hazard = apply(operands, None)
                if hazard:
                    hazards.add((hazard, line))

            return run

        windows = OperandWindows(trace, instruction)
        condition = Predicate(analysis, predicate, windows.grid)

        def run_masked(env: Env) -> None:
            runs, window, where = condition.at(env)
            if not runs:
                return
            if window is None:
                operands = {role: view.at(env) for role, view in views}
            else:
                operands = {role: view.at(env, windows.of(role, window)) for role, view in views}
            operands.update(immediates)
            hazard = apply(operands, where)
            if hazard:
                hazards.add((hazard, line))

        return run_masked
