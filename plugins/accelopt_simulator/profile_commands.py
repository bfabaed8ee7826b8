"""`accelopt profile` and `accelopt timeline`: where a kernel's predicted time goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accelopt.errors import ConfigError, UnknownBackendError

if TYPE_CHECKING:
    from accelopt.device import DeviceSpec
    from accelopt.evaluation import Diagnostic
    from accelopt.kernel import KernelSource, KernelTask
    from accelopt_simulator.kernel_profile import Prediction

BAD_KERNEL = 1
"""Exit code when there is no prediction because of the kernel."""
TIMELINE_SUFFIX = ".timeline.json"


def profile(
    file: Path = typer.Argument(help="Kernel file."),  # noqa: B008 - typer declares options so
    task: str = typer.Option("", "--task", help="Task that the kernel is for."),
    reference: Path | None = typer.Option(  # noqa: B008
        None, "--reference", help="Reference file, for a kernel of your own."
    ),
    grid: str = typer.Option("", "--grid", help="SPMD grid of the launch, such as 2,2."),
    backend: str = typer.Option("sim-trn1", "--backend", help="Simulator backend that predicts."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show where a kernel's predicted time goes: engines, lines, waits, what-ifs."""
    # Imported here: the command line lists its commands without loading NumPy.
    from accelopt.cli.evaluate import load_subject
    from accelopt.cli.output import print_json
    from accelopt_simulator.kernel_profile import profile_of
    from accelopt_simulator.profile_text import show_profile

    device = device_of(backend)
    kernel_task, source = load_subject(file, task, reference, grid)
    prediction = predicted(kernel_task, source, backend, device, as_json=as_json)
    result = profile_of(prediction, kernel_task.work, device, source.text)
    if as_json:
        head = {"task": kernel_task.name, "backend": backend, "status": "ok"}
        print_json(head | result.to_json())
    else:
        show_profile(result, {"task": kernel_task.name, "backend": backend})


def timeline(
    file: Path = typer.Argument(help="Kernel file."),  # noqa: B008
    task: str = typer.Option("", "--task", help="Task that the kernel is for."),
    reference: Path | None = typer.Option(  # noqa: B008
        None, "--reference", help="Reference file, for a kernel of your own."
    ),
    grid: str = typer.Option("", "--grid", help="SPMD grid of the launch, such as 2,2."),
    backend: str = typer.Option("sim-trn1", "--backend", help="Simulator backend that predicts."),
    output: Path | None = typer.Option(  # noqa: B008
        None,
        "--output",
        "-o",
        help="Trace for ui.perfetto.dev; by default KERNEL.timeline.json, or none with --svg.",
    ),
    svg: Path | None = typer.Option(None, "--svg", help="Picture to draw."),  # noqa: B008
) -> None:
    """Write a kernel's predicted run as a trace for Perfetto, or as a picture."""
    from accelopt.cli.evaluate import load_subject
    from accelopt.cli.output import print_facts
    from accelopt_simulator.latency.explain import bound, engine_times
    from accelopt_simulator.timeline.perfetto import to_trace_events
    from accelopt_simulator.timeline.svg import to_svg

    if output is None and svg is None:
        output = Path(file.stem + TIMELINE_SUFFIX)
    for path in (output, svg):
        # Before the work: a mistyped folder shows at once.
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"can't write {path}: no folder {path.parent}")
    device = device_of(backend)
    kernel_task, source = load_subject(file, task, reference, grid)
    prediction = predicted(kernel_task, source, backend, device)
    execution = prediction.execution
    title = f"{kernel_task.name} on {device.name}"
    lines = source.text.splitlines()
    facts = {}
    if output is not None:
        events = to_trace_events(execution, source_lines=lines, title=title)
        write(output, json.dumps(events, allow_nan=False, separators=(",", ":")))
        facts["trace"] = f"{output} (open it at https://ui.perfetto.dev)"
        left_out = events["otherData"]["left_out"]
        if left_out:
            facts["left out"] = left_out
    if svg is not None:
        picture = to_svg(
            execution,
            title=title,
            source_lines=lines,
            latency_us=prediction.latency_us,
            bound_by=bound(engine_times(execution)),
        )
        write(svg, picture)
        facts["picture"] = str(svg)
    print_facts(facts)


