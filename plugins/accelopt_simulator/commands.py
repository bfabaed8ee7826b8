"""Commands that the simulator adds to the command line."""

from __future__ import annotations

import json
from pathlib import Path

import typer


def trace(
    file: Path = typer.Argument(help="Kernel file."),  # noqa: B008 - typer declares options so
    task: str = typer.Option("", "--task", help="Task that the kernel is for."),
    reference: Path | None = typer.Option(  # noqa: B008
        None, "--reference", help="Reference file, for a kernel of your own."
    ),
    grid: str = typer.Option("", "--grid", help="SPMD grid of the launch, such as 2,2."),
    as_json: bool = typer.Option(False, "--json", help="Print the trace as JSON."),
) -> None:
    """Print a kernel's trace: the loop tree with instructions, engines, tile shapes, lines."""
    # Imported here: the command line lists its commands without loading NumPy.
    from accelopt.cli.evaluate import load_subject, show_diagnostic
    from accelopt.cli.output import print_json
    from accelopt.evaluation import Diagnostic
    from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
    from accelopt_simulator.requests import request_for
    from accelopt_simulator.trace.codec import decode, to_json, trace_hash
    from accelopt_simulator.trace.text import render

    kernel_task, source = load_subject(file, task, reference, grid)
    pool = WorkerPool(WorkerLimits())
    try:
        result = pool.trace(request_for(kernel_task, source))
    finally:
        pool.close()
    if result.status != "ok":
        if as_json:
            print_json({"status": result.status, "diagnostics": result.diagnostics})
            return
        typer.echo(f"status {result.status}")
        for item in result.diagnostics:
            show_diagnostic(Diagnostic.model_validate(item), source)
        return
    decoded = decode(result.trace_bytes)
    if as_json:
        print_json(json.loads(to_json(decoded)) | {"trace_hash": trace_hash(decoded)})
    else:
        typer.echo(render(decoded))
        typer.echo(f"trace hash {trace_hash(decoded)}")
