"""`accelopt resume`, `fork` and `replay`: what can be done with a run that has begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from accelopt.cli.output import console, microseconds, print_facts, print_json
from accelopt.cli.run_command import find_run, run_and_report

_RUN = typer.Argument(help="Run id, unique prefix of one, or run folder.")
_RUNS_DIR = typer.Option(None, help="Where run folders are kept [./runs].")
_SETTINGS = typer.Option([], "--set", help="Change a setting, key=value; may be repeated.")
_JSON = typer.Option(False, "--json", help="End with one JSON object.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("resume")(resume)
    app.command("fork")(fork)
    app.command("replay")(replay)


def resume(
    run: str = _RUN,
    budget_usd: float | None = typer.Option(None, help="Most US dollars for model calls."),
    max_tokens: int | None = typer.Option(None, help="Most tokens, sent and received."),
    max_evaluations: int | None = typer.Option(None, help="Most programs judged."),
    max_minutes: float | None = typer.Option(None, help="Most minutes of wall time."),
    settings: list[str] = _SETTINGS,
    runs_dir: Path | None = _RUNS_DIR,
    as_json: bool = _JSON,
) -> None:
    """Go on with a run that was stopped, killed or failed; nothing is asked or judged twice."""
    from accelopt import session
    from accelopt.run_changes import changed, parse_settings
    from accelopt.run_store import RunStore

    limits = {
        "budget_usd": budget_usd,
        "max_tokens": max_tokens,
        "max_evaluations": max_evaluations,
        "max_minutes": max_minutes,
    }
    given = {key: value for key, value in limits.items() if value is not None}
    changes: dict[str, Any] = {**parse_settings(settings), **given}
    with RunStore.open(find_run(runs_dir, run)) as store:
        if changes:
            config = changed(store.config, changes, fork=False)
            session.check_services(config)
            store.reconfigure(config)
        run_and_report(store, session.task_of(store.config), as_json=as_json)


def fork(
    run: str = _RUN,
    at: int = typer.Option(..., "--at", help="Last iteration in common; 0: only the baseline."),
    settings: list[str] = _SETTINGS,
    runs_dir: Path | None = _RUNS_DIR,
    as_json: bool = _JSON,
) -> None:
    """Begin a new run with another one's first iterations, and other settings from there on."""
    from accelopt import session
    from accelopt.fork import fork as fork_run
    from accelopt.run_changes import changed, parse_settings
    from accelopt.run_store import RunStore

    folder = find_run(runs_dir, run)
    with RunStore.open(folder) as parent:
        config = changed(parent.config, parse_settings(settings), fork=True)
        task = session.task_of(config)
        session.check_services(config)
        store = fork_run(parent, at, config, runs_dir or folder.resolve().parent)
    with store:
        console(stderr=True).print(
            f"run {store.run_id}: run {store.forked_from} up to iteration {at}, then its own way",
            markup=False,
            soft_wrap=True,
        )
        run_and_report(store, task, as_json=as_json)


def replay(
    run: str = _RUN,
    runs_dir: Path | None = _RUNS_DIR,
    as_json: bool = _JSON,
) -> None:
    """Repeat a run from its recorded answers, without any model; exit code 1 if it differs."""
    from accelopt import session
    from accelopt.replay import replay as replay_run
    from accelopt.run_store import RunStore

    with RunStore.open(find_run(runs_dir, run)) as store:
        task = session.task_of(store.config)
        backend = session.open_backend(store.config.backend)
        try:
            with console(stderr=True).status(f"replaying {store.run_id}"):
                found = replay_run(store, task, backend)
        finally:
            backend.close()
    data = {
        "run": store.run_id,
        "same": found.same,
        "difference": found.difference,
        "iterations": found.iterations,
        "answers": found.answers,
        "model_calls": 0,
        "evaluations": found.evaluations,
        "changed_prompts": len(found.changed_prompts),
        "best_candidate": found.best[0],
        "best_latency_us": found.best[1],
        "recorded_best_candidate": found.recorded_best[0],
        "recorded_best_latency_us": found.recorded_best[1],
    }
    if as_json:
        print_json(data)
    else:
        _show(data)
    if not found.same:
        raise typer.Exit(1)


def _show(data: dict[str, Any]) -> None:
    anew = data["evaluations"]
    changed = data["changed_prompts"]
    print_facts(
        {
            "run": data["run"],
            "replayed": f"{data['iterations']} iterations, {data['answers']} recorded answers, "
            "0 model calls",
            "judged anew": f"{anew} kernels: the judge is another one now" if anew else "nothing",
            "prompts": f"{changed} differ from the recorded ones" if changed else "as recorded",
            "best": f"{data['best_candidate']}, {microseconds(data['best_latency_us'])}",
            "recorded": f"{data['recorded_best_candidate']}, "
            f"{microseconds(data['recorded_best_latency_us'])}",
            "outcome": data["difference"] or "the same beams and the same best kernel",
        }
    )