def device_of(backend: str) -> DeviceSpec:
    """The device that a simulator backend stands for.

    Raises:
        UnknownBackendError: the backend is not one of the simulator's.
    """
    from accelopt_simulator.hardware import TRN1, TRN2

    devices = {f"sim-{device.name}": device for device in (TRN1, TRN2)}
    if backend not in devices:
        raise UnknownBackendError(
            f"backend {backend!r} predicts no timeline", hint=f"use one of {', '.join(devices)}"
        )
    return devices[backend]


def predicted(
    task: KernelTask,
    source: KernelSource,
    backend: str,
    device: DeviceSpec,
    *,
    as_json: bool = False,
) -> Prediction:
    """Trace a kernel, check it, and predict its run.

    Raises:
        typer.Exit: the kernel is bad; its diagnostics have been printed.
    """
    from accelopt.evaluation import Diagnostic
    from accelopt_simulator.constraints.check import check_constraints
    from accelopt_simulator.judge import check_arguments
    from accelopt_simulator.latency.predict import predict
    from accelopt_simulator.latency.stream import TooManyInstancesError
    from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
    from accelopt_simulator.requests import request_for
    from accelopt_simulator.trace.codec import decode
    from accelopt_simulator.trace.errors import TraceError

    def reject(status: str, findings: list[Diagnostic]) -> typer.Exit:
        show_rejection(task, source, backend, status, findings, as_json=as_json)
        return typer.Exit(BAD_KERNEL)

    pool = WorkerPool(WorkerLimits())
    try:
        result = pool.trace(request_for(task, source))
    finally:
        pool.close()
    if result.status != "ok":
        findings = [Diagnostic.model_validate(item) for item in result.diagnostics]
        raise reject(result.status, findings)
    try:
        trace = decode(result.trace_bytes)
        check_arguments(trace, task)
    except TraceError as error:
        message = f"the trace is not well-formed: {error}"
        raise reject("rejected", [Diagnostic(rule="forged_trace", message=message)]) from error
    try:
        findings = check_constraints(trace, device, min_float_bits=task.min_float_bits)
        if findings:
            unsupported = all(finding.rule == "unsupported_op" for finding in findings)
            raise reject("unsupported_op" if unsupported else "constraint_violation", findings)
        prediction: Prediction = predict(trace, device.name)
    except TooManyInstancesError as error:
        message = f"the kernel asks for {error}"
        raise reject("timeout", [Diagnostic(rule="work_limit", message=message)]) from error
    except TraceError as error:
        finding = Diagnostic(rule="unsupported_op", message=str(error))
        raise reject("unsupported_op", [finding]) from error
    return prediction


def show_rejection(
    task: KernelTask,
    source: KernelSource,
    backend: str,
    status: str,
    findings: list[Diagnostic],
    *,
    as_json: bool,
) -> None:
    """Why a kernel has no prediction, for people or as JSON."""
    from accelopt.cli.evaluate import show_diagnostic
    from accelopt.cli.output import print_facts, print_json

    if as_json:
        data: dict[str, Any] = {"task": task.name, "backend": backend, "status": status}
        print_json(data | {"diagnostics": [finding.model_dump() for finding in findings]})
        return
    print_facts({"status": status, "task": task.name, "backend": backend})
    for finding in findings:
        show_diagnostic(finding, source)


def write(path: Path, text: str) -> None:
    """Write a result, whole or not at all.

    Raises:
        ConfigError: the file can't be written.
    """
    from accelopt.files import write_atomic

    try:
        write_atomic(path, text)
    except OSError as error:
        raise ConfigError(f"can't write {path}: {error.strerror or error}") from error
