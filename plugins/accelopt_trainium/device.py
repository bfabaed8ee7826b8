"""Our side of a device process: one core, one or more programs on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accelopt.comparison import Execute, Execution
from accelopt.errors import AcceloptError
from accelopt.evaluation import Diagnostic, EvaluationStatus
from accelopt.kernel import Array, KernelArgument, KernelTask
from accelopt.process import frames
from accelopt.process.child import Child, clean_environment
from accelopt.reference_module import item_bytes
from accelopt_trainium.compiler import Program
from accelopt_trainium.nrt import STATUS_NAMES, TensorInfo, element_type

MODULE = "accelopt_trainium.device_main"
MAX_ANSWER_BYTES = 1 << 22
MAX_OUTPUT_FACTOR = 8
"""A program may not write more than this many times what the task's arrays hold together."""

_BUSY = frozenset([4, 7, 9, 1005])
_OUT_OF_MEMORY = frozenset([4, 11])
_BROKEN_DEVICE = frozenset([6, 13, 14, 101, 1200, 1201, 1202, 1203, 1204, 1205, 1206])


class KernelFailedError(Exception):
    """The kernel can't be loaded, or does not run to its end.

    Attributes:
        status: of the evaluation.
        diagnostic: what happened.
    """

    def __init__(self, status: EvaluationStatus, rule: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.diagnostic = Diagnostic(rule=rule, message=message, hint=hint)


class DeviceBrokenError(AcceloptError):
    """The device, the driver or the runtime failed; a kernel may have made it fail."""


class CoreBusyError(Exception):
    """The core is in somebody else's hands."""


class DeviceProcess:
    """A process that holds one core until it is closed, or this one ends.

    Args:
        library: path of libnrt.
        core: index of the core.
        folder: for inputs and outputs.
        deadline: `time.monotonic()` after which everything is given up.

    Raises:
        CoreBusyError: the core is taken.
        AcceloptError: the runtime does not start.
    """

    def __init__(self, library: Path, core: int, folder: Path, deadline: float) -> None:
        self.core, self._folder, self._deadline = core, folder, deadline
        self._child = Child(
            MODULE,
            cwd=str(folder),
            environment=clean_environment(
                NEURON_RT_VISIBLE_CORES=str(core),
                # One physical core each on Trainium 2 as well: the roofline's unit.
                NEURON_LOGICAL_NC_CONFIG="1",
                NEURON_RT_LOG_LEVEL="ERROR",
                HOME=str(folder),
                PATH=os.defpath,
            ),
        )
        try:
            self.ask({"what": "start", "library": str(library)}, starting=True)
        except BaseException:
            self.close()
            raise

    def load(self, program: Program) -> LoadedProgram:
        """Load a program and give its tensors memory.

        Raises:
            KernelFailedError: the runtime refuses it.
        """
        answer = self.ask({"what": "load", "neff": str(program.neff)})
        tensors = [
            TensorInfo(t["name"], t["is_input"], t["size"], t["dtype"], tuple(t["shape"]))
            for t in answer["tensors"]
        ]
        index = self._loaded
        self._loaded += 1
        return LoadedProgram(self, index, program, tensors, self._folder)

    _loaded = 0

    def ask(self, request: dict[str, Any], *, starting: bool = False) -> dict[str, Any]:
        """One request to the process (see `device_main`).

        Args:
            request: what to do.
            starting: whether the core is only now asked for.

        Raises:
            KernelFailedError: the program is at fault, or time is up.
            CoreBusyError: the core is taken.
            DeviceBrokenError: the runtime or the device failed.
        """
        try:
            frames.send(self._child.request_fd, request, deadline=self._deadline)
            message = frames.receive(
                self._child.result_fd, max_bytes=MAX_ANSWER_BYTES, deadline=self._deadline
            )
        except frames.FrameTimeoutError:
            raise KernelFailedError(
                EvaluationStatus.TIMEOUT,
                "device_timeout",
                f"core {self.core} did not finish ({request['what']}) within the time limit; its "
                "process was killed",
            ) from None
        except (frames.FrameError, OSError):
            message = None
        if message is None:
            code = self._child.end()
            raise DeviceBrokenError(
                f"the runtime's process on core {self.core} ended ({code}) while it was asked to "
                f"{request['what']}",
                hint="see `accelopt doctor --backend` for what the device does",
            )
        answer = message[0]
        if "broken" in answer:
            raise AcceloptError(f"core {self.core}: {answer['broken']}")
        if "failed" in answer:
            raise self._failure(request["what"], answer["failed"], starting=starting)
        return answer

    def _failure(self, what: str, failed: dict[str, Any], *, starting: bool) -> Exception:
        status, words = int(failed["status"]), str(failed["words"])
        if status in _BUSY and (starting or status == 1005):
            return CoreBusyError(f"core {self.core} is taken: {words}")
        if starting or status in _BROKEN_DEVICE:
            return DeviceBrokenError(
                f"core {self.core}: {words}",
                hint="the device or its driver is at fault: `accelopt doctor` says more",
            )
        if status == 10:
            return AcceloptError(
                f"the runtime does not take what the compiler made: {words}",
                hint="compiler and runtime are of different SDK releases; `accelopt doctor`",
            )
        if what in ("load", "allocate"):
            if status in _OUT_OF_MEMORY:
                return KernelFailedError(EvaluationStatus.OUT_OF_MEMORY, "device_memory", words)
            return KernelFailedError(EvaluationStatus.CONSTRAINT_VIOLATION, "load_refused", words)
        if status == 5:
            return KernelFailedError(EvaluationStatus.TIMEOUT, "device_timeout", words)
        if status == 1006:
            return KernelFailedError(
                EvaluationStatus.CONSTRAINT_VIOLATION, "err_tensor_access_out_of_bound", words
            )
        return KernelFailedError(
            EvaluationStatus.INCORRECT,
            STATUS_NAMES.get(status, "execution_failed").lower(),
            f"the device did not run it to its end: {words}",
        )

    def close(self) -> None:
        """End the process, which frees the core; safe to call twice."""
        self._child.end()


class LoadedProgram:
    """A program on a core."""

    def __init__(
        self,
        process: DeviceProcess,
        index: int,
        program: Program,
        tensors: list[TensorInfo],
        folder: Path,
    ) -> None:
        self._process, self._index, self._program = process, index, program
        self.inputs = [tensor for tensor in tensors if tensor.is_input]
        self.outputs = [tensor for tensor in tensors if not tensor.is_input]
        self._folder = folder
        self._positions: dict[str, int] = {}
        self._known: list[tuple[int, str]] = []

    def prepare(self, task: KernelTask) -> None:
        """Match the program's tensors with a task's arguments, and give them memory.

        Raises:
            KernelFailedError: they do not match.
        """
        arrays = [i for i, spec in enumerate(task.arguments) if spec.value is None]
        names = self._program.parameters
        by_name = {names[i]: i for i in arrays if i < len(names)}
        listed = [tensor.name for tensor in self.inputs]
        if set(listed) <= set(by_name):
            # A compiler leaves out what a kernel does not read.
            self._positions = {name: by_name[name] for name in listed}
        elif len(listed) == len(arrays):
            self._positions = dict(zip(listed, arrays, strict=True))
        else:
            raise _mismatch(f"inputs {', '.join(listed)} for {len(arrays)} arguments")
        total = 0
        for tensor in self.inputs:
            spec = task.arguments[self._positions[tensor.name]]
            size = int(np.prod(spec.shape)) * item_bytes(spec.dtype)
            total += size
            if tensor.size != size:
                raise _mismatch(f"{tensor.name} takes {tensor.size} bytes, the task passes {size}")
            self._known.append((tensor.dtype, spec.dtype))
        total += int(np.prod(task.output_shape)) * 8
        if not self.outputs:
            raise KernelFailedError(
                EvaluationStatus.CONSTRAINT_VIOLATION,
                "err_tensor_output_not_written_to",
                "the program has no output",
            )
        if sum(tensor.size for tensor in self.outputs) > MAX_OUTPUT_FACTOR * total:
            raise KernelFailedError(
                EvaluationStatus.OUT_OF_MEMORY, "output_size", "its outputs are far too large"
            )
        self._process.ask({"what": "allocate", "model": self._index})

    def executor(self) -> Execute:
        """A function that runs the program on a task's arguments."""

        def execute(arguments: Sequence[KernelArgument]) -> Execution:
            return Execution(self._run(arguments))

        return execute

    def _run(self, arguments: Sequence[KernelArgument]) -> list[Array]:
        inputs = {}
        for name, position in self._positions.items():
            path = self._folder / f"input{position}.bin"
            np.ascontiguousarray(arguments[position]).tofile(path)
            inputs[name] = str(path)
        outputs = [str(self._folder / f"output{i}.bin") for i in range(len(self.outputs))]
        self._process.ask(
            {"what": "run", "model": self._index, "inputs": inputs, "outputs": outputs}
        )
        return [
            _shaped(np.fromfile(path, np.uint8), tensor, self._known)
            for path, tensor in zip(outputs, self.outputs, strict=True)
        ]

    def profile(self, ntffs: Sequence[Path], *, warmups: int) -> None:
        """Run untimed launches, then one under the profiler for each file.

        Raises:
            KernelFailedError: it does not run to its end any more.
        """
        request = {"what": "profile", "model": self._index, "warmups": warmups}
        self._process.ask(request | {"ntffs": [str(path) for path in ntffs]})


def _shaped(content: Array, tensor: TensorInfo, known: list[tuple[int, str]]) -> Array:
    dtype = element_type(tensor.dtype, known)
    if content.nbytes % dtype.itemsize:
        raise _mismatch(f"{tensor.name} has {content.nbytes} bytes")
    array = content.view(dtype)
    return array.reshape(tensor.shape) if int(np.prod(tensor.shape)) == array.size else array


def _mismatch(message: str) -> KernelFailedError:
    return KernelFailedError(
        EvaluationStatus.CONSTRAINT_VIOLATION,
        "argument_mismatch",
        f"the program does not fit: {message}",
    )
