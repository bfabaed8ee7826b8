"""Measured kernels to fit to: a file of latencies, and where each kernel is found."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from accelopt.errors import ConfigError
from accelopt.kernel import Dialect
from accelopt.plugins import installed
from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.latency.fit import Measured
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
from accelopt_simulator.requests import request_for
from accelopt_simulator.trace.codec import decode


class Argument(BaseModel):
    """An array that a kernel takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    shape: tuple[int, ...]
    dtype: str = "float32"


class MeasuredKernel(BaseModel):
    """One measurement.

    Attributes:
        name: what the kernel is called.
        task: registered task whose baseline was measured; or
        file, entry, arguments: kernel file beside the measurement file, its function, its inputs.
        latency_us: measured.
        hbm_read_bytes, hbm_write_bytes: measured, if known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    task: str = ""
    file: str = ""
    entry: str = "kernel"
    arguments: tuple[Argument, ...] = ()
    latency_us: float
    hbm_read_bytes: float | None = None
    hbm_write_bytes: float | None = None


class MeasurementFile(BaseModel):
    """Measurements of one device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    device: str
    source: str
    kernels: tuple[MeasuredKernel, ...]


def shipped(device: str) -> MeasurementFile:
    """The measurements that come with the package.

    Raises:
        ConfigError: there are none for this device.
    """
    resource = files("accelopt_simulator") / "data" / f"measurements_{device}.json"
    if not resource.is_file():
        raise ConfigError(
            f"no measurements of {device} come with accelopt", hint="pass --measurements FILE"
        )
    return MeasurementFile.model_validate_json(resource.read_text(encoding="utf-8"))


def read(path: Path) -> MeasurementFile:
    """Read a measurement file.

    Raises:
        ConfigError: it is missing or not a measurement file.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return MeasurementFile.model_validate(data)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error


def load_kernels(measurements: MeasurementFile, folder: Path) -> list[Measured]:
    """Trace every measured kernel, each in a worker of its own.

    Args:
        measurements: what was measured.
        folder: where kernel files are looked for.

    Raises:
        ConfigError: a kernel can't be found or traced.
    """
    pool = WorkerPool(WorkerLimits())
    try:
        return [_load(kernel, folder, pool) for kernel in measurements.kernels]
    finally:
        pool.close()


def _load(kernel: MeasuredKernel, folder: Path, pool: WorkerPool) -> Measured:
    result = pool.trace(_request(kernel, folder))
    if result.status != "ok":
        words = "; ".join(str(item.get("message", "")) for item in result.diagnostics[:1])
        raise ConfigError(f"the measured kernel {kernel.name} can't be traced: {words}")
    known = kernel.hbm_read_bytes is not None and kernel.hbm_write_bytes is not None
    return Measured(
        name=kernel.name,
        trace=decode(result.trace_bytes),
        latency_us=kernel.latency_us,
        hbm_bytes=(kernel.hbm_read_bytes or 0.0) + (kernel.hbm_write_bytes or 0.0)
        if known
        else None,
    )


def _request(kernel: MeasuredKernel, folder: Path) -> TraceRequest:
    if kernel.task:
        task = installed().task(kernel.task)
        if task.baseline.dialect is not Dialect.NEURONXCC_NKI:
            raise ConfigError(f"the baseline of {kernel.task} is of a dialect that is not traced")
        return request_for(task, task.baseline)
    if not kernel.file:
        raise ConfigError(f"the measured kernel {kernel.name} names neither a task nor a file")
    path = folder / kernel.file
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't read the kernel {path}: {error.strerror or error}") from error
    arguments = tuple((argument.shape, argument.dtype) for argument in kernel.arguments)
    return TraceRequest(text=text, entry=kernel.entry, arguments=arguments)
