"""Comparisons on inputs that nobody can know in advance, beside the published seeds.

* `fresh`: nominal inputs from a seed that depends on this installation's key, the task and the
  kernel's trace, with awkward values mixed in. Every kernel gets its own, and the same ones again.
* `stress:<case>`: the task's own inputs against shortcuts that the published rule accepts.

Both are compared with the reference in float64 where that is affordable. A reference that is not
finite on what was mixed in has no right answer there: ingredients are left out until it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from accelopt.errors import TaskError
from accelopt.evaluation import InputCheck
from accelopt.install_key import derive_seed
from accelopt.kernel import (
    Array,
    KernelArgument,
    KernelTask,
    StressCase,
    elementwise_error,
    relative_l2_error,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accelopt.kernel import StressReference

FRESH, STRESS = "fresh", "stress:"

AFFORDABLE_S = 4.0
MATMUL_FLOPS_PER_S, VECTOR_FLOPS_PER_S = 1.5e10, 6e7
"""What one core does in float64 with NumPy, roughly: only for the choice of the precision."""
AFFORDABLE_BYTES = 1 << 30

CONDITION_FACTOR = 4.0
"""The tolerance of fresh inputs grows by this many errors of the float32 reference: what mixing
large values in costs any honest float32 kernel."""

_GIVE_UP_ORDER = (
    "negated", "large", "zeros", "denormal", "tiny", "one changed element", "repeated",
)  # fmt: skip


@dataclass(frozen=True)
class PlannedCheck:
    """A check and the seed of its inputs; `case` is None for the fresh one."""

    name: str
    seed: int
    case: StressCase | None = None


@dataclass(frozen=True)
class CheckInputs:
    """What a kernel is run on and compared with.

    Attributes:
        arguments: kernel arguments; arrays are read-only.
        expected: the right answer, float64 where affordable.
        tolerance: for this check's metric.
        reference: `float64` or `float32`.
        ingredients: what was mixed in.
    """

    arguments: list[KernelArgument]
    expected: Array
    tolerance: float
    reference: str
    ingredients: tuple[str, ...] = ()


def plan_checks(task: KernelTask, trace_hash: str, key: bytes) -> tuple[PlannedCheck, ...]:
    """The checks of a kernel, cheapest to draw first.

    Args:
        task: the task.
        trace_hash: of the kernel; on a backend without traces the hash of its source.
        key: this installation's key.
    """
    planned = []
    for case in task.stress:
        name = STRESS + case.name
        # The same for all kernels of an installation: the right answer is computed once.
        seed = task.check_seeds.get(name, derive_seed(key, name, task.fingerprint))
        planned.append(PlannedCheck(name, seed, case))
    seed = task.check_seeds.get(FRESH, derive_seed(key, FRESH, task.fingerprint, trace_hash))
    planned.append(PlannedCheck(FRESH, seed))
    return tuple(planned)


def draw(task: KernelTask, planned: PlannedCheck) -> CheckInputs:
    """Draw a check's inputs and compute the right answer.

    Raises:
        TaskError: the reference failed, or has no finite answer even on nominal inputs.
    """
    try:
        return _drawn(task, planned)
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(
            f"{task.name}: the inputs of its check {planned.name!r}, seed {planned.seed}, can't be "
            f"drawn: {type(error).__name__}: {error}",
            hint="any seed below 2**32 must give inputs",
        ) from error


def _drawn(task: KernelTask, planned: PlannedCheck) -> CheckInputs:
    import numpy as np

    reference = task.reference
    if planned.case is not None:
        inputs = cast("StressReference", reference).stress_inputs(planned.case.name, planned.seed)
        expected, precision, _ = _right_answer(task, inputs)
        _require_finite(task, planned.name, expected)
        tolerance = planned.case.tolerance
        ingredients: tuple[str, ...] = ()
    else:
        inputs, expected, precision, own_error, ingredients = _mixed(task, planned.seed)
        tolerance = task.relative_l2_tolerance + CONDITION_FACTOR * own_error
    arguments = reference.kernel_inputs(inputs)
    for array in (*arguments, expected):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return CheckInputs(arguments, expected, tolerance, precision, ingredients)


def compare(
    task: KernelTask, planned: PlannedCheck, drawn: CheckInputs, outputs: Sequence[Array]
) -> InputCheck:
    """A kernel's outputs on a check's inputs against the right answer."""
    import numpy as np

    case = planned.case
    metric = "relative_l2" if case is None else case.metric
    message, error = "", math.nan
    try:
        output = np.asarray(task.reference.natural_output(outputs, drawn.expected))
        if metric == "elementwise" and case is not None:
            error = elementwise_error(output, drawn.expected, case.floor)
        else:
            error = relative_l2_error(output, drawn.expected)
        if not math.isfinite(error):
            message = "output has NaN or inf"
    except ValueError as problem:
        message = str(problem)
    return InputCheck(
        name=planned.name,
        seed=planned.seed,
        metric=metric,
        error=None if message else error,
        tolerance=drawn.tolerance,
        ok=not message and error < drawn.tolerance,
        reference=drawn.reference,
        ingredients=drawn.ingredients,
        message=message,
    )


def _mixed(
    task: KernelTask, seed: int
) -> tuple[list[KernelArgument], Array, str, float, tuple[str, ...]]:
    """Nominal inputs with all ingredients that leave the reference finite."""
    from accelopt.stress import mixed

    nominal = task.reference.inputs(seed)
    # Without float64 nothing says what large values cost an honest kernel.
    chosen = [i for i in task.mix if i != "large" or float64_is_affordable(task)]
    for dropped in (None, *_GIVE_UP_ORDER):
        if dropped is not None and dropped not in chosen:
            continue
        chosen = [name for name in chosen if name != dropped]
        inputs = mixed(nominal, seed, chosen)
        try:
            expected, precision, own_error = _right_answer(task, inputs)
        except TaskError:
            if not chosen:
                raise
            continue  # it refuses what was mixed in
        if _is_finite(expected) and math.isfinite(own_error):
            return inputs, expected, precision, own_error, tuple(chosen)
    raise TaskError(
        f"{task.name}: the reference is not finite on nominal inputs, seed {seed}",
        hint="no kernel can be compared with NaN or inf: change the inputs or the reference",
    )


def _right_answer(task: KernelTask, inputs: list[KernelArgument]) -> tuple[Array, str, float]:
    """The reference's answer, its precision, and the relative L2 error of the float32 one."""
    import numpy as np

    with np.errstate(all="ignore"):
        single = np.asarray(task.reference.forward(inputs))
        if not float64_is_affordable(task) or not _is_finite(single):
            return single, single.dtype.name, 0.0
        wide = [
            value.astype(np.float64)
            if isinstance(value, np.ndarray) and value.dtype.kind in "fV"
            else value
            for value in inputs
        ]
        double = np.asarray(task.reference.forward(wide))
    if double.dtype != np.float64:
        return single, single.dtype.name, 0.0  # the reference casts by itself
    return double, "float64", relative_l2_error(single, double)


def float64_is_affordable(task: KernelTask) -> bool:
    """Whether the reference in float64 takes a few seconds and a gigabyte at most."""
    seconds = (
        task.work.matmul_flops / MATMUL_FLOPS_PER_S + task.work.vector_flops / VECTOR_FLOPS_PER_S
    )
    return seconds <= AFFORDABLE_S and 2 * task.work.hbm_bytes <= AFFORDABLE_BYTES


def _is_finite(array: NDArray[Any]) -> bool:
    import numpy as np

    if array.dtype.kind not in "fV":
        return True
    flat, step = array.reshape(-1), 1 << 20
    for at in range(0, flat.size, step):
        part = flat[at : at + step]
        # NumPy's isfinite does not know bfloat16 and its like.
        if not np.isfinite(part if part.dtype.kind == "f" else part.astype(np.float32)).all():
            return False
    return True


def _require_finite(task: KernelTask, name: str, expected: Array) -> None:
    if not _is_finite(expected):
        raise TaskError(
            f"{task.name}: the reference is not finite on the inputs of its check {name!r}",
            hint="no kernel can be compared with NaN or inf: change the inputs or the reference",
        )
