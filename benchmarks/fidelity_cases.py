"""Measured kernels that the latency model is held against, with what it takes to trace each."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from accelopt.entry_point import find_entry, parse_kernel
from accelopt.errors import ConfigError
from accelopt.plugins import installed
from accelopt_simulator import measurements
from accelopt_simulator.frontend.run import TraceRequest
from accelopt_simulator.hardware import DEVICES
from accelopt_simulator.requests import request_for

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "nkibench/data/published_measurements.json"
OWN_KERNELS = ROOT / "benchmarks/fidelity_kernels"
BASELINES = "nkibench-baseline"

KERNEL_ONLY_OVERHEAD_US = 20.0
"""Overhead where a latency is that of the kernel alone: an NC latency, or the length of a trace."""

Argument = measurements.Argument
Model = TypeVar("Model", bound=BaseModel)


class Row(BaseModel):
    """One published measurement."""

    id: str
    name: str = ""
    latency_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    latency_stat: str | None = None
    hardware: str = "trn1"
    dialect: str = ""
    dtype: Any = "float32"
    shapes: dict[str, Any] = {}
    counters: dict[str, Any] = {}
    task: str = ""
    file: str = ""
    entry: str = ""
    arguments: list[Argument] | None = None


class IndexEntry(BaseModel):
    """What a kernel of a folder was measured as."""

    measurement: str | None
    file: str | None
    family: str = ""
    device: str = "trn1"
    scored: bool = True
    basis: str = ""
    task: str | None = None
    arguments: list[Argument] | None = None
    pair: str | None = None
    published_bytes_match: dict[str, Any] | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """A measured kernel.

    Attributes:
        name: what the reports call it.
        measurement: id of the published row.
        family: what it is compared with in rank.
        device: where it was measured.
        measured_us: latency.
        request: what to trace; None when there is no kernel.
        file: kernel file, for people.
        counters: published counters by their names.
        traffic: published HBM bytes and FLOPs that a reconstruction must have.
        scored: whether the error counts.
        pair: id of the measurement that it is compared with as a pair.
        overhead_us: fixed overhead of that kind of measurement; None = the calibration's.
        middle_end: whether its compiler drops repeated work.
        note: what a reader must know.
    """

    name: str
    measurement: str
    family: str
    device: str = "trn1"
    measured_us: float
    request: TraceRequest | None
    file: str = ""
    counters: Mapping[str, Any] = field(default_factory=dict)
    traffic: Mapping[str, float] = field(default_factory=dict)
    scored: bool = True
    pair: str | None = None
    overhead_us: float | None = None
    middle_end: bool = True
    note: str = ""

    @property
    def fold(self) -> str:
        """Name that a leave-one-out fit would have left out."""
        return self.name.removeprefix("accelopt-").removesuffix("-baseline")


def baseline_cases(names: list[str] | None = None) -> list[Case]:
    """The kernels that the shipped calibration is fitted to."""
    rows = _rows(PUBLISHED)
    cases = []
    for kernel in measurements.shipped("trn1").kernels:
        if names is not None and kernel.name not in names:
            continue
        task = installed().task(kernel.task)
        row = rows[f"accelopt-{kernel.name}-baseline"]
        cases.append(
            Case(
                name=kernel.name,
                measurement=row.id,
                family=BASELINES,
                measured_us=kernel.latency_us,
                request=request_for(task, task.baseline),
                counters=row.counters,
            )
        )
    return cases


def own_cases() -> list[Case]:
    """The kernels of benchmarks/fidelity_kernels."""
    rows = _rows(PUBLISHED)
    return [
        _indexed(entry, rows[entry.measurement], OWN_KERNELS)
        for entry in _index(OWN_KERNELS)
        if entry.measurement
    ]


def foreign_cases(folder: Path, path: Path) -> list[Case]:
    """Kernels of a folder with the latencies of a file; those without a kernel have no request.

    Raises:
        ConfigError: something can't be read, or does not fit together.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder")
    entries = _index(folder) if (folder / "index.json").is_file() else []
    cases = []
    for row in _rows(path).values():
        found = [entry for entry in entries if entry.measurement == row.id]
        if row.latency_us is None:
            cases.append(_missing(row, "no latency"))
        elif _facts(row)["device"] not in DEVICES:
            cases.append(_missing(row, "no model of this device"))
        elif found:
            cases += [_indexed(entry, row, folder) for entry in found]
        else:
            cases.append(_by_name(row, folder))
    return cases


def _by_name(row: Row, folder: Path) -> Case:
    stems = [row.id, row.name]
    parts = row.id.split("-")
    task = row.task
    if len(parts) == 3 and parts[0] == "accelopt":
        task = task or f"nkibench/{parts[1]}"
        stems += [parts[1]] if parts[2] == "baseline" else []
    if task not in installed().task_names():
        if row.task:
            raise ConfigError(f"{row.id} names the task {row.task}, which is not registered")
        task = ""
    files = [row.file] if row.file else [f"{stem}.py" for stem in stems if stem]
    file = next((name for name in files if (folder / name).is_file()), None)
    if file is not None:
        return _case(row, folder, file, task, row.arguments)
    if row.file or not row.task:
        if row.file:
            raise ConfigError(f"can't read the kernel {folder / row.file}: no such file")
        return _missing(row, "no kernel of that name")
    found = installed().task(task)
    request = request_for(found, found.baseline)
    return Case(**_facts(row), request=request, file=f"the baseline of {task}", traffic={})


