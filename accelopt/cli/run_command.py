"""Runs the graph of a run folder with a progress view, and prints how it ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from accelopt.cli.output import console, print_json
from accelopt.cli.progress import make_progress
from accelopt.cli.run_output import result_data, show_result
from accelopt.errors import ConfigError

if TYPE_CHECKING:
    from accelopt.kernel import KernelTask
    from accelopt.run_store import RunStore


def run_and_report(store: RunStore, task: KernelTask, *, as_json: bool) -> None:
    """Run, or go on with, the run of a folder, and print the result.

    Raises:
        AcceloptError: the baseline is not correct, or a service is broken.
    """
    from accelopt import session

    config = store.config
    backend = session.open_backend(config.backend)
    progress = make_progress(
        f"optimizing {task.name} on {backend.name}, run {store.run_id}",
        iterations=config.iterations,
        attempts_per_iteration=config.num_plans * config.num_samples,
        budget_usd=config.budget_usd,
    )
    try:
        with stop_on_interrupt() as stop:
            result = session.run_store(
                store, task, backend=backend, observers=(progress,), stop=stop
            )
    finally:
        progress.close()
        backend.close()
    data = result_data(result, task, backend.name, backend.device, store)
    if as_json:
        print_json(data)
    else:
        show_result(data, task, progress.view.elapsed_s)
    if result.status == "stopped":
        why = f"stopped: {result.message}" if result.message else "stopped"
        hint = f"go on with: accelopt resume {store.run_id}"
        console(stderr=True).print(f"{why}; {hint}", markup=False, soft_wrap=True)


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """The first Ctrl-C ends the run at the next step, a second one at once."""
    stop = threading.Event()

    def handle(signum: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        console(stderr=True).print("stopping after the steps that are under way ...")

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)


def find_run(runs_dir: Path | None, name: str) -> Path:
    """Folder of a run given by id, unique prefix of an id, or path.

    Raises:
        ConfigError: there is none, or several fit.
    """
    from accelopt.paths import runs_dir as default_runs_dir

    folder = runs_dir or default_runs_dir()
    direct = Path(name)
    if (direct / "run.json").exists():
        return direct
    if (folder / name / "run.json").exists():
        return folder / name
    folders = folder.iterdir() if folder.is_dir() else ()
    fits = sorted(path for path in folders if path.name.startswith(name) and path.is_dir())
    if len(fits) == 1:
        return fits[0]
    problem = "is not unique" if fits else "does not exist"
    raise ConfigError(
        f"run {name!r} {problem} in {folder}", hint="`accelopt runs list` shows the runs"
    )
