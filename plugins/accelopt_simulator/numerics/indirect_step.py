"""One step of an execution for copies with run-time indices or read-modify-write on HBM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.numerics.indirect import IndirectView, is_indirect
from accelopt_simulator.numerics.rules import as_f32, deliver
from accelopt_simulator.numerics.storage import Layout
from accelopt_simulator.numerics.views import Env, Predicate, View
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace
from accelopt_simulator.trace.windows import OperandWindows


def needs_indirect_step(trace: Trace, instruction: int) -> bool:
    """Whether an instruction has run-time indices, or adds to its destination in HBM."""
    if "rmw" in trace.attr(instruction):
        return True
    return any(is_indirect(trace, ref) for role, _, ref in trace.operands(instruction) if role in (
        "dst", "src",
    ))  # fmt: skip


def indirect_step(
    analysis: Analysis,
    instruction: int,
    layouts: dict[int, Layout],
    arrays: dict[int, NDArray[Any]],
) -> Callable[[Env], None]:
    """The step of a copy: gather, cast, scatter."""
    trace = analysis.trace
    attrs = trace.attr(instruction)
    add, skip = attrs.get("rmw") == "add", attrs.get("oob") == "skip"
    refs = {role: ref for role, _, ref in trace.operands(instruction)}

    def view_of(role: str) -> View | IndirectView:
        ref = refs[role]
        if is_indirect(trace, ref):
            return IndirectView(analysis, ref, layouts, arrays, skip=skip)
        owner = analysis.storage(int(trace.access_tensor[ref]))
        return View(analysis, ref, layouts[owner], arrays[owner])

    source, target = view_of("src"), view_of("dst")
    dtype = arrays[analysis.storage(int(trace.access_tensor[refs["dst"]]))].dtype
    windows = OperandWindows(trace, instruction)
    predicate = int(trace.ins_pred[instruction])
    condition = Predicate(analysis, predicate, windows.grid) if predicate >= 0 else None

    def run(env: Env) -> None:
        runs, window, where = condition.at(env) if condition is not None else (True, None, None)
        if not runs:
            return
        if isinstance(source, IndirectView):
            values, inside = source.gather(env, window)
            where = inside if where is None else inside & where
        else:
            values = source.at(env) if window is None else source.at(env, window)
        if values.dtype != dtype:
            cast = np.empty(values.shape, dtype)
            deliver(as_f32(values), cast, None)
            values = cast
        if isinstance(target, IndirectView):
            target.scatter(env, window, values, where, add=add)
            return
        place = target.at(env) if window is None else target.at(env, window)
        chosen = True if where is None else where
        np.copyto(place, place + values if add else values, where=chosen)

    return run