def _indexed(entry: IndexEntry, row: Row, folder: Path) -> Case:
    if entry.file is None:
        return _missing(row, entry.note or "no kernel")
    match = (entry.published_bytes_match or {}).get("published", {})
    traffic = {"hbm_bytes": match.get("hbm_bytes") or _hbm(match)}
    traffic["hardware_flops"] = match.get("hardware_flops") or 0.0
    return _case(
        row,
        folder,
        entry.file,
        entry.task or "",
        entry.arguments,
        family=entry.family,
        device=entry.device,
        scored=entry.scored,
        pair=entry.pair,
        note="; ".join(filter(None, ("a guess" if entry.basis == "guess" else "", entry.note))),
        traffic={name: value for name, value in traffic.items() if value},
    )


def _case(
    row: Row, folder: Path, file: str, task: str, arguments: list[Argument] | None, **more: Any
) -> Case:
    path = folder / file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"can't read the kernel {path}: {error}") from error
    names = [n for n in parse_kernel(text, file).body if isinstance(n, ast.FunctionDef)]
    functions = {node.name: node for node in names}
    entry = "kernel" if "kernel" in functions else find_entry(text, file)
    given: list[Any]
    if task:
        given = [
            spec.value if spec.value is not None else (spec.shape, spec.dtype)
            for spec in installed().task(task).arguments
        ]
    elif arguments is not None:
        given = [(argument.shape, argument.dtype) for argument in arguments]
    else:
        given = _from_shapes(row, functions.get(entry), file)
    request = TraceRequest(text=text, entry=entry, arguments=tuple(given))
    return Case(**_facts(row) | {"file": file, "request": request} | more)


def _from_shapes(row: Row, function: ast.FunctionDef | None, file: str) -> list[Any]:
    if function is None:
        raise ConfigError(f"{file}: the parameters of its kernel can't be read")
    shapes = {name.strip(): shape for key, shape in row.shapes.items() for name in key.split(",")}
    shapes.pop("out", None)
    parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    optional = len(function.args.defaults)
    given: list[Any] = []
    for at, name in enumerate(parameters):
        shape = shapes.get(name)
        if isinstance(shape, list) and all(isinstance(extent, int) for extent in shape):
            given.append((tuple(shape), str(row.dtype)))
        elif isinstance(shape, int | float):
            given.append(shape)
        elif at >= len(parameters) - optional:
            break
        else:
            raise ConfigError(f"{row.id} gives no shape for the parameter {name} of {file}")
    return given


def _facts(row: Row) -> dict[str, Any]:
    device = (row.hardware.split() or ["trn1"])[0]
    whole_run = not row.latency_stat or "total_time" in row.latency_stat
    return {
        "name": row.name or row.id,
        "measurement": row.id,
        "family": "measured",
        "device": device,
        "measured_us": row.latency_us or 0.0,
        "counters": row.counters,
        "overhead_us": None if whole_run else KERNEL_ONLY_OVERHEAD_US,
        "middle_end": not row.dialect.startswith("NKI v2"),
    }


def _missing(row: Row, why: str) -> Case:
    return Case(**_facts(row), request=None, scored=False, note=why)


def _hbm(counters: Mapping[str, float]) -> float:
    return counters.get("hbm_read_bytes", 0.0) + counters.get("hbm_write_bytes", 0.0)


def _index(folder: Path) -> list[IndexEntry]:
    path = folder / "index.json"
    return [_checked(IndexEntry, item, path) for item in _listed(_json(path), "kernels", path)]


def _rows(path: Path) -> dict[str, Row]:
    data = _json(path)
    if isinstance(data, dict) and "kernels" in data and "entries" not in data:
        found = measurements.read(path)
        rows = [
            Row(
                id=kernel.name,
                **kernel.model_dump(include={"latency_us", "task", "file", "entry"}),
                arguments=list(kernel.arguments),
                counters=kernel.model_dump(include={"hbm_read_bytes", "hbm_write_bytes"}),
                hardware=found.device,
            )
            for kernel in found.kernels
        ]
    else:
        rows = [_checked(Row, item, path) for item in _listed(data, "entries", path)]
    result = {row.id: row for row in rows}
    if len(result) < len(rows):
        raise ConfigError(f"{path} has an entry twice")
    return result


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error


def _listed(data: Any, key: str, path: Path) -> list[Any]:
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ConfigError(f"{path} has no list `{key}`")
    return found


def _checked(model: type[Model], item: Any, path: Path) -> Model:
    try:
        return model.model_validate(item)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        name = item.get("id") or item.get("measurement") if isinstance(item, dict) else item
        raise ConfigError(f"{path}: {name}: {where}: {first['msg']}") from error
