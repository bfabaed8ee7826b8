"""Replays: a recorded run once more, with its answers and without any model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accelopt.beam_history import BeamState, beam_history
from accelopt.config import NONE
from accelopt.errors import ConfigError
from accelopt.graphs import RunServices
from accelopt.plugins import installed
from accelopt.run_changes import changed
from accelopt.run_store import RunStore

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.events import Observer
    from accelopt.kernel import KernelTask

LOST_CALL = "lost_call"
"""Kind of the records, by slot, of calls that failed for good: they have no answer to replay."""

_KEPT_RECORDS = "verification"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """How a replay compares with what was recorded.

    Attributes:
        iterations: iterations that were replayed to their end.
        answers: recorded answers that were used.
        evaluations: programs that had to be judged anew, since the judge is another one now.
        changed_prompts: slots whose prompt is not the recorded one.
        best: (candidate, latency in microseconds) now.
        recorded_best: the same as recorded.
        difference: the first thing that differs, in one line; empty when nothing does.
    """

    iterations: int
    answers: int
    evaluations: int
    changed_prompts: tuple[str, ...]
    best: tuple[str, float | None]
    recorded_best: tuple[str, float | None]
    difference: str

    @property
    def same(self) -> bool:
        """Whether beams and best kernel are exactly those that were recorded."""
        return not self.difference


def replay(
    store: RunStore, task: KernelTask, backend: Backend, observers: Sequence[Observer] = ()
) -> Replay:
    """Replay a run in a temporary folder; its own folder stays as it is.

    The iterations that the run completed are replayed; what it began beyond them is left out.
    Evaluations come from the journal as well; a program is judged only if the backend's version,
    or the task, is another one than was recorded.

    Args:
        store: the recorded run.
        task: its task.
        backend: the judge.
        observers: who watches.

    Raises:
        ConfigError: the run has recorded nothing.
    """
    recorded = beam_history(store.journal)
    if not recorded:
        raise ConfigError(
            f"run {store.run_id} has nothing to replay: no iteration is recorded",
            hint="resume it first",
        )
    registry = installed()
    with (
        tempfile.TemporaryDirectory(prefix="accelopt-replay-") as folder,
        _copy(store, Path(folder), recorded[-1].iteration) as again,
    ):
        result = registry.graph(again.config.graph).run(
            RunServices(
                config=again.config,
                task=task,
                backend=backend,
                chat_models={},
                embedder=registry.embedder(again.config.embedder),
                store=again,
                observers=tuple(observers),
                recorded=True,
            )
        )
        replayed = beam_history(again.journal)
        answers = again.journal.answer_count()
        evaluations = again.journal.counts().evaluations
    best = (result.best.id, result.best.latency_us)
    before = recorded[-1].best
    return Replay(
        iterations=replayed[-1].iteration if replayed else 0,
        answers=answers,
        evaluations=evaluations,
        changed_prompts=result.changed_prompts,
        best=best,
        recorded_best=before,
        difference=_difference(recorded, replayed),
    )


def _copy(store: RunStore, folder: Path, last: int) -> RunStore:
    """The run's settings and what it paid for up to iteration `last`, in a new folder.

    Nothing that was worked out is taken over.
    """
    private = {"memory": NONE, "evaluation_cache": NONE}
    unbounded = dict.fromkeys(("budget_usd", "max_tokens", "max_evaluations", "max_minutes"))
    config = changed(store.config, private | unbounded, fork=True)
    again = RunStore.create(
        folder,
        config,
        store.task_name,
        run_id=store.run_id,
        forked_from=store.forked_from,
        forked_at=store.forked_at,
    )
    store.journal.copy_to(again.path / "journal.sqlite")
    again.journal.drop_iterations_after(last)
    again.journal.drop_records(_KEPT_RECORDS, up_to=store.forked_at)
    again.journal.disown()
    for event in store.events():
        if event.get("kind") == "model_call_finished" and event.get("status") == "failed":
            again.journal.put_record(LOST_CALL, str(event["slot"]), "{}")
    return again


def _difference(recorded: Sequence[BeamState], replayed: Sequence[BeamState]) -> str:
    now = {state.iteration: state for state in replayed}
    for before in recorded:
        after = now.get(before.iteration)
        where = f"iteration {before.iteration}" if before.iteration else "the baseline"
        if after is None:
            return f"{where} was recorded and could not be replayed"
        if after.beam != before.beam:
            return f"{where}: the beam was {_text(before)}, now it is {_text(after)}"
        if after.best != before.best:
            return f"{where}: the best was {before.best[0]}, now it is {after.best[0]}"
    return ""


def _text(state: BeamState) -> str:
    return ", ".join(
        f"{id_} ({'-' if latency_us is None else f'{latency_us:.3f} us'})"
        for id_, latency_us in state.beam
    )
