"""The judge's device process: holds one core, runs compiled programs on the judge's inputs.

It runs our code and the vendor's runtime, never the candidate's Python. The process is the unit of
everything that can go wrong: a program that hangs ends with it, and the driver frees its core.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from accelopt.process import frames, linux
from accelopt_trainium.nrt import Model, NrtError, Runtime, TensorInfo

MAX_REQUEST_BYTES = 1 << 20


def main(request_fd: int, result_fd: int) -> int:
    """Serve requests until the pipe is closed."""
    linux.die_with_parent()
    server = _Server()
    while True:
        message = frames.receive(request_fd, max_bytes=MAX_REQUEST_BYTES)
        if message is None:
            server.close()
            return 0
        try:
            answer = server.serve(message[0])
        except NrtError as error:
            answer = {"failed": {"call": error.call, "status": error.status, "words": str(error)}}
        except (OSError, ValueError, MemoryError) as error:
            answer = {"broken": f"{type(error).__name__}: {error}"}
        frames.send(result_fd, answer)


class _Server:
    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._models: list[Model] = []

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request: `start`, `load`, `allocate`, `run` or `profile`."""
        what = request["what"]
        if what == "start":
            self._runtime = Runtime(request["library"])
            return {}
        if what == "load":
            assert self._runtime is not None  # noqa: S101 - the other side is ours
            self._models.append(Model(self._runtime, Path(request["neff"]).read_bytes()))
            tensors = (*self._models[-1].inputs, *self._models[-1].outputs)
            return {"tensors": [_described(tensor) for tensor in tensors]}
        model = self._models[request["model"]]
        if what == "allocate":
            model.allocate()
        elif what == "run":
            _run(model, request["inputs"], request["outputs"])
        elif what == "profile":
            for _ in range(request["warmups"]):
                model.execute()
            for ntff in request["ntffs"]:
                model.profile(ntff)
        return {}

    def close(self) -> None:
        if self._runtime is not None:
            self._runtime.close()


def _run(model: Model, inputs: dict[str, str], outputs: list[str]) -> None:
    """Inputs are raw bytes by tensor name, outputs go to one file each."""
    for tensor in model.inputs:
        content = np.memmap(inputs[tensor.name], dtype=np.uint8, mode="r")
        if content.nbytes != tensor.size:
            raise ValueError(f"{tensor.name} takes {tensor.size} bytes, not {content.nbytes}")
        model.write(tensor, content)
    model.poison_outputs()
    model.execute()
    for tensor, path in zip(model.outputs, outputs, strict=True):
        model.read(tensor).tofile(path)


def _described(tensor: TensorInfo) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "is_input": tensor.is_input,
        "size": tensor.size,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
    }


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
