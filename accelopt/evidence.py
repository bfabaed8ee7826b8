"""The evidence bundle of a winning kernel: a folder that a stranger can check.

`evidence.json` says what was judged, on which inputs, by whom, and what came out; beside it lie the
kernel, the kernel it started from and the reference. `accelopt verify` judges them again.
"""

from __future__ import annotations

import hashlib
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from accelopt.attack_record import AttackRecord, last_attack
from accelopt.device import DeviceSpec, percent_of_peak, roofline_bound, roofline_latency_us
from accelopt.errors import StoreError
from accelopt.evaluation import Evaluation
from accelopt.faster import Comparison
from accelopt.files import write_atomic
from accelopt.kernel import KernelSource, Work

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.kernel import KernelTask

SCHEMA_VERSION = 1
FILE = "evidence.json"
FOLDER = "evidence"
KERNEL, BASELINE, REFERENCE = "kernel.py", "baseline.py", "reference.py"
_MOST_BYTES = 16 << 20


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskRecord(_Record):
    """What the kernel had to compute.

    Attributes:
        name: of the task.
        fingerprint: hash of everything the judgement depends on.
        arguments: shape and type, or value, of each kernel argument.
        output_shape: natural shape of the output.
        relative_l2_tolerance: of the published gate.
        seeds: of the published gate.
        min_float_bits: least precision.
        stress: the task's own inputs, with metric and tolerance.
        mix: what is mixed into fresh inputs.
        work: compulsory work.
    """

    name: str
    fingerprint: str
    arguments: list[dict[str, Any]]
    output_shape: list[int]
    relative_l2_tolerance: float
    seeds: list[int]
    min_float_bits: int
    stress: list[dict[str, Any]]
    mix: list[str]
    work: Work


class Roofline(_Record):
    """Where the kernel stands against the device's peaks."""

    latency_us: float
    bound: str
    percent_of_peak: float | None


class Evidence(_Record):
    """What `evidence.json` holds.

    Attributes:
        created: ISO time.
        run: id of the run.
        files: SHA-256 of each file of the bundle, by name.
        task: what had to be computed.
        kernel: dialect, entry and launch grid of the kernel, without its text.
        baseline: likewise.
        backend: name, version and description of the judge.
        device: peaks and capacities.
        evaluation: the verdict, with every error, the seeds of all inputs and the latency.
        baseline_evaluation: of the kernel that the search started from.
        comparison: whether it is faster, and on what grounds; None for the baseline itself.
        roofline: against the device's peaks.
        attack_suite: last result of `accelopt attack` on this judge; None if it was never run.
        versions: of the software.
    """

    schema_version: int = SCHEMA_VERSION
    created: str
    run: str
    files: dict[str, str]
    task: TaskRecord
    kernel: KernelSource
    baseline: KernelSource
    backend: dict[str, str]
    device: DeviceSpec
    evaluation: Evaluation
    baseline_evaluation: Evaluation
    comparison: Comparison | None = None
    roofline: Roofline
    attack_suite: AttackRecord | None = None
    versions: dict[str, str]


def write_bundle(
    folder: Path,
    *,
    run: str,
    task: KernelTask,
    backend: Backend,
    kernel: tuple[KernelSource, Evaluation],
    baseline: tuple[KernelSource, Evaluation],
    comparison: Comparison | None,
) -> Path:
    """Write a bundle; an older one in the folder is replaced.

    Returns:
        the path of `evidence.json`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        KERNEL: kernel[0].text,
        BASELINE: baseline[0].text,
        REFERENCE: self_contained_reference(task),
    }
    for name, text in texts.items():
        write_atomic(folder / name, text)
    evaluation = kernel[1]
    latency_us = evaluation.latency_us
    evidence = Evidence(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        run=run,
        files={name: sha256(text) for name, text in texts.items()},
        task=record_of(task),
        kernel=kernel[0].model_copy(update={"text": "", "filename": KERNEL}),
        baseline=baseline[0].model_copy(update={"text": "", "filename": BASELINE}),
        backend={
            "name": backend.name,
            "version": backend.version,
            "description": backend.description,
        },
        device=backend.device,
        evaluation=evaluation,
        baseline_evaluation=baseline[1],
        comparison=comparison,
        roofline=Roofline(
            latency_us=roofline_latency_us(task.work, backend.device),
            bound=roofline_bound(task.work, backend.device),
            percent_of_peak=None
            if latency_us is None
            else percent_of_peak(latency_us, task.work, backend.device),
        ),
        attack_suite=last_attack(backend),
        versions=versions(),
    )
    path = folder / FILE
    write_atomic(path, evidence.model_dump_json(indent=1) + "\n")
    return path


def read_bundle(folder: Path) -> tuple[Evidence, dict[str, str]]:
    """The evidence and the texts of a bundle.

    Raises:
        StoreError: a file is missing or too large, or the evidence is not readable.
    """
    texts = {}
    for name in (FILE, KERNEL, BASELINE, REFERENCE):
        path = folder / name
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise StoreError(f"{path} is larger than {_MOST_BYTES} bytes")
            texts[name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is not UTF-8 text"
            raise StoreError(
                f"no evidence bundle in {folder}: {name}: {reason}",
                hint="name a run, or a folder with evidence.json and the sources",
            ) from error
    try:
        evidence = Evidence.model_validate_json(texts.pop(FILE))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(f"{folder / FILE} is not readable: {where}: {first['msg']}") from error
    if evidence.schema_version != SCHEMA_VERSION:
        raise StoreError(
            f"{folder / FILE} is of schema version {evidence.schema_version}, not {SCHEMA_VERSION}",
            hint="verify it with the version of accelopt that wrote it",
        )
    return evidence, texts


def record_of(task: KernelTask) -> TaskRecord:
    """What a task asks for, as plain data."""
    return TaskRecord(
        name=task.name,
        fingerprint=task.fingerprint,
        arguments=[
            {"shape": list(spec.shape), "dtype": spec.dtype, "value": spec.value}
            for spec in task.arguments
        ],
        output_shape=list(task.output_shape),
        relative_l2_tolerance=task.relative_l2_tolerance,
        seeds=list(task.seeds),
        min_float_bits=task.min_float_bits,
        stress=[vars(case) for case in task.stress],
        mix=list(task.mix),
        work=task.work,
    )


def self_contained_reference(task: KernelTask) -> str:
    """The reference, with what a suite keeps beside it written out."""
    return (
        f"{task.reference_source.rstrip()}\n\n\n"
        f"# Written by accelopt for this bundle: what the task {task.name} states elsewhere.\n"
        f"TOLERANCE = {task.relative_l2_tolerance!r}\n"
        f"SEEDS = {list(task.seeds)!r}\n"
        f"MIN_FLOAT_BITS = {task.min_float_bits!r}\n"
    )


def versions() -> dict[str, str]:
    """Versions of what takes part in a verdict."""
    import numpy

    from accelopt import __version__

    return {
        "accelopt": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def sha256(text: str) -> str:
    """Content hash (hex) of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()
