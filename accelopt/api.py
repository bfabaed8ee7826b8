"""The Python API: one call that optimizes a kernel, and its asynchronous twin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from accelopt.config import RunConfig
from accelopt.errors import ConfigError
from accelopt.kernel import KernelTask
from accelopt.models import Ensemble, Role
from accelopt.optimization import Optimization
from accelopt.run_store import RunStore

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.backend import Backend
    from accelopt.events import Observer

    Model = str | BaseChatModel | Ensemble

Progress = bool | Literal["auto"]


def optimize(
    task: str | Path | KernelTask,
    *,
    backend: str | Backend = "sim-trn1",
    model: Model | Mapping[str, Model] = "rewriter",
    reference: str | Path = "",
    runs_dir: str | Path | None = None,
    progress: Progress = "auto",
    observers: Sequence[Observer] = (),
    stop: threading.Event | None = None,
    **settings: Any,
) -> Optimization:
    """Search for a faster kernel.

    ::

        import accelopt

        found = accelopt.optimize("silu", preset="quick")
        print(found.speedup, found.best.source.text)

    Args:
        task: a task's name, a task, or a person's own kernel file (then with `reference`).
        backend: name of the backend that judges, or the backend, which stays the caller's.
        model: what all roles are played by, or role -> model. A name as on the command line
            (`openai:gpt-5-mini`), a LangChain chat model, or an `Ensemble`.
        reference: reference file of a kernel of one's own.
        runs_dir: where the run folder is made; by default `./runs`.
        progress: a live view: in a notebook or on a terminal (`auto`), always, or never.
        observers: who watches, beside it.
        stop: set it from another thread, and the run ends at the next step, resumable.
        settings: any setting of `RunConfig`: `preset`, `beam_width`, `budget_usd`, ...

    Returns:
        what was found and what it cost; also when the run was stopped.

    Raises:
        AcceloptError: the settings can't be used, the baseline is not correct, or a service is
            broken.
    """
    models = dict(model) if isinstance(model, Mapping) else dict.fromkeys(map(str, Role), model)
    for role in map(str, Role):
        if f"{role}_model" in settings:
            models[role] = settings.pop(f"{role}_model")
    config = _config(task, backend, models, str(reference), settings)
    from accelopt import session

    found = task if isinstance(task, KernelTask) else session.task_of(config)
    ensembles = _ensembles(config, models)
    session.check_names(config, ensembles)
    folder = Path(runs_dir) if runs_dir is not None else _default_runs_dir()
    with ExitStack() as stack:
        if isinstance(backend, str):
            judge = session.open_backend(backend)
            stack.callback(judge.close)
        else:
            judge = backend
        store = stack.enter_context(RunStore.create(folder, config, found.name))
        watchers = [*observers, *_progress(progress, found, judge, store)]
        result = session.run_store(
            store, found, backend=judge, models=ensembles, observers=watchers, stop=stop
        )
        return Optimization(store.path, found, judge.device, result)


async def optimize_async(task: str | Path | KernelTask, **arguments: Any) -> Optimization:
    """`optimize` for an event loop; cancelling it ends the run at its next step, resumable.

    Raises:
        asyncio.CancelledError: it was cancelled; the run is in its folder.
        AcceloptError: as `optimize`.
    """
    stop = arguments.pop("stop", None) or threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(optimize, task, stop=stop, **arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        # The step under way still writes to the run folder.
        await asyncio.wait({work})
        if not work.cancelled():
            # Asked for, so that asyncio does not complain that nobody looked at it.
            work.exception()
        raise


def _config(
    task: str | Path | KernelTask,
    backend: str | Backend,
    models: Mapping[str, Model],
    reference: str,
    settings: Mapping[str, Any],
) -> RunConfig:
    """The settings of the run; models that are objects stand in them by their labels."""
    unknown = sorted(set(models) - set(map(str, Role)))
    if unknown:
        raise ConfigError(
            f"unknown role {unknown[0]!r}", hint=f"one of {', '.join(map(str, Role))}"
        )
    misspelt = sorted(set(settings) - set(RunConfig.model_fields))
    if misspelt:
        raise ConfigError(f"unknown setting {misspelt[0]!r}", hint="docs/cli.md lists the settings")
    values: dict[str, Any] = dict(settings)
    values["backend"] = backend if isinstance(backend, str) else backend.name
    values |= {f"{role}_model": _label(chosen) for role, chosen in models.items()}
    if isinstance(task, KernelTask):
        values["task"] = task.name
    elif reference or str(task).endswith(".py"):
        values |= {"kernel": str(task), "reference": reference}
    else:
        values["task"] = str(task)
    return RunConfig.load(None, **values)


def _label(model: Model) -> str:
    if isinstance(model, str):
        return model
    if isinstance(model, Ensemble):
        return ",".join(member.label for member in model.members)
    return str(getattr(model, "model_name", "") or getattr(model, "model", "") or model._llm_type)


def _ensembles(config: RunConfig, models: Mapping[str, Model]) -> dict[Role, Ensemble]:
    from accelopt import session

    given = {Role(role): chosen for role, chosen in models.items() if not isinstance(chosen, str)}
    named = {} if len(given) == len(Role) else session.open_models(config, leave_out=given)
    for role, chosen in given.items():
        named[role] = (
            chosen if isinstance(chosen, Ensemble) else Ensemble.of(_label(chosen), chosen)
        )
    return named


def _default_runs_dir() -> Path:
    from accelopt.paths import runs_dir

    return runs_dir()


def _progress(
    progress: Progress, task: KernelTask, backend: Backend, store: RunStore
) -> list[Observer]:
    from accelopt.notebook import in_notebook

    if not progress:
        return []
    title = f"optimizing {task.name} on {backend.name}, run {store.run_id}"
    if in_notebook():
        from accelopt.notebook import NotebookProgress

        return [NotebookProgress(title, store.config)]
    from accelopt.cli.output import console
    from accelopt.cli.progress import make_progress

    if progress == "auto" and not console(stderr=True).is_terminal:
        return []
    config = store.config
    return [
        make_progress(
            title,
            iterations=config.iterations,
            attempts_per_iteration=config.num_plans * config.num_samples,
            budget_usd=config.budget_usd,
        )
    ]
