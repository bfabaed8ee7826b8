"""`accelopt doctor --backend trn1`: does this device compute, can its clock rank, how noisy is it?

Known answers first: runners that return zeros have been seen (aws-neuron/nki-samples, issue 134).
Then a slow and a fast kernel, the noise between evaluations, and a handful of benchmark kernels
beside the simulator's prediction, which are written to a file that `accelopt calibrate` fits to.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelopt import files, paths
from accelopt.doctor import Check, State
from accelopt.errors import AcceloptError
from accelopt.evaluation import ESTIMATE_STAGES, Evaluation, Stage
from accelopt.kernel import Dialect, KernelSource, KernelTask
from accelopt.plugins import installed
from accelopt_trainium.known_kernels import SLOW_PIECES, fast_kernel, known_task, slow_kernel

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt_trainium.backend import TrainiumBackend

LEAST_RATIO = 1.5
"""The slow kernel takes at least this many times the fast one's time; the simulator says 8.7."""
NOISE_EVALUATIONS = 5
NOISE_LIMIT = 0.01
"""Above this spread between evaluations, gains of a percent can't be told from luck."""
COMPARED = (
    "nkibench/silu",
    "nkibench/adamw",
    "nkibench/rope_single_freq_apply",
    "nkibench/rmsnorm_matmul",
    "nkibench/mamba",
)
FAR_OFF = 0.3
"""Mean error of the simulator's predictions from which on a fit is advised."""
ZEROS = 1e-6
"""A result of zeros has a relative error of 1 to this accuracy; nothing else honest has."""

Progress = Callable[[str], None]


def device_checks(
    backend: TrainiumBackend, progress: Progress, compared: Sequence[str] = COMPARED
) -> list[Check]:
    """Try the device; a check that can't go on says so and ends the list.

    Args:
        backend: of the device.
        progress: told what is being tried.
        compared: tasks whose baselines are measured beside the simulator.
    """
    found: list[Check] = []
    try:
        for dialect in sorted(backend.sdk.dialects):
            progress(f"known answer, {dialect.value}")
            found.append(_known_answer(backend, dialect))
            if found[-1].state == "fail":
                return found
        dialect = sorted(backend.sdk.dialects)[-1]
        progress("a slow and a fast kernel")
        found.append(_ranking(backend, dialect))
        progress("noise")
        found.append(_noise(backend, dialect))
        found.append(_against_simulator(backend, progress, compared))
    except AcceloptError as error:
        fix = error.hint or "see docs/trainium.md"
        found.append(Check(name="device", state="fail", detail=error.message, fix=fix))
    return found


def _known_answer(backend: Backend, dialect: Dialect) -> Check:
    name = f"known answer ({dialect.value})"
    task = known_task(dialect)
    result = backend.evaluate(
        task, fast_kernel(dialect), stages=frozenset({Stage.LOAD, Stage.CORRECTNESS})
    )
    if result.ok:
        worst = max((seed.error or 0.0 for seed in result.seeds), default=0.0)
        detail = f"right on {len(result.seeds)} inputs, relative error {worst:.1g}"
        return Check(name=name, state="ok", detail=detail)
    error = result.seeds[-1].error if result.seeds else None
    if error is not None and abs(error - 1) < ZEROS:
        detail = "the runner returns zeros: nothing measured here means anything"
        fix = "use another SDK release (see aws-neuron/nki-samples, issue 134)"
        return Check(name=name, state="fail", detail=detail, fix=fix)
    return Check(
        name=name,
        state="fail",
        detail=f"y = 2 x + 1 is {result.status.value}: {_words(result)}",
        fix="compile and run the kernel of docs/trainium.md by hand; compare SDK versions",
    )


def _ranking(backend: Backend, dialect: Dialect) -> Check:
    task = known_task(dialect)
    fast, slow = (_latency_us(backend, task, k(dialect)) for k in (fast_kernel, slow_kernel))
    detail = f"{fast:.1f} us whole, {slow:.1f} us in {SLOW_PIECES} pieces: {slow / fast:.2f}x"
    if slow < LEAST_RATIO * fast:
        return Check(
            name="the clock can rank",
            state="fail",
            detail=f"{detail}; at least {LEAST_RATIO}x was expected",
            fix="the profiler's total_time does not follow the work: reinstall aws-neuronx-tools",
        )
    return Check(name="the clock can rank", state="ok", detail=detail)


