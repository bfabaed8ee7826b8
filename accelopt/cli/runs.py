"""`accelopt runs list` and `accelopt runs show`."""

from __future__ import annotations

from pathlib import Path

import typer

from accelopt.cli.output import console, factor, microseconds, print_facts, print_json, print_table
from accelopt.cli.run_command import find_run
from accelopt.cli.run_output import cost_line, failures_line

JSON_OPTION = typer.Option(False, "--json", help="Print JSON.")
RUNS_DIR_OPTION = typer.Option(None, "--runs-dir", help="Where run folders are kept [./runs].")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Look at past runs.", no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_runs)
    group.command("show")(show_run)
    app.add_typer(group, name="runs")


def list_runs(runs_dir: Path | None = RUNS_DIR_OPTION, as_json: bool = JSON_OPTION) -> None:
    """List the runs of a folder, newest first."""
    from accelopt.paths import runs_dir as default_runs_dir
    from accelopt.run_store import RunStore

    folder = runs_dir or default_runs_dir()
    summaries, broken = RunStore.list_runs(folder)
    if as_json:
        print_json([summary.model_dump() for summary in summaries])
    elif not summaries:
        console().print(
            f"no runs in {folder}; start one with `accelopt optimize TASK`", markup=False
        )
    else:
        rows = [
            [
                s.run,
                s.task,
                s.backend,
                s.status,
                str(s.iterations),
                microseconds(s.baseline_latency_us),
                microseconds(s.best_latency_us),
                factor(s.speedup),
                str(s.evaluations),
            ]
            for s in summaries
        ]
        names = "run task backend status iterations baseline best speedup evaluations"
        columns = names.split()
        print_table(columns, rows, right=columns[4:], flexible=["run", "task"])
    for path, problem in broken.items():
        console(stderr=True).print(f"skipped {path}: {problem}", markup=False, soft_wrap=True)


def show_run(
    run: str = typer.Argument(help="Run id, unique prefix of one, or run folder."),
    runs_dir: Path | None = RUNS_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Show one run: its result and every candidate with its lineage."""
    from accelopt.run_store import RunStore

    with RunStore.open(find_run(runs_dir, run)) as store:
        counts, failures = store.journal.counts(), store.journal.failure_counts()
        forked = f"{store.forked_from} at iteration {store.forked_at}" if store.forked_from else ""
        summary, candidates = store.summary(), store.candidates()
        plans = {plan.id: plan.text for plan in store.plans()}
        path = store.path
    data = [
        {
            "candidate": c.id,
            "parent": c.parent,
            "status": c.evaluation.status.value,
            "latency_us": c.latency_us,
            "plan": next(iter(plans.get(c.plan, "").strip().splitlines()), ""),
        }
        for c in candidates
    ]
    if as_json:
        more = {"folder": str(path), "forked_from": forked, "failures": failures}
        print_json(summary.model_dump() | counts.model_dump() | more | {"candidates": data})
        return
    facts = {
        "run": summary.run,
        "task": f"{summary.task} on {summary.backend}",
        "status": summary.status + (f": {summary.message}" if summary.message else ""),
        "forked from": forked,
        "baseline": microseconds(summary.baseline_latency_us),
        "best": microseconds(summary.best_latency_us),
        "speedup": factor(summary.speedup),
        "effort": f"{summary.evaluations} evaluations, {summary.model_calls} model calls",
        "cost": cost_line(counts.model_dump()),
        "failures": failures_line(failures),
        "folder": str(path),
    }
    print_facts({name: value for name, value in facts.items() if value})
    rows = [
        [
            str(d["candidate"]),
            str(d["parent"]) or "-",
            str(d["status"]),
            microseconds(c.latency_us),
            str(d["plan"])[:90],
        ]
        for d, c in zip(data, candidates, strict=True)
    ]
    columns = ["candidate", "parent", "status", "latency", "plan"]
    print_table(columns, rows, right=["latency"], flexible=["plan"])
