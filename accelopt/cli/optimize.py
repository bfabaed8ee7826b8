"""`accelopt optimize`: start a search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from accelopt.cli.run_command import find_run, run_and_report
from accelopt.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("optimize")(optimize)


def optimize(
    subject: str = typer.Argument("", help="Task name, or a kernel file (with --reference)."),
    reference: str | None = typer.Option(None, help="Reference file of a kernel of your own."),
    config: Path | None = typer.Option(None, help="TOML file with settings."),
    preset: str | None = typer.Option(None, help="Settings that go together: paper, quick."),
    backend: str | None = typer.Option(None, help="Backend that judges [sim-trn1]."),
    graph: str | None = typer.Option(None, help="Agent graph: optimize, best-of-n [optimize]."),
    model: str | None = typer.Option(None, help="Chat model, provider:name [rewriter]."),
    planner_model: str | None = typer.Option(None, help="Chat model of the planner."),
    executor_model: str | None = typer.Option(None, help="Chat model of the executor."),
    fixer_model: str | None = typer.Option(None, help="Chat model of the fixer."),
    summarizer_model: str | None = typer.Option(None, help="Chat model of the summarizer."),
    base_url: str | None = typer.Option(None, help="URL of an OpenAI-compatible server."),
    temperature: float | None = typer.Option(None, help="Sampling temperature."),
    max_output_tokens: int | None = typer.Option(None, help="Most tokens per answer."),
    reasoning_effort: str | None = typer.Option(None, help="low, medium, high."),
    stream: bool | None = typer.Option(None, "--stream/--no-stream", help="Stream answers [off]."),
    model_timeout_s: float | None = typer.Option(None, help="Seconds per model call [600]."),
    model_retries: int | None = typer.Option(None, help="Retries of a failed call [3]."),
    model_concurrency: int | None = typer.Option(None, help="Model calls at once [8]."),
    requests_per_minute: float | None = typer.Option(None, help="Most model calls per minute."),
    reply_reasks: int | None = typer.Option(None, help="Repeats after a useless answer [1]."),
    edit_mode: str | None = typer.Option(None, help="Answers: full kernels or edits [full]."),
    beam_width: int | None = typer.Option(None, help="B: kernels kept per iteration [3]."),
    num_plans: int | None = typer.Option(None, help="N: plans per kernel [4]."),
    num_samples: int | None = typer.Option(None, help="K: implementations per plan [1]."),
    iterations: int | None = typer.Option(None, help="T: iterations [5]."),
    patience: int | None = typer.Option(None, help="Iterations without gain that end it [0: off]."),
    fixer_rounds: int | None = typer.Option(None, help="F: repair rounds [2]."),
    memory: str | None = typer.Option(None, help="Memory folder, or `none` for a private one."),
    budget_usd: float | None = typer.Option(None, help="Most US dollars for model calls."),
    max_tokens: int | None = typer.Option(None, help="Most tokens, sent and received."),
    max_evaluations: int | None = typer.Option(None, help="Most programs judged."),
    max_minutes: float | None = typer.Option(None, help="Most minutes of wall time."),
    prices: str | None = typer.Option(None, help="Price file of your own."),
    seed: int | None = typer.Option(None, help="Seed of every random choice [0]."),
    workers: int | None = typer.Option(None, help="Evaluations at once [one per core]."),
    settings: list[str] = typer.Option([], "--set", help="Any other setting, key=value."),
    runs_dir: Path | None = typer.Option(None, help="Where run folders are kept [./runs]."),
    resume: str = typer.Option("", help="Run id (or folder) to go on with."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Search for a faster kernel; prints what was found and where it is."""
    from accelopt import session
    from accelopt.config import RunConfig
    from accelopt.paths import runs_dir as default_runs_dir
    from accelopt.run_changes import parse_settings
    from accelopt.run_store import RunStore

    if resume:
        if subject or config:
            raise ConfigError("--resume takes its settings from the run", hint="leave out the task")
        with RunStore.open(find_run(runs_dir, resume)) as store:
            run_and_report(store, session.task_of(store.config), as_json=as_json)
        return
    own_kernel = subject.endswith(".py")
    flags = {
        "task": None if own_kernel else subject or None,
        "kernel": subject if own_kernel else None,
        "preset": preset, "patience": patience,
        "reference": reference, "backend": backend, "graph": graph, "model": model,
        "planner_model": planner_model, "executor_model": executor_model,
        "fixer_model": fixer_model, "summarizer_model": summarizer_model,
        "base_url": base_url, "temperature": temperature, "max_output_tokens": max_output_tokens,
        "reasoning_effort": reasoning_effort, "stream": stream,
        "model_timeout_s": model_timeout_s, "model_retries": model_retries,
        "model_concurrency": model_concurrency, "requests_per_minute": requests_per_minute,
        "reply_reasks": reply_reasks, "edit_mode": edit_mode, "beam_width": beam_width,
        "num_plans": num_plans, "num_samples": num_samples, "iterations": iterations,
        "fixer_rounds": fixer_rounds, "memory": memory, "budget_usd": budget_usd,
        "max_tokens": max_tokens, "max_evaluations": max_evaluations,
        "max_minutes": max_minutes, "prices": prices, "seed": seed, "workers": workers,
    }  # fmt: skip
    asked = RunConfig.load(config, **(parse_settings(settings) | _given(flags)))
    if not asked.task and not asked.kernel:
        raise ConfigError("no task given", hint="`accelopt tasks` lists them")
    task = session.task_of(asked)
    session.check_services(asked)
    with RunStore.create(runs_dir or default_runs_dir(), asked, task.name) as store:
        run_and_report(store, task, as_json=as_json)


def _given(flags: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in flags.items() if value is not None}
