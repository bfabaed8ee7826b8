"""The `optimize` graph as the command line sees it: describe, draw, run, resume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig

from accelopt import paths, slots
from accelopt.candidate import Candidate
from accelopt.errors import BudgetExhaustedError, ChatError
from accelopt.evaluation_pool import EvaluationPool
from accelopt.graphs import RunResult, RunServices
from accelopt_graphs.build import build_graph
from accelopt_graphs.chat import ChatCaller
from accelopt_graphs.checkpoints import open_saver
from accelopt_graphs.context import RunContext, problem_facts
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.mermaid import mermaid
from accelopt_graphs.model_errors import one_line
from accelopt_graphs.run_memory import RunMemory
from accelopt_graphs.stopping import RunStoppedError, StopSignal
from accelopt_graphs.winner import best_file, verified_best

PRIVATE_MEMORY = "none"
"""Value of the `memory` setting for a memory of the run's own."""

_STEPS_PER_ITERATION = 8


class OptimizeGraph:
    """Plans, attempts, lessons, beam selection."""

    @property
    def name(self) -> str:
        """Name of the graph."""
        return "optimize"

    @property
    def description(self) -> str:
        """One line for `accelopt graphs`."""
        return "beam search with planner, executor, fixer, summarizer and optimization memory"

    def mermaid(self) -> str:
        """The graph drawn as Mermaid text, inner graph included."""
        return mermaid()

    def run(self, services: RunServices) -> RunResult:
        """Run, or resume what the store's journal and checkpoints hold.

        Raises:
            AcceloptError: the baseline is not correct, or a service is broken.
        """
        store = services.store
        hub = EventHub(store, services.observers)
        try:
            with store.exclusive():
                finished = _finished(services)
                return _run(services, hub) if finished is None else finished
        finally:
            hub.close()


def _run(services: RunServices, hub: EventHub) -> RunResult:
    store = services.store
    resumed = store.status != "created"
    store.update(status="running", message="")
    hub.emit(
        "run_resumed" if resumed else "run_started",
        iterations=services.config.iterations,
        message=services.task.name,
    )
    try:
        with _context(services, hub) as context:
            try:
                _search(context)
            except RunStoppedError:
                broken = context.stop.error
                if isinstance(broken, BudgetExhaustedError):
                    return _conclude(context, "stopped", broken.message)
                if broken is not None:
                    raise broken from None
                return _conclude(context, "stopped")
            except BudgetExhaustedError as error:
                return _conclude(context, "stopped", error.message)
            return _conclude(context, "finished")
    except (KeyboardInterrupt, SystemExit):
        store.update(status="stopped", message="interrupted")
        hub.emit("run_stopped", status="stopped", message="interrupted")
        raise
    except BaseException as error:
        message = getattr(error, "message", "") or one_line(error)
        store.update(status="failed", message=message)
        hub.emit("run_stopped", status="failed", message=message)
        raise


@contextmanager
def _context(services: RunServices, hub: EventHub) -> Iterator[RunContext]:
    config, store = services.config, services.store
    stop = StopSignal(services.stop)
    with ExitStack() as stack:
        memory = RunMemory(
            path=_memory_path(config.memory, store.path),
            embedder=services.embedder,
            journal=store.journal,
            device=services.backend.device.name,
            dialect=services.task.baseline.dialect.value,
            capacity=config.memory_capacity,
        )
        stack.callback(memory.close)
        pool = stack.enter_context(
            EvaluationPool(services.backend, services.task, store.journal, config.workers)
        )
        yield RunContext(
            config=config,
            task=services.task,
            backend=services.backend,
            store=store,
            chat=ChatCaller(
                journal=store.journal,
                models=services.chat_models,
                events=hub,
                stop=stop,
                retries=config.model_retries,
            ),
            pool=pool,
            memory=memory,
            events=hub,
            stop=stop,
            problem=problem_facts(services.task, services.backend),
        )


def _search(run: RunContext) -> None:
    config = run.config
    settings: RunnableConfig = {
        "configurable": {"thread_id": run.store.run_id},
        "max_concurrency": config.model_concurrency,
        # The inner graph inherits the limit; either bound is far above what a run can take.
        "recursion_limit": _STEPS_PER_ITERATION * config.iterations + 4 * config.fixer_rounds + 20,
    }
    with open_saver(run.store.checkpoints_path) as saver:
        # The journal makes a repeated attempt free, so its inner steps need no checkpoints.
        graph = build_graph(inner_checkpoints=False).compile(checkpointer=saver, name="optimize")
        snapshot = graph.get_state(settings)
        start: Any = None if snapshot.values else {"iteration": 0}
        if snapshot.values and not snapshot.next:
            return
        graph.invoke(start, settings, context=run)
        if run.chat.last_failure and not run.chat.succeeded:
            # Forget where the graph stood, so that a resumed run asks again.
            saver.delete_thread(run.store.run_id)
            raise ChatError(
                f"no model call succeeded, the last: {run.chat.last_failure}",
                hint="check the model server, then resume the run",
            )


def _conclude(
    run: RunContext, status: Literal["finished", "stopped"], message: str = ""
) -> RunResult:
    store = run.store
    if status == "stopped" and store.journal.record("candidate", slots.BASELINE) is None:
        # Stopped before the first step: the starting point is still owed to the caller.
        store.save_candidate(_baseline(run))
    baseline = store.candidate(slots.BASELINE)
    best = verified_best(run)
    counts = store.journal.counts()
    result = RunResult(
        status=status,
        baseline=baseline,
        best=best,
        evaluations=counts.evaluations,
        model_calls=counts.model_calls,
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
    )
    if best.latency_us is not None:
        store.write_best(best_file(run, baseline, best))
    store.update(
        status=status,
        message=message,
        baseline_latency_us=baseline.latency_us,
        best=best.id,
        best_latency_us=best.latency_us,
        result={"status": status, "baseline": baseline.id, "best": best.id} | counts.model_dump(),
    )
    run.events.emit(
        "run_finished" if status == "finished" else "run_stopped",
        status=status,
        candidate=best.id,
        best_latency_us=best.latency_us,
        percent_of_peak=run.percent_of_peak(best.latency_us),
        message=message or None,
    )
    return result


def _baseline(run: RunContext) -> Candidate:
    evaluation = run.pool.evaluate(run.task.baseline).evaluation
    return Candidate(
        id=slots.BASELINE, iteration=0, source=run.task.baseline, evaluation=evaluation
    )


def _finished(services: RunServices) -> RunResult | None:
    """The result of a run that was finished before; nothing is left to do for it."""
    store = services.store
    saved = store.result
    if store.status != "finished" or saved is None:
        return None
    counts = {name: saved[name] for name in ("evaluations", "model_calls")}
    tokens = {name: saved[name] for name in ("input_tokens", "output_tokens")}
    return RunResult(
        status="finished",
        baseline=store.candidate(saved["baseline"]),
        best=store.candidate(saved["best"]),
        **counts,
        **tokens,
    )


def _memory_path(setting: str, run_folder: Path) -> Path:
    if setting == PRIVATE_MEMORY:
        return run_folder / "memory"
    return Path(setting).expanduser() if setting else paths.memory_dir()
