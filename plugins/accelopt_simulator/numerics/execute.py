"""Executes a trace on NumPy arrays.

Loops run in program order; each instruction instance is one or a few NumPy calls on views of the
storage, so a tile's work is done while it is in cache. Constraints must have passed: the executor relies
on shapes that fit and indices in range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.isa import OPS
from accelopt_simulator.numerics.rules import RULES
from accelopt_simulator.numerics.storage import Storage, plan_layouts, storage_bytes
from accelopt_simulator.numerics.views import Env, Predicate, View, Window
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import OperandKind, TensorRole, Trace

MAX_INSTANCES = 20_000_000
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


def check_work(trace: Trace, analysis: Analysis) -> None:
    """Bound work and memory before anything runs.

    Raises:
        WorkLimitError: a bound is exceeded; says which.
    """
    instances = 0
    work = 0.0
    weights = _weights(trace)
    per_loop: dict[int, int] = {}
    for instruction, loop in enumerate(analysis.innermost):
        if loop not in per_loop:
            per_loop[int(loop)] = analysis.instances(int(loop))
        count = per_loop[int(loop)]
        instances += count
        work += count * weights[instruction]
    if instances > MAX_INSTANCES:
        raise WorkLimitError(f"{instances} instruction instances, at most {MAX_INSTANCES}")
    if work > MAX_WORK:
        raise WorkLimitError(f"{work:.3g} element operations, at most {MAX_WORK:.3g}")
    size = storage_bytes(plan_layouts(analysis))
    if size > MAX_STORAGE_BYTES:
        raise StorageLimitError(f"{size} bytes of tensors, at most {MAX_STORAGE_BYTES}")


def _weights(trace: Trace) -> list[float]:
    """Rough element operations of one instance of each instruction."""
    sizes = np.multiply.reduceat(
        np.append(trace.access_grid, 1).astype(np.float64), trace.access_grid_start[:-1]
    ) if len(trace.access_tensor) else np.zeros(0)  # fmt: skip
    weights = []
    for instruction in range(trace.num_instructions):
        elements = 1.0
        for _, kind, ref in trace.operands(instruction):
            if kind is OperandKind.ACCESS:
                elements = max(elements, float(sizes[ref]))
        if trace.ops[trace.ins_op[instruction]] == "nc_matmul":
            elements *= 128
        weights.append(elements)
    return weights


class Executor:
    """A trace made ready to run; `run` may be called with several inputs."""

    def __init__(self, trace: Trace, analysis: Analysis | None = None) -> None:
        self.trace = trace
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
        children = [c for c in range(trace.num_loops) if trace.loop_parent[c] == loop]
        steps: list[Callable[[Env], None]] = []
        position = first
        for child in children:
            steps += [self._step(i, inputs, hazards) for i in range(position, trace.loop_first[child])]
            steps.append(self._loop(child, self._compile(child, inputs, hazards)))
            position = int(trace.loop_last[child])
        steps += [self._step(i, inputs, hazards) for i in range(position, last)]
        return steps

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
        spec = OPS[trace.ops[trace.ins_op[instruction]]]
        apply = RULES[spec.name](trace.attr(instruction))
        line = int(trace.ins_line[instruction])
        views: list[tuple[str, View, tuple[int, ...]]] = []
        immediates: dict[str, Any] = {}
        for role, kind, ref in trace.operands(instruction):
            if kind is OperandKind.IMMEDIATE:
                immediates[role] = float(trace.immediate[ref])
                continue
            tensor = analysis.storage(int(trace.access_tensor[ref]))
            array = inputs[tensor] if tensor in inputs else self.storage.arrays[tensor]
            view = View(analysis, ref, self.layouts[tensor], array)
            views.append((role, view, trace.access_shape(ref)))
        predicate = int(trace.ins_pred[instruction])
        if predicate < 0:

            def run(env: Env) -> None:
                operands = {role: view.at(env) for role, view, _ in views}
                operands.update(immediates)
                hazard = apply(operands, None)
                if hazard:
                    hazards.add((hazard, line))

            return run

        grids = {role: grid for role, _, grid in views}
        grid = grids["data"] if spec.grid == "data" else grids["dst"]
        condition = Predicate(analysis, predicate, grid)
        cut = _Cut(spec.name, grids, grid, trace.attr(instruction))

        def run_masked(env: Env) -> None:
            runs, window, where = condition.at(env)
            if not runs:
                return
            if window is None:
                operands = {role: view.at(env) for role, view, _ in views}
            else:
                operands = {role: view.at(env, cut.window(role, window)) for role, view, _ in views}
            operands.update(immediates)
            hazard = apply(operands, where)
            if hazard:
                hazards.add((hazard, line))

        return run_masked


class _Cut:
    """Carries a window of an instruction's grid over to each of its operands' grids."""

    def __init__(
        self,
        op: str,
        grids: dict[str, tuple[int, ...]],
        grid: tuple[int, ...],
        attrs: dict[str, Any],
    ) -> None:
        self.op = op
        self.grids = grids
        self.grid = grid
        self.axes = tuple(attrs.get("axes", ()))

    def window(self, role: str, window: Window) -> Window:
        """The part of an operand's grid that a window of the instruction's grid needs."""
        lows, highs = list(window[0]), list(window[1])
        own = self.grids[role]
        if self.op == "nc_matmul":
            if role == "stationary":
                return (0, lows[0]), (own[0], highs[0])
            if role == "moving":
                return (0, *lows[1:]), (own[0], *highs[1:])
            return lows, highs
        if self.op == "nc_transpose" and role == "dst":
            return lows[::-1], highs[::-1]
        if self.op == "tensor_reduce" and role == "dst":
            kept = [a for a in range(len(self.grid)) if a not in self.axes]
            low, high = [lows[a] for a in kept], [highs[a] for a in kept]
            # The result keeps at least two axes, or all of them with size 1.
            return _spread(own, self.grid, kept, low, high)
        if own == self.grid:
            return lows, highs
        return (lows[0], 0), (highs[0], 1)  # a (P, 1) column


def _spread(
    own: tuple[int, ...], grid: tuple[int, ...], kept: list[int], low: list[int], high: list[int]
) -> Window:
    if len(own) == len(grid):  # keepdims
        lows, highs = [0] * len(own), list(own)
        for axis, lo, hi in zip(kept, low, high, strict=True):
            lows[axis], highs[axis] = lo, hi
        return lows, highs
    extra = len(own) - len(kept)
    return [*low, *([0] * extra)], [*high, *([1] * extra)]