def _noise(backend: Backend, dialect: Dialect) -> Check:
    task, kernel = known_task(dialect), fast_kernel(dialect)
    found = [_latency_us(backend, task, kernel) for _ in range(NOISE_EVALUATIONS)]
    spread = (max(found) - min(found)) / min(found)
    detail = f"{100 * spread:.2g} % between {len(found)} evaluations of {found[0]:.0f} us"
    if spread > NOISE_LIMIT:
        return Check(
            name="noise floor",
            state="warn",
            detail=f"{detail}; gains below that are not real",
            fix="stop other work on the device and the host",
        )
    return Check(name="noise floor", state="ok", detail=detail)


def _against_simulator(
    backend: TrainiumBackend, progress: Progress, compared: Sequence[str]
) -> Check:
    name, registry = "simulator against device", installed()
    simulator_name = f"sim-{backend.name}"
    if Dialect.NEURONXCC_NKI not in backend.sdk.dialects:
        detail = "nothing to compare: the simulator does not cover the dialect nki"
        return Check(name=name, state="ok", detail=detail)
    tasks = [registry.task(task) for task in compared if task in registry.task_names()]
    if simulator_name not in registry.backends or not tasks:
        detail = f"nothing to compare: no {simulator_name}, or no benchmark tasks"
        return Check(name=name, state="ok", detail=detail)
    simulator = registry.backend(simulator_name)
    rows, kernels = [], []
    try:
        for task in tasks:
            progress(f"{task.name} on the device")
            measured = _measured(backend, task, task.baseline)
            predicted = _latency_us(simulator, task, task.baseline)
            rows.append((task.name, measured.latency_us or 0.0, predicted))
            kernels.append(_entry(task, measured))
    finally:
        simulator.close()
    path = _save(backend, kernels)
    errors = [abs(predicted / measured - 1) for _, measured, predicted in rows]
    shown = ", ".join(
        f"{task.partition('/')[2]} {measured:.0f} us, predicted {predicted / measured - 1:+.0%}"
        for task, measured, predicted in rows
    )
    detail = f"mean error {statistics.fmean(errors):.0%}: {shown}; written to {path}"
    fix = f"accelopt calibrate --measurements {path}"
    state: State = "warn" if statistics.fmean(errors) > FAR_OFF else "ok"
    return Check(name=name, state=state, detail=detail, fix=fix)


def _entry(task: KernelTask, measured: Evaluation) -> dict[str, Any]:
    """One kernel in the form of `accelopt calibrate --measurements`."""
    entry: dict[str, Any] = {
        "name": task.name.partition("/")[2],
        "task": task.name,
        "latency_us": measured.latency_us,
    }
    if measured.profile is not None:
        for counter in ("hbm_read_bytes", "hbm_write_bytes"):
            if (value := getattr(measured.profile, counter)) is not None:
                entry[counter] = value
    return entry


def _save(backend: TrainiumBackend, kernels: list[dict[str, Any]]) -> Path:
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    folder = paths.user_data_dir() / "measurements"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{backend.name}-{moment}.json"
    data = {
        "schema_version": 1,
        "device": backend.name,
        "source": f"accelopt doctor, {moment}, {backend.sdk.fingerprint}",
        "kernels": kernels,
    }
    files.write_atomic(path, json.dumps(data, indent=1) + "\n")
    return path


def _latency_us(backend: Backend, task: KernelTask, kernel: KernelSource) -> float:
    latency_us = _measured(backend, task, kernel).latency_us
    return latency_us if latency_us is not None else 0.0


def _measured(backend: Backend, task: KernelTask, kernel: KernelSource) -> Evaluation:
    result = backend.evaluate(task, kernel, stages=ESTIMATE_STAGES, seeds=())
    if not result.ok or not result.latency_us:
        raise AcceloptError(
            f"{task.name} on {backend.name} is {result.status.value}: {_words(result)}",
            hint=f"accelopt evaluate KERNEL --task {task.name} --backend {backend.name} shows more",
        )
    return result


def _words(result: Evaluation) -> str:
    return result.diagnostics[0].message[:200] if result.diagnostics else "nothing more is known"
