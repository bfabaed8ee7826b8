"""A person's own kernel as a task, and finding any task again from its locator."""

from __future__ import annotations

import math
from pathlib import Path

from accelopt.entry_point import detect_dialect, find_entry
from accelopt.errors import TaskError
from accelopt.kernel import MAX_GRID, PUBLISHED_SEEDS, KernelSource, KernelTask
from accelopt.plugins import installed
from accelopt.reference_module import ModuleReference, item_bytes, load_reference

DEFAULT_TOLERANCE = 2e-5
"""Relative L2 tolerance when the reference names none: NKIBench's usual one."""

_FILE = "file:"
_TASK = "task:"
_SEPARATOR = "|"


def load_user_task(kernel_path: Path | str, reference_path: Path | str) -> KernelTask:
    """Build a task from a kernel file and a reference file.

    The reference offers `get_inputs([seed])` and `forward(*inputs)`; see
    `accelopt.reference_module` for what else it may offer.

    Raises:
        TaskError: one of the files can't be used; the message says where and why.
    """
    kernel_file, reference_file = Path(kernel_path).resolve(), Path(reference_path).resolve()
    text = _read(kernel_file, "kernel")
    entry = find_entry(text, str(kernel_file))
    reference_source = _read(reference_file, "reference")
    module = load_reference(reference_source, reference_file)
    reference = ModuleReference(module, reference_file)
    seeds = _seeds(getattr(module, "SEEDS", PUBLISHED_SEEDS), reference_file)
    arguments, output_shape = reference.signature(seeds[0])
    # A kernel on 16-bit inputs may compute in 16 bits, one on 32-bit inputs may not.
    floats = [8 * item_bytes(a.dtype) for a in arguments if a.value is None and "float" in a.dtype]
    return KernelTask(
        name=f"user/{kernel_file.stem}",
        title=str(getattr(module, "TITLE", kernel_file.stem)),
        reference=reference,
        reference_source=reference_source,
        baseline=KernelSource(
            text=text,
            dialect=detect_dialect(text, str(kernel_file)),
            entry=entry,
            filename=kernel_file.name,
            grid=_grid(getattr(module, "GRID", ()), reference_file),
        ),
        arguments=arguments,
        output_shape=output_shape,
        relative_l2_tolerance=_tolerance(
            getattr(module, "TOLERANCE", DEFAULT_TOLERANCE), reference_file
        ),
        work=reference.work(arguments, output_shape),
        seeds=seeds,
        locator=_file_locator(kernel_file, reference_file),
        min_float_bits=int(getattr(module, "MIN_FLOAT_BITS", min(floats, default=32))),
        stress=reference.stress_cases(),
        mix=reference.mix(),
    )


def load_task_by_locator(locator: str) -> KernelTask:
    """Build the task that `KernelTask.locator` names, in any process.

    Raises:
        TaskError: the locator is malformed, or the task can't be built any more.
    """
    if locator.startswith(_TASK):
        return installed().task(locator.removeprefix(_TASK))
    kernel, separator, reference = locator.removeprefix(_FILE).partition(_SEPARATOR)
    if not locator.startswith(_FILE) or not separator:
        raise TaskError(
            f"{locator!r} does not say where a task is",
            hint="write task:<suite/task> or file:<kernel path>|<reference path>",
        )
    return load_user_task(kernel, reference)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise TaskError(f"{what} file {path}: {reason}", hint="check the path") from error


def _file_locator(kernel: Path, reference: Path) -> str:
    for path in (kernel, reference):
        if _SEPARATOR in str(path):
            raise TaskError(
                f"the path {path} contains {_SEPARATOR!r}", hint="rename the file or its folder"
            )
    return f"{_FILE}{kernel}{_SEPARATOR}{reference}"


def _seeds(value: object, path: Path) -> tuple[int, ...]:
    if isinstance(value, list | tuple) and value and all(type(seed) is int for seed in value):
        return tuple(value)
    raise TaskError(f"{path}: SEEDS is {value!r}", hint="make it a non-empty list of ints")


def _grid(value: object, path: Path) -> tuple[int, ...]:
    extents = tuple(value) if isinstance(value, list | tuple) else (value,)
    positive = all(type(extent) is int and extent > 0 for extent in extents)
    if positive and math.prod(extents) <= MAX_GRID:
        return extents
    raise TaskError(
        f"{path}: GRID is {value!r}",
        hint=f"make it a tuple of positive ints, at most {MAX_GRID} instances in all",
    )


def _tolerance(value: object, path: Path) -> float:
    if isinstance(value, float) and 0 < value < 1:
        return value
    raise TaskError(f"{path}: TOLERANCE is {value!r}", hint="make it a float between 0 and 1")
