"""`accelopt tasks check`: kernels that compute nothing must fail on every task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from accelopt.cli.output import console, print_json, print_table

if TYPE_CHECKING:
    from accelopt.kernel import KernelTask
    from accelopt.preflight import Degenerate

ALL = "all"


def check_tasks(
    names: list[str] = typer.Argument(None, help=f"Tasks; `{ALL}` also takes the variants."),
    kernel: Path | None = typer.Option(None, "--kernel", help="Kernel file of a task of yours."),
    reference: Path | None = typer.Option(None, "--reference", help="Its reference file."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check that tasks can tell right from wrong. Exit code 1 if one can't.

    A kernel of zeros, one of a constant, copies of each input and the right outputs in another
    order are compared with the reference. A task that accepts one of them is unsound.
    """
    from accelopt.preflight import check_task

    reports = []
    for task in _chosen(names or [], kernel, reference):
        with console(stderr=True).status(f"checking {task.name}"):
            reports.append(check_task(task))
    if as_json:
        print_json(
            [
                {
                    "task": report.task,
                    "sound": report.sound,
                    "kernels": [vars(result) for result in report.results],
                }
                for report in reports
            ]
        )
    else:
        rows = [
            [
                report.task,
                str(len(report.results)),
                _closest(report.results),
                "sound" if report.sound else f"UNSOUND: {report.problem}",
            ]
            for report in reports
        ]
        print_table(
            ["task", "do-nothing kernels", "closest: error / tolerance", ""],
            rows,
            flexible=["task", ""],
        )
    if not all(report.sound for report in reports):
        raise typer.Exit(1)


def _chosen(names: list[str], kernel: Path | None, reference: Path | None) -> list[KernelTask]:
    from accelopt.errors import TaskError
    from accelopt.plugins import installed
    from accelopt.user_task import load_user_task

    if bool(kernel) != bool(reference):
        raise TaskError("a task of yours is two files", hint="give both --kernel and --reference")
    if kernel is not None and reference is not None:
        return [load_user_task(kernel, reference)]
    registry = installed()
    every = registry.task_names()
    if names == [ALL]:
        return [registry.task(name) for name in every]
    return [registry.task(name) for name in names or [n for n in every if "@" not in n]]


def _closest(results: Sequence[Degenerate]) -> str:
    """The do-nothing kernel that comes nearest to being accepted."""
    nearest = min(results, key=lambda result: result.error / result.tolerance)
    return f"{nearest.kernel}, {nearest.error:.2g} / {nearest.tolerance:.0e}"
