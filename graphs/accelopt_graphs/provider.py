"""A search graph as the command line sees it: describe, draw, run, resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig

from accelopt.collector import quiet_collector
from accelopt.errors import BudgetExhaustedError, ChatError, StoreError
from accelopt.graphs import RunResult, RunServices
from accelopt.secrets import redact
from accelopt_graphs.checkpoints import open_saver
from accelopt_graphs.conclusion import conclude, finished_before
from accelopt_graphs.context import RunContext
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.mermaid import draw
from accelopt_graphs.model_errors import one_line
from accelopt_graphs.progress_record import last_state, load_state
from accelopt_graphs.routing import is_over
from accelopt_graphs.services import open_context
from accelopt_graphs.stopping import RunStoppedError

_STEPS_PER_ITERATION = 8

Build = Callable[..., Any]
"""Makes a state graph; takes `inner_graph`: whether an attempt is drawn as a graph."""


class SearchGraph:
    """One registered graph.

    Args:
        name: of the graph.
        description: one line for `accelopt graphs`.
        build: makes the state graph.
    """

    def __init__(self, name: str, description: str, build: Build) -> None:
        self.name = name
        self.description = description
        self._build = build

    def mermaid(self) -> str:
        """The graph drawn as Mermaid text, inner graph included."""
        return draw(self._build(), self.name)

    def run(self, services: RunServices) -> RunResult:
        """Run, or resume what the store's journal and checkpoints hold.

        Raises:
            AcceloptError: the baseline is not correct, or a service is broken.
        """
        store = services.store
        hub = EventHub(store, services.observers)
        try:
            with store.exclusive(), quiet_collector():
                finished = finished_before(services)
                return self._run(services, hub) if finished is None else finished
        finally:
            hub.close()

    def _run(self, services: RunServices, hub: EventHub) -> RunResult:
        store = services.store
        resumed = store.status != "created"
        store.update(status="running", message="")
        hub.emit(
            "run_resumed" if resumed else "run_started",
            iterations=services.config.iterations,
            task=services.task.name,
            backend=services.backend.name,
            graph=self.name,
        )
        try:
            with open_context(services, hub) as context:
                try:
                    self._search(context)
                except RunStoppedError:
                    broken = context.stop.error
                    if isinstance(broken, BudgetExhaustedError):
                        return conclude(context, "stopped", broken.message)
                    if broken is not None:
                        raise broken from None
                    return conclude(context, "stopped")
                except BudgetExhaustedError as error:
                    return conclude(context, "stopped", error.message)
                return conclude(context, "finished")
        except (KeyboardInterrupt, SystemExit):
            store.update(status="stopped", message="interrupted")
            hub.emit("run_stopped", status="stopped", message="interrupted")
            raise
        except BaseException as error:
            message = redact(getattr(error, "message", "") or one_line(error))
            store.update(status="failed", message=message)
            hub.emit("run_stopped", status="failed", message=message)
            raise

    def _search(self, run: RunContext) -> None:
        config = run.config
        settings: RunnableConfig = {
            "configurable": {"thread_id": run.store.run_id},
            # Model calls have a throttle and evaluations a pool of their own; neither is to wait
            # for a thread that the other holds.
            "max_concurrency": config.model_concurrency + run.pool.workers,
            # The inner graph inherits the limit; either bound is far above what a run can take.
            "recursion_limit": _STEPS_PER_ITERATION * config.iterations
            + 4 * config.fixer_rounds
            + 20,
        }
        with open_saver(run.store.checkpoints_path) as saver:
            # The journal makes a repeated attempt free, so it is one step here.
            graph = self._build(inner_graph=False).compile(checkpointer=saver, name=self.name)
            snapshot = graph.get_state(settings)
            start = None if snapshot.values else _start(run)
            if snapshot.values and not snapshot.next:
                # It came to its end; more iterations may have been asked for since.
                start = _more(run)
                if start is None:
                    return
                saver.delete_thread(run.store.run_id)
            graph.invoke(start, settings, context=run)
            outage = run.chat.outage
            if outage.last_failure and not outage.succeeded:
                # Forget where the graph stood, so that a resumed run asks again.
                saver.delete_thread(run.store.run_id)
                raise ChatError(
                    f"no model call succeeded, the last: {outage.last_failure}",
                    hint="check the model server, then resume the run",
                )


def _more(run: RunContext) -> Any:
    """Where a search goes on that had come to its end; None if it is to stay there."""
    state = last_state(run.store.journal)
    return None if state is None or is_over(state, run.config) else state


def _start(run: RunContext) -> Any:
    """The state a search begins with: nothing, or where the run it was forked from stood."""
    forked_at = run.store.forked_at
    if forked_at is None:
        return {"iteration": 0}
    state = load_state(run.store.journal, forked_at)
    if state is None:
        raise StoreError(
            f"run {run.store.run_id} was forked after iteration {forked_at}, but its journal does"
            " not say where the search stood then"
        )
    return state
