"""Opens what the nodes of a run work with, and closes it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from accelopt import paths
from accelopt.budget import Budget, Limits
from accelopt.config import NONE, RunConfig
from accelopt.evaluation_pool import EvaluationPool
from accelopt.graphs import RunServices
from accelopt_graphs.chat import ChatCaller
from accelopt_graphs.context import RunContext
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.model_calls import CallPolicy, ModelCalls
from accelopt_graphs.recorded import RecordedAnswers
from accelopt_graphs.request_builders import problem_facts
from accelopt_graphs.run_memory import RunMemory
from accelopt_graphs.stopping import StopSignal


@contextmanager
def open_context(services: RunServices, hub: EventHub) -> Iterator[RunContext]:
    """The services of one run, behind the interfaces that nodes need.

    Raises:
        AcceloptError: one of them can't be opened.
    """
    config, store = services.config, services.store
    journal = store.journal
    stop = StopSignal(services.stop)
    budget = Budget(Limits.of(config), journal.counts(), journal.usage(), elapsed_s=store.elapsed_s)
    recorded = RecordedAnswers(journal) if services.recorded else None
    with ExitStack() as stack:
        memory = RunMemory(
            path=memory_path(config.memory, store.path),
            embedder=services.embedder,
            journal=journal,
            device=services.backend.device.name,
            dialect=services.task.baseline.dialect.value,
            capacity=config.memory_capacity,
        )
        stack.callback(memory.close)
        if store.forked_at is not None:
            # A private memory starts empty; what the common part of the search learned is known.
            memory.add(*store.experiences())
        pool = stack.enter_context(
            EvaluationPool(
                services.backend,
                services.task,
                journal,
                config.workers,
                shared=_shared_evaluations(config),
                admit=budget.evaluation,
            )
        )
        if pool.known.trouble:
            hub.emit("warning", message=pool.known.trouble)
        calls = ModelCalls(
            policy=_policy(config),
            budget=budget,
            prices=services.prices,
            journal=journal,
            events=hub,
            stop=stop,
        )
        yield RunContext(
            config=config,
            task=services.task,
            backend=services.backend,
            store=store,
            chat=ChatCaller(
                journal=journal,
                models=services.chat_models,
                calls=calls,
                events=hub,
                stop=stop,
                seed=config.seed,
                reasks=config.reply_reasks,
                recorded=recorded,
            ),
            pool=pool,
            memory=memory,
            events=hub,
            stop=stop,
            budget=budget,
            problem=problem_facts(services.task, services.backend),
            recorded=recorded,
        )


def _policy(config: RunConfig) -> CallPolicy:
    return CallPolicy(
        timeout_s=config.model_timeout_s,
        retries=config.model_retries,
        concurrency=config.model_concurrency,
        requests_per_minute=config.requests_per_minute,
    )


def memory_path(setting: str, run_folder: Path) -> Path:
    """Where a run keeps its lessons."""
    if setting == NONE:
        return run_folder / "memory"
    return Path(setting).expanduser() if setting else paths.memory_dir()


def _shared_evaluations(config: RunConfig) -> Path | None:
    setting = config.evaluation_cache
    if setting == NONE:
        return None
    return Path(setting).expanduser() if setting else paths.evaluations_file()
