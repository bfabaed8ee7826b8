"""`accelopt evaluate`: judge one kernel file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accelopt.cli.output import console, microseconds, percent, print_facts, print_json, print_table
from accelopt.errors import TaskError

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.evaluation import Diagnostic, Evaluation
    from accelopt.kernel import KernelSource, KernelTask

CONTEXT_LINES = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    file: Path = typer.Argument(help="Kernel file."),
    task: str = typer.Option("", "--task", help="Task that the kernel is for."),
    reference: Path | None = typer.Option(
        None, "--reference", help="Reference file, for a kernel of your own."
    ),
    backend: str = typer.Option("sim-trn1", "--backend", help="Backend that judges."),
    seeds: str = typer.Option("", "--seeds", help="Input seeds, comma-separated."),
    grid: str = typer.Option("", "--grid", help="SPMD grid of the launch, such as 2,2."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Judge one kernel: constraints, correctness on every seed, latency, counters."""
    kernel_task, source = load_subject(file, task, reference, grid)
    from accelopt.session import open_backend

    judge = open_backend(backend)
    chosen = parse_seeds(seeds)
    try:
        with console(stderr=True).status(f"judging {file.name} on {judge.name}"):
            result = judge.evaluate(kernel_task, source, seeds=chosen)
    finally:
        judge.close()
    if as_json:
        print_json(as_data(result, kernel_task, judge))
    else:
        show(result, kernel_task, judge, source)
        if reference is not None:
            warn_if_unsound(kernel_task)


