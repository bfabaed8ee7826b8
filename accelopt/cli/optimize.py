"""`accelopt optimize`: start or resume a search."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accelopt.cli.evaluate import open_backend
from accelopt.cli.output import (
    console,
    duration,
    factor,
    microseconds,
    percent,
    print_facts,
    print_json,
    short_path,
)
from accelopt.cli.progress import make_progress
from accelopt.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.config import RunConfig
    from accelopt.device import DeviceSpec
    from accelopt.graphs import RunResult
    from accelopt.kernel import KernelTask
    from accelopt.models import Role
    from accelopt.run_store import RunStore


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("optimize")(optimize)


def optimize(
    subject: str = typer.Argument("", help="Task name, or a kernel file (with --reference)."),
    reference: str | None = typer.Option(None, help="Reference file of a kernel of your own."),
    config: Path | None = typer.Option(None, help="TOML file with settings."),
    preset: str | None = typer.Option(None, help="Settings that go together: paper, quick."),
    backend: str | None = typer.Option(None, help="Backend that judges [sim-trn1]."),
    graph: str | None = typer.Option(None, help="Agent graph [optimize]."),
    model: str | None = typer.Option(None, help="Chat model, provider:name [rewriter]."),
    planner_model: str | None = typer.Option(None, help="Chat model of the planner."),
    executor_model: str | None = typer.Option(None, help="Chat model of the executor."),
    fixer_model: str | None = typer.Option(None, help="Chat model of the fixer."),
    summarizer_model: str | None = typer.Option(None, help="Chat model of the summarizer."),
    base_url: str | None = typer.Option(None, help="URL of an OpenAI-compatible server."),
    temperature: float | None = typer.Option(None, help="Sampling temperature."),
    beam_width: int | None = typer.Option(None, help="B: kernels kept per iteration [3]."),
    num_plans: int | None = typer.Option(None, help="N: plans per kernel [4]."),
    num_samples: int | None = typer.Option(None, help="K: implementations per plan [1]."),
    iterations: int | None = typer.Option(None, help="T: iterations [5]."),
    patience: int | None = typer.Option(None, help="Iterations without gain that end it [0: off]."),
    fixer_rounds: int | None = typer.Option(None, help="F: repair rounds [2]."),
    memory: str | None = typer.Option(None, help="Memory folder, or `none` for a private one."),
    seed: int | None = typer.Option(None, help="Seed of every random choice [0]."),
    workers: int | None = typer.Option(None, help="Evaluations at once [one per core]."),
    runs_dir: Path | None = typer.Option(None, help="Where run folders are kept [./runs]."),
    resume: str = typer.Option("", help="Run id (or folder) to go on with."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Search for a faster kernel; prints what was found and where it is."""
    from accelopt.config import RunConfig
    from accelopt.paths import runs_dir as default_runs_dir
    from accelopt.run_store import RunStore

    folder = runs_dir or default_runs_dir()
    if resume:
        if subject or config:
            raise ConfigError("--resume takes its settings from the run", hint="leave out the task")
        store = RunStore.open(find_run(folder, resume))
        settings = store.config
        task = _task(settings)
    else:
        own_kernel = subject.endswith(".py")
        flags = {
            "task": None if own_kernel else subject or None,
            "kernel": subject if own_kernel else None,
            "preset": preset, "patience": patience,
            "reference": reference, "backend": backend, "graph": graph, "model": model,
            "planner_model": planner_model, "executor_model": executor_model,
            "fixer_model": fixer_model, "summarizer_model": summarizer_model,
            "base_url": base_url, "temperature": temperature, "beam_width": beam_width,
            "num_plans": num_plans, "num_samples": num_samples, "iterations": iterations,
            "fixer_rounds": fixer_rounds, "memory": memory, "seed": seed, "workers": workers,
        }  # fmt: skip
        settings = RunConfig.load(config, **flags)
        if not settings.task and not settings.kernel:
            raise ConfigError("no task given", hint="`accelopt tasks` lists them")
        task = _task(settings)
        _check_services(settings)
        store = RunStore.create(folder, settings, task.name)
    with store:
        run(store, task, settings, as_json=as_json)


def _task(settings: RunConfig) -> KernelTask:
    from accelopt.plugins import installed
    from accelopt.user_task import load_user_task

    if settings.kernel:
        return load_user_task(settings.kernel, settings.reference)
    return installed().task(settings.task)


def _check_services(settings: RunConfig) -> None:
    """Find unusable names and missing keys before a run folder is made."""
    from accelopt.plugins import installed

    registry = installed()
    registry.graph(settings.graph)
    registry.embedder(settings.embedder)
    _chat_models(settings)
    open_backend(settings.backend).close()


