"""The Neuron Runtime, libnrt, through ctypes: load a program, run it, read what it wrote.

Declarations follow the public headers `nrt/nrt.h`, `nrt/nrt_experimental.h` (tensor information),
`nrt/nrt_profile.h` and `nrt/nrt_status.h`. Used in the judge's device process only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUCCESS = 0
COMPLETED_WITH_NUM_ERR = 1003
"""The program ran to its end and produced NaN: its outputs stand, and are compared."""
STATUS_NAMES = {
    1: "NRT_FAILURE", 2: "NRT_INVALID", 3: "NRT_INVALID_HANDLE", 4: "NRT_RESOURCE",
    5: "NRT_TIMEOUT", 6: "NRT_HW_ERROR", 7: "NRT_QUEUE_FULL", 9: "NRT_LOAD_NOT_ENOUGH_NC",
    10: "NRT_UNSUPPORTED_NEFF_VERSION", 11: "NRT_FAIL_HOST_MEM_ALLOC", 13: "NRT_UNINITIALIZED",
    14: "NRT_CLOSED", 15: "NRT_QUEUE_EMPTY", 101: "NRT_EXEC_UNIT_UNRECOVERABLE",
    1002: "NRT_EXEC_BAD_INPUT", 1003: "NRT_EXEC_COMPLETED_WITH_NUM_ERR",
    1004: "NRT_EXEC_COMPLETED_WITH_ERR", 1005: "NRT_EXEC_NC_BUSY", 1006: "NRT_EXEC_OOB",
    1100: "NRT_COLL_PENDING", 1200: "NRT_EXEC_HW_ERR_COLLECTIVES", 1201: "NRT_EXEC_HW_ERR_HBM_UE",
    1202: "NRT_EXEC_HW_ERR_NC_UE", 1203: "NRT_EXEC_HW_ERR_DMA_ABORT",
    1204: "NRT_EXEC_SW_NQ_OVERFLOW", 1205: "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE",
    1206: "NRT_NETWORK_PROXY_FAILURE",
}  # fmt: skip

_NO_FRAMEWORK, _ON_DEVICE, _INPUT = 1, 0, 0
_NAME_BYTES = 256
MAX_TENSORS = 256
POISON = 0xFF
"""Every output byte before a run: what a program does not write reads as NaN."""

# Two numberings of nrt_dtype_t are in use; a program's inputs tell which, since their types are
# known. The first is that of the older headers, the second of those from SDK 2.29 or so on.
_OLD_TYPES = {
    1: "float32", 2: "float16", 3: "bfloat16", 4: "int8", 5: "uint8", 6: "int16", 7: "uint16",
    8: "int32", 9: "uint32", 10: "int64", 11: "uint64",
}  # fmt: skip
_NEW_TYPES = {
    0xA: "float32", 0xB: "float32", 0x7: "float16", 0x6: "bfloat16", 0x2: "int8", 0x3: "uint8",
    0x4: "int16", 0x5: "uint16", 0x8: "int32", 0x9: "uint32", 0xC: "int64", 0x1: "uint64",
}  # fmt: skip


class NrtError(Exception):
    """A call of the runtime that failed.

    Attributes:
        call: name of the function.
        status: its NRT_STATUS.
    """

    def __init__(self, call: str, status: int) -> None:
        super().__init__(f"{call}: {STATUS_NAMES.get(status, 'status')} ({status})")
        self.call, self.status = call, status


class _TensorInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * _NAME_BYTES),
        ("usage", ctypes.c_int),
        ("size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("ndim", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a program.

    Attributes:
        name: in the program.
        is_input: whether it is read.
        size: in bytes.
        dtype: NRT type code.
        shape: its shape; empty when the program does not say.
    """

    name: str
    is_input: bool
    size: int
    dtype: int
    shape: tuple[int, ...]


def element_type(
    code: int, known: Sequence[tuple[int, str]], expected: str = "float32"
) -> np.dtype[Any]:
    """The NumPy type of an NRT code.

    Args:
        code: of the tensor in question.
        known: codes of tensors whose types are known.
        expected: what to take it for if neither numbering has it.
    """
    for numbering in (_OLD_TYPES, _NEW_TYPES):
        if all(numbering.get(other) == name for other, name in known):
            expected = numbering.get(code, expected)
            break
    try:
        return np.dtype(expected)
    except TypeError:
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, expected))
        return small


