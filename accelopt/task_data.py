"""Inputs and right answers of a task, drawn once per seed and shared by all judges of a run."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelopt.input_checks import CheckInputs, PlannedCheck, draw
from accelopt.kernel import KernelArgument, KernelTask
from accelopt.reference_module import numpy_type


class TaskData:
    """Draws, keeps and reloads what a kernel is compared on.

    Args:
        task: the task.
        cache_dir: folder shared between processes; arrays there are memory-mapped, so all judges
            share one copy in the page cache. None keeps everything in this process.
    """

    def __init__(self, task: KernelTask, cache_dir: Path | None) -> None:
        self.task = task
        self.folder = None if cache_dir is None else cache_dir / task.fingerprint[:24]
        self._memory: dict[int, tuple[list[KernelArgument], NDArray[Any]]] = {}
        self._checks: dict[str, CheckInputs] = {}

    def load(self, seed: int) -> tuple[list[KernelArgument], NDArray[Any]]:
        """Kernel arguments and the right answer for a seed; arrays are read-only."""
        if seed not in self._memory:
            self._memory[seed] = (
                self._draw(seed)
                if self.folder is None
                else self._shared(seed, self.folder / str(seed))
            )
        return self._memory[seed]

    def load_check(self, planned: PlannedCheck) -> CheckInputs:
        """Inputs and right answer of a check; those of a stress case serve all kernels.

        Raises:
            TaskError: the reference failed, or is not finite on these inputs.
        """
        if planned.case is None:
            return draw(self.task, planned)
        if planned.name not in self._checks:
            self._checks[planned.name] = self._shared_check(planned)
        return self._checks[planned.name]

    def _draw(self, seed: int) -> tuple[list[KernelArgument], NDArray[Any]]:
        reference = self.task.reference
        inputs = reference.inputs(seed)
        with np.errstate(all="ignore"):
            expected = np.asarray(reference.forward(inputs))
        arguments = reference.kernel_inputs(inputs)
        for array in (*arguments, expected):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        return arguments, expected

    def _shared_check(self, planned: PlannedCheck) -> CheckInputs:
        if self.folder is None:
            return draw(self.task, planned)
        folder = self.folder / f"{planned.name.replace(':', '-')}-{planned.seed}"
        if not folder.exists():
            drawn = draw(self.task, planned)
            self._write(folder, drawn.arguments, drawn.expected)
        arguments, expected = self._read(folder)
        tolerance = planned.case.tolerance if planned.case else self.task.relative_l2_tolerance
        return CheckInputs(arguments, expected, tolerance, expected.dtype.name)

    def _shared(self, seed: int, folder: Path) -> tuple[list[KernelArgument], NDArray[Any]]:
        if not folder.exists():
            self._write(folder, *self._draw(seed))
        return self._read(folder)

    def _read(self, folder: Path) -> tuple[list[KernelArgument], NDArray[Any]]:
        expected = np.load(folder / "expected.npy", mmap_mode="r", allow_pickle=False)
        arguments: list[KernelArgument] = []
        for index, spec in enumerate(self.task.arguments):
            if spec.value is not None:
                arguments.append(spec.value)
            else:
                path = folder / f"argument{index}.npy"
                stored = np.load(path, mmap_mode="r", allow_pickle=False)
                if stored.dtype.kind == "V":  # the format has no names for bfloat16 and its like
                    stored = stored.view(numpy_type(spec.dtype))
                arguments.append(stored)
        return arguments, expected

    def _write(self, folder: Path, arguments: list[KernelArgument], expected: NDArray[Any]) -> None:
        """Write next to the target and rename: two judges may draw the same seed, one wins."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            for index, argument in enumerate(arguments):
                if isinstance(argument, np.ndarray):
                    np.save(scratch / f"argument{index}.npy", np.ascontiguousarray(argument))
            named = expected if expected.dtype.kind != "V" else expected.astype(np.float32)
            np.save(scratch / "expected.npy", named)
            with contextlib.suppress(OSError):
                os.rename(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
