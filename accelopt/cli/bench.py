"""`accelopt bench`: judge the baselines of a whole suite and print a table."""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from accelopt.cli.output import (
    console,
    duration,
    microseconds,
    percent,
    print_json,
    print_table,
    shapes,
)
from accelopt.errors import ConfigError
from accelopt.session import open_backend

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.kernel import KernelTask

COLUMNS = (
    "task",
    "shapes",
    "status",
    "latency_us",
    "bound",
    "percent_of_peak",
    "published_baseline_us",
    "published_best_us",
    "seconds",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench")(bench)


def bench(
    suite: str = typer.Argument(help="Name of the suite, for example nkibench."),
    backend: str = typer.Option("sim-trn1", "--backend", help="Backend that judges."),
    quick: bool = typer.Option(False, "--quick", help="One input seed instead of all."),
    variants: bool = typer.Option(False, "--variants", help="Reduced variants (@...) too."),
    only: str = typer.Option("", "--only", help="Only these tasks, comma-separated."),
    workers: int = typer.Option(0, "--workers", help="Evaluations at once; 0: one per core."),
    as_csv: bool = typer.Option(False, "--csv", help="Print CSV."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Judge every baseline of a suite: status, latency, percent of peak, published figures."""
    tasks = suite_tasks(suite, variants=variants, only=only)
    judge = open_backend(backend)
    count = workers or os.cpu_count() or 1
    judge.configure(evaluation_timeout_s=1800.0, workers=count)
    try:
        rows = run_suite(tasks, judge, workers=count, quick=quick)
    finally:
        judge.close()
    if as_json:
        keys = ("task", "status", "latency_us", "bound", "percent_of_peak", "seconds")
        print_json(
            {
                "suite": suite,
                "backend": judge.name,
                "geomean_percent_of_peak": geometric_mean(rows),
                "tasks": [{key: row[key] for key in keys} for row in rows],
            }
        )
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    else:
        _show(rows, judge)


def suite_tasks(suite: str, *, variants: bool, only: str) -> list[KernelTask]:
    """The tasks to judge, in the suite's order.

    Raises:
        ConfigError: there is no such suite.
        TaskError: `only` names a task that does not exist.
    """
    from accelopt.plugins import installed

    registry = installed()
    if suite not in registry.suites:
        known = ", ".join(registry.suites)
        raise ConfigError(f"unknown suite {suite!r}", hint=f"one of {known}")
    if only:
        return [registry.task(f"{suite}/{name.strip()}") for name in only.split(",")]
    names = [name for name in registry.suites[suite] if variants or "@" not in name]
    return [registry.task(f"{suite}/{name}") for name in names]


def run_suite(
    tasks: Sequence[KernelTask], backend: Backend, *, workers: int, quick: bool
) -> list[dict[str, Any]]:
    """Judge the baselines side by side; rows in the order of the tasks."""
    found: dict[str, dict[str, Any]] = {}
    with _progress(len(tasks)) as advance, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_judge, task, backend, quick) for task in tasks]
        for future in as_completed(futures):
            row = future.result()
            found[row["task"]] = row
            advance(row)
    return [found[task.name] for task in tasks]


def _judge(task: KernelTask, backend: Backend, quick: bool) -> dict[str, Any]:
    from accelopt.device import percent_of_peak

    started = time.monotonic()
    seeds = task.seeds[:1] if quick else task.seeds
    result = backend.evaluate(task, task.baseline, seeds=seeds)
    latency = result.latency_us
    return {
        "task": task.name,
        "shapes": shapes([a.shape for a in task.arguments if a.value is None]),
        "status": result.status.value,
        "latency_us": latency,
        "bound": result.bound,
        "percent_of_peak": None
        if latency is None
        else percent_of_peak(latency, task.work, backend.device),
        "published_baseline_us": task.published.get("trn1_baseline_latency_us"),
        "published_best_us": task.published.get("trn1_best_latency_us"),
        "seconds": round(time.monotonic() - started, 3),
    }


def geometric_mean(rows: Sequence[dict[str, Any]]) -> float | None:
    """Geometric mean of percent of peak over the kernels that are `ok`; None when there is none."""
    values = [r["percent_of_peak"] for r in rows if r["status"] == "ok" and r["percent_of_peak"]]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


@contextmanager
def _progress(total: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar on a terminal, a line per task elsewhere; both on standard error."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    out = console(stderr=True)
    if not out.is_terminal:
        started, done = time.monotonic(), 0

        def line(row: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            elapsed = duration(time.monotonic() - started)
            out.print(
                f"[{elapsed:>6}] {done}/{total} {row['task']}: {row['status']}, "
                f"{microseconds(row['latency_us'])}",
                markup=False,
                soft_wrap=True,
            )

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=out) as progress:
        bar = progress.add_task("judging", total=total)

        def advance(row: dict[str, Any]) -> None:
            progress.console.print(
                f"{row['task']}: {row['status']}, {microseconds(row['latency_us'])}", markup=False
            )
            progress.advance(bar)

        yield advance


def _show(rows: Sequence[dict[str, Any]], backend: Backend) -> None:
    print_table(
        ["task", "shapes", "status", "latency", "bound", "of peak", "published", "best", "took"],
        [
            [
                row["task"].split("/", 1)[1],
                row["shapes"],
                row["status"],
                microseconds(row["latency_us"]),
                row["bound"] or "-",
                percent(row["percent_of_peak"]),
                microseconds(row["published_baseline_us"]),
                microseconds(row["published_best_us"]),
                f"{row['seconds']:.1f} s",
            ]
            for row in rows
        ],
        right=["latency", "of peak", "published", "best", "took"],
        flexible=["shapes", "task"],
        optional=["shapes", "took"],
    )
    mean = geometric_mean(rows)
    passed = sum(row["status"] == "ok" for row in rows)
    console().print(
        f"{passed} of {len(rows)} ok on {backend.name}, geometric mean {percent(mean)} of peak; "
        "published figures are Trainium 1 measurements",
        markup=False,
        soft_wrap=True,
    )