class Runtime:
    """The runtime of this process, on the cores that `NEURON_RT_VISIBLE_CORES` names.

    Args:
        library: path of libnrt.

    Raises:
        OSError: it can't be loaded.
        NrtError: no core is to be had.
    """

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.library.nrt_close.restype = None
        self.library.nrt_destroy_tensor_set.restype = None
        self.library.nrt_tensor_free.restype = None
        self.call("nrt_init", ctypes.c_int(_NO_FRAMEWORK), b"", b"")

    def call(self, name: str, *arguments: Any) -> None:
        """One call that returns a status.

        Raises:
            NrtError: it is not success.
        """
        status = int(getattr(self.library, name)(*arguments))
        if status != SUCCESS:
            raise NrtError(name, status)

    def close(self) -> None:
        """Give the cores back."""
        self.library.nrt_close()


class Model:
    """A loaded program with memory for its tensors.

    Args:
        runtime: the runtime.
        neff: the program.

    Attributes:
        inputs, outputs: its tensors, in the program's order.

    Raises:
        NrtError: it can't be loaded.
    """

    def __init__(self, runtime: Runtime, neff: bytes) -> None:
        self._runtime = runtime
        self._handle = ctypes.c_void_p()
        runtime.call(
            "nrt_load",
            neff,
            ctypes.c_size_t(len(neff)),
            ctypes.c_int32(0),
            ctypes.c_int32(-1),
            ctypes.byref(self._handle),
        )
        found = self._tensors()
        self.inputs = [tensor for tensor in found if tensor.is_input]
        self.outputs = [tensor for tensor in found if not tensor.is_input]
        self._memory: dict[str, ctypes.c_void_p] = {}
        self._sets: list[ctypes.c_void_p] = []

    def _tensors(self) -> list[TensorInfo]:
        call, pointer = self._runtime.call, ctypes.c_void_p()
        call("nrt_get_model_tensor_info", self._handle, ctypes.byref(pointer))
        address = pointer.value or 0
        count = min(ctypes.c_uint64.from_address(address).value, MAX_TENSORS)
        array = (_TensorInfo * count).from_address(address + ctypes.sizeof(ctypes.c_uint64))
        found = [
            TensorInfo(
                name=info.name.decode("utf-8", "replace"),
                is_input=info.usage == _INPUT,
                size=info.size,
                dtype=info.dtype,
                shape=tuple(info.shape[i] for i in range(min(info.ndim, 16))) if info.shape else (),
            )
            for info in array
        ]
        call("nrt_free_model_tensor_info", pointer)
        return found

    def allocate(self) -> None:
        """Give every tensor its memory on the device.

        Raises:
            NrtError: there is not enough.
        """
        call = self._runtime.call
        for tensors in (self.inputs, self.outputs):
            group = ctypes.c_void_p()
            call("nrt_allocate_tensor_set", ctypes.byref(group))
            self._sets.append(group)
            for tensor in tensors:
                name = tensor.name.encode()
                memory = ctypes.c_void_p()
                call(
                    "nrt_tensor_allocate",
                    ctypes.c_int(_ON_DEVICE),
                    ctypes.c_int(0),
                    ctypes.c_size_t(tensor.size),
                    name,
                    ctypes.byref(memory),
                )
                call("nrt_add_tensor_to_tensor_set", group, name, memory)
                self._memory[tensor.name] = memory

    def write(self, tensor: TensorInfo, content: NDArray[Any]) -> None:
        """Fill an input; the content has exactly its size."""
        plain = np.ascontiguousarray(content)
        self._runtime.call(
            "nrt_tensor_write",
            self._memory[tensor.name],
            ctypes.c_void_p(plain.ctypes.data),
            ctypes.c_size_t(0),
            ctypes.c_size_t(plain.nbytes),
        )

    def poison_outputs(self) -> None:
        """Overwrite whatever an earlier run, or anybody else, left in the outputs."""
        for tensor in self.outputs:
            self.write(tensor, np.full(tensor.size, POISON, np.uint8))

    def read(self, tensor: TensorInfo) -> NDArray[Any]:
        """An output, as bytes."""
        content = np.empty(tensor.size, np.uint8)
        self._runtime.call(
            "nrt_tensor_read",
            self._memory[tensor.name],
            ctypes.c_void_p(content.ctypes.data),
            ctypes.c_size_t(0),
            ctypes.c_size_t(tensor.size),
        )
        return content

    def execute(self) -> None:
        """Run once.

        Raises:
            NrtError: it did not end well.
        """
        try:
            self._runtime.call("nrt_execute", self._handle, *self._sets)
        except NrtError as error:
            if error.status != COMPLETED_WITH_NUM_ERR:
                raise

    def profile(self, ntff: str) -> None:
        """Run once under the device's profiler.

        Args:
            ntff: file for the profile.

        Raises:
            NrtError: it did not end well.
        """
        name = ntff.encode()
        self._runtime.call("nrt_profile_start", self._handle, name)
        try:
            self.execute()
        finally:
            self._runtime.call("nrt_profile_stop", name)