def load_subject(
    file: Path, task: str, reference: Path | None, grid: str = ""
) -> tuple[KernelTask, KernelSource]:
    """The task and the kernel that a command was given.

    Args:
        file: the kernel file.
        task: name of a task; empty with a reference file.
        reference: the reference file, or None.
        grid: text of a `--grid` option; the task's own grid when it is empty.

    Raises:
        TaskError: a file can't be read or holds no usable kernel, or the options do not fit.
    """
    from accelopt.entry_point import detect_dialect, find_entry
    from accelopt.kernel import KernelSource
    from accelopt.plugins import installed
    from accelopt.user_task import load_user_task

    if bool(task) == bool(reference):
        raise TaskError(
            "say what the kernel must compute", hint="give either --task NAME or --reference FILE"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise TaskError(f"can't read kernel file {file}: {reason}") from error
    entry = find_entry(text, str(file))
    launched = parse_grid(grid)
    found = installed().task(task) if reference is None else load_user_task(file, reference)
    source = KernelSource(
        text=text,
        dialect=detect_dialect(text, str(file)),
        entry=entry,
        filename=file.name,
        grid=launched or found.baseline.grid,
    )
    return found, source


def parse_seeds(text: str) -> tuple[int, ...] | None:
    """Seeds of a `--seeds` option; None when it is empty."""
    if not text:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--seeds {text!r}: not comma-separated integers") from None


def parse_grid(text: str) -> tuple[int, ...]:
    """The extents of a `--grid` option; empty when it is."""
    from accelopt.kernel import MAX_GRID

    if not text:
        return ()
    parts = text.split(",")
    extents = tuple(
        int(part) for part in parts if part.strip().isascii() and part.strip().isdigit()
    )
    if len(extents) < len(parts) or not 0 < math.prod(extents) <= MAX_GRID:
        raise typer.BadParameter(
            f"--grid {text!r}: not positive integers, comma-separated, "
            f"of at most {MAX_GRID} instances in all"
        )
    return extents


def as_data(result: Evaluation, task: KernelTask, backend: Backend) -> dict[str, Any]:
    """The stable machine-readable form of an evaluation."""
    from accelopt.device import percent_of_peak

    peak = (
        None
        if result.latency_us is None
        else percent_of_peak(result.latency_us, task.work, backend.device)
    )
    return {
        "task": task.name,
        "backend": backend.name,
        "status": result.status.value,
        "latency_us": result.latency_us,
        "latency_low_us": result.latency_low_us,
        "latency_high_us": result.latency_high_us,
        "percent_of_peak": peak,
        "bound": result.bound,
        "seeds": [
            {"seed": s.seed, "error": s.error, "tolerance": s.tolerance, "ok": s.ok}
            for s in result.seeds
        ],
        "published_gate": result.published_gate,
        "checks": [check.model_dump() for check in result.checks],
        "profile": None
        if result.profile is None
        else {
            **result.profile.model_dump(exclude_none=True, exclude={"other"}),
            **result.profile.other,
        },
        "diagnostics": [d.model_dump() for d in result.diagnostics],
        "trace_hash": result.trace_hash,
        "calibration": result.calibration,
        "notes": list(result.notes),
        "elapsed_s": result.elapsed_s,
    }


def show(result: Evaluation, task: KernelTask, backend: Backend, source: KernelSource) -> None:
    """The evaluation for people."""
    data = as_data(result, task, backend)
    facts = {"status": result.status.value, "task": task.name, "backend": backend.name}
    if result.latency_us is not None:
        alone = " (of the bytes alone)" if task.work.from_bytes_alone else ""
        facts["latency"] = microseconds(result.latency_us)
        if result.latency_low_us is not None and result.latency_high_us is not None:
            low, high = microseconds(result.latency_low_us), microseconds(result.latency_high_us)
            facts["80 % range"] = f"{low} to {high}"
        facts["of peak"] = percent(data["percent_of_peak"]) + alone
        facts["bound by"] = result.bound
    facts["took"] = f"{result.elapsed_s:.1f} s"
    print_facts(facts)
    if result.seeds:
        rows = [
            [
                str(s.seed),
                s.message or ("-" if s.error is None else f"{s.error:.2e}"),
                f"{s.tolerance:.0e}",
                "ok" if s.ok else "wrong",
            ]
            for s in result.seeds
        ]
        print_table(["seed", "relative L2 error", "tolerance", ""], rows)
    show_checks(result)
    for diagnostic in result.diagnostics:
        show_diagnostic(diagnostic, source)
    for note in result.notes:
        console().print(f"note: {note}", soft_wrap=True, markup=False)


def warn_if_unsound(task: KernelTask) -> None:
    """Say that a task of a person's own accepts kernels that compute nothing."""
    from accelopt.preflight import check_task

    problem = check_task(task).problem
    if problem:
        console().print(f"note: the task is unsound: {problem}", soft_wrap=True, markup=False)


def show_checks(result: Evaluation) -> None:
    """Comparisons beyond the published gate, and what that gate alone would say."""
    if not result.checks:
        return
    rows = [
        [
            check.name,
            check.metric.replace("_", " "),
            check.message or ("-" if check.error is None else f"{check.error:.2e}"),
            f"{check.tolerance:.1e}",
            check.reference,
            "ok" if check.ok else "wrong",
        ]
        for check in result.checks
    ]
    print_table(["inputs", "metric", "error", "tolerance", "reference", ""], rows)
    gate = "passes" if result.published_gate else "fails"
    print_facts({"published": f"the published gate alone {gate}"})


def show_diagnostic(diagnostic: Diagnostic, source: KernelSource) -> None:
    """A finding with the kernel's lines around it."""
    out = console()
    where = f"{source.filename}:{diagnostic.line}: " if diagnostic.line else ""
    out.print(
        f"{where}{diagnostic.severity}: {diagnostic.rule}: {diagnostic.message}",
        soft_wrap=True,
        markup=False,
        style="bold",
    )
    if diagnostic.line:
        lines = source.text.splitlines()
        first = max(1, diagnostic.line - CONTEXT_LINES)
        last = min(len(lines), diagnostic.line + CONTEXT_LINES)
        for number in range(first, last + 1):
            marker = ">" if number == diagnostic.line else " "
            out.print(f"  {marker} {number:>4} | {lines[number - 1]}", soft_wrap=True, markup=False)
    if diagnostic.required is not None or diagnostic.limit is not None:
        found = diagnostic.required if diagnostic.required is not None else "-"
        out.print(f"    found {found}, allowed {diagnostic.limit or '-'}", markup=False)
    if diagnostic.hint:
        out.print(f"    hint: {diagnostic.hint}", soft_wrap=True, markup=False)