def _chat_models(settings: RunConfig) -> dict[Role, BaseChatModel]:
    from accelopt.models import ModelSettings, Role
    from accelopt.plugins import installed

    how = ModelSettings(
        base_url=settings.base_url,
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        timeout_s=settings.model_timeout_s,
        max_retries=settings.model_retries,
        seed=settings.seed,
    )
    registry = installed()
    by_name = {
        name: registry.chat_model(name, how)
        for name in dict.fromkeys(settings.model_for(role) for role in Role)
    }
    return {role: by_name[settings.model_for(role)] for role in Role}


def run(store: RunStore, task: KernelTask, settings: RunConfig, *, as_json: bool) -> None:
    """Run the graph with a progress view, and print the result."""
    from accelopt.graphs import RunServices
    from accelopt.plugins import installed

    registry = installed()
    backend = open_backend(settings.backend)
    backend.configure(evaluation_timeout_s=settings.evaluation_timeout_s, workers=settings.workers)
    stop = threading.Event()
    models = _chat_models(settings)
    observers = tuple(factory() for factory in registry.observers.values())
    progress = make_progress(
        f"optimizing {task.name} on {backend.name}, run {store.run_id}",
        iterations=settings.iterations,
        attempts_per_iteration=settings.num_plans * settings.num_samples,
    )
    try:
        with _stop_on_interrupt(stop):
            result = registry.graph(settings.graph).run(
                RunServices(
                    config=settings,
                    task=task,
                    backend=backend,
                    chat_models=models,
                    embedder=registry.embedder(settings.embedder),
                    store=store,
                    observers=(progress, *observers),
                    stop=stop,
                )
            )
    finally:
        progress.close()
        backend.close()
    data = result_data(result, task, backend.name, backend.device, store)
    if as_json:
        print_json(data)
    else:
        _show(data, task, progress.view.elapsed_s)
    if result.status == "stopped":
        hint = f"accelopt optimize --resume {store.run_id}"
        console(stderr=True).print(f"stopped; go on with: {hint}", markup=False, soft_wrap=True)


@contextmanager
def _stop_on_interrupt(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C ends the run at the next step, a second one at once."""

    def handle(signum: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        console(stderr=True).print("stopping after the steps that are under way ...")

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def result_data(
    result: RunResult, task: KernelTask, backend: str, device: DeviceSpec, store: RunStore
) -> dict[str, Any]:
    """The stable machine-readable form of a run's result."""
    from accelopt.device import percent_of_peak

    baseline_us, best_us = result.baseline.latency_us, result.best.latency_us
    return {
        "task": task.name,
        "backend": backend,
        "run": store.run_id,
        "run_folder": str(store.path.resolve()),
        "status": result.status,
        "baseline_latency_us": baseline_us,
        "best_latency_us": best_us,
        "speedup": None if not baseline_us or not best_us else baseline_us / best_us,
        "percent_of_peak_baseline": None
        if baseline_us is None
        else percent_of_peak(baseline_us, task.work, device),
        "percent_of_peak_best": None
        if best_us is None
        else percent_of_peak(best_us, task.work, device),
        "best_kernel": str(store.best_path.resolve()) if store.best_path.exists() else None,
        "best_candidate": result.best.id,
        "evaluations": result.evaluations,
        "model_calls": result.model_calls,
        "input_tokens": result.input_tokens,
        "output_tokens": result.output_tokens,
        "calibration": result.best.evaluation.calibration,
        "notes": list(result.best.evaluation.notes),
    }


def _show(data: dict[str, Any], task: KernelTask, elapsed_s: float) -> None:
    alone = " (of the bytes alone)" if task.work.from_bytes_alone else ""
    print_facts(
        {
            "task": f"{data['task']} on {data['backend']}",
            "baseline": microseconds(data["baseline_latency_us"]),
            "best": microseconds(data["best_latency_us"]),
            "speedup": factor(data["speedup"]),
            "of peak": f"{percent(data['percent_of_peak_baseline'])} before, "
            f"{percent(data['percent_of_peak_best'])} after{alone}",
            "effort": f"{data['evaluations']} evaluations, {data['model_calls']} model calls, "
            f"{duration(elapsed_s)}",
            "best kernel": short_path(data["best_kernel"]) if data["best_kernel"] else "-",
            "run folder": short_path(data["run_folder"]),
        }
    )
    for note in data["notes"]:
        console().print(f"note: {note}", markup=False, soft_wrap=True)


def find_run(runs_dir: Path, name: str) -> Path:
    """Folder of a run given by id, unique prefix of an id, or path.

    Raises:
        ConfigError: there is none, or several fit.
    """
    direct = Path(name)
    if (direct / "run.json").exists():
        return direct
    if (runs_dir / name / "run.json").exists():
        return runs_dir / name
    folders = runs_dir.iterdir() if runs_dir.is_dir() else ()
    fits = sorted(path for path in folders if path.name.startswith(name) and path.is_dir())
    if len(fits) == 1:
        return fits[0]
    problem = "is not unique" if fits else "does not exist"
    raise ConfigError(
        f"run {name!r} {problem} in {runs_dir}", hint="`accelopt runs list` shows the runs"
    )
