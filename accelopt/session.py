"""Everything a run needs, made from its settings: for the command line and the Python API alike."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelopt.errors import BackendUnavailableError, ConfigError
from accelopt.graphs import RunResult, RunServices
from accelopt.model_names import ModelChoice, parse_models
from accelopt.models import Ensemble, Member, ModelSettings, Role
from accelopt.plugins import installed
from accelopt.prices import Price, PriceTable, load_prices

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.backend import Backend
    from accelopt.config import RunConfig
    from accelopt.events import Observer
    from accelopt.kernel import KernelTask
    from accelopt.run_store import RunStore


def task_of(config: RunConfig) -> KernelTask:
    """The task that a run's settings name.

    Raises:
        TaskError: there is none, or the kernel or the reference file can't be used.
    """
    from accelopt.user_task import load_user_task

    if config.kernel:
        return load_user_task(config.kernel, config.reference)
    return installed().task(config.task)


def open_backend(name: str) -> Backend:
    """The backend called `name`; close it when done.

    Raises:
        UnknownBackendError: there is none.
        BackendUnavailableError: it can't work here.
    """
    backend = installed().backend(name)
    reason = backend.unavailable()
    if reason:
        raise BackendUnavailableError(f"backend {name!r} can't be used: {reason}")
    return backend


def open_models(config: RunConfig, leave_out: Collection[Role] = ()) -> dict[Role, Ensemble]:
    """The models of each role; each distinct one is made once.

    Args:
        config: names them.
        leave_out: roles that need none.

    Raises:
        ConfigError: a name can't be used, or a key or a package is missing.
    """
    made: dict[str, BaseChatModel] = {}

    def member(choice: ModelChoice) -> Member:
        if choice.address not in made:
            settings = model_settings(config, choice)
            made[choice.address] = installed().chat_model(choice.label, settings)
        return Member(choice.address, choice.weight, made[choice.address])

    return {
        role: Ensemble(tuple(member(choice) for choice in parse_models(config.model_for(role))))
        for role in Role
        if role not in leave_out
    }


def model_settings(config: RunConfig, choice: ModelChoice) -> ModelSettings:
    """How a run with these settings calls one of its models."""
    return ModelSettings(
        base_url=choice.base_url or config.base_url,
        temperature=config.temperature,
        max_output_tokens=config.max_output_tokens,
        timeout_s=config.model_timeout_s,
        max_retries=config.model_retries,
        seed=config.seed,
        stream=config.stream,
        reasoning_effort=config.reasoning_effort,
    )


def price_table(config: RunConfig) -> PriceTable:
    """The prices that a run's settings name.

    Raises:
        ConfigError: the price file can't be used.
    """
    return load_prices(Path(config.prices).expanduser() if config.prices else None)


def prices_of(
    models: Mapping[Role, Ensemble], config: RunConfig, table: PriceTable
) -> dict[str, Price | None]:
    """Price of every model of a run, by its label.

    Raises:
        ConfigError: there is a budget in US dollars, and a price is not known.
    """
    labels = {member.label for ensemble in models.values() for member in ensemble.members}
    prices = {label: table.price(label, config.base_url) for label in sorted(labels)}
    unknown = [label for label, price in prices.items() if price is None]
    if config.budget_usd is not None and unknown:
        raise ConfigError(
            f"a budget in USD needs the price of {', '.join(unknown)}",
            hint="write it into a price file (--prices FILE), or limit --max-tokens instead",
        )
    return prices


def check_names(config: RunConfig, models: Mapping[Role, Ensemble]) -> None:
    """Find a graph, an embedder or a price that does not exist before a run folder is made.

    Raises:
        ConfigError: what is wrong, in one line.
    """
    registry = installed()
    registry.graph(config.graph)
    registry.embedder(config.embedder)
    prices_of(models, config, price_table(config))


def check_services(config: RunConfig) -> None:
    """Find unusable names and missing keys before a run folder is made.

    Raises:
        AcceloptError: what is wrong, in one line.
    """
    check_names(config, open_models(config))
    open_backend(config.backend).close()


def run_store(
    store: RunStore,
    task: KernelTask,
    *,
    backend: Backend | None = None,
    models: Mapping[Role, Ensemble] | None = None,
    observers: Sequence[Observer] = (),
    stop: threading.Event | None = None,
) -> RunResult:
    """Run, or go on with, the run of a folder.

    Args:
        store: the run folder.
        task: its task.
        backend: the judge, which stays the caller's; by default the one that the settings name.
        models: of each role; by default those that the settings name.
        observers: who watches, beside those of plugins.
        stop: set it, and the run ends at the next step, resumable.

    Raises:
        AcceloptError: the baseline is not correct, or a service is broken.
    """
    config, registry = store.config, installed()
    chat_models = open_models(config) if models is None else models
    table = price_table(config)
    prices = prices_of(chat_models, config, table)
    store.save_prices(table, prices)
    judge = open_backend(config.backend) if backend is None else backend
    judge.configure(evaluation_timeout_s=config.evaluation_timeout_s, workers=config.workers)
    try:
        plugged = tuple(factory() for factory in registry.observers.values())
        return registry.graph(config.graph).run(
            RunServices(
                config=config,
                task=task,
                backend=judge,
                chat_models=chat_models,
                prices=prices,
                embedder=registry.embedder(config.embedder),
                store=store,
                observers=(*observers, *plugged),
                stop=threading.Event() if stop is None else stop,
            )
        )
    finally:
        if backend is None:
            judge.close()
