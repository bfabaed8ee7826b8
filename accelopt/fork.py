"""Forks: a run that takes over another one's first iterations and goes its own way from there."""

from __future__ import annotations

from pathlib import Path

from accelopt.beam_history import has_state
from accelopt.config import RunConfig
from accelopt.errors import ConfigError
from accelopt.run_store import RunStore


def fork(parent: RunStore, at: int, config: RunConfig, runs_dir: Path) -> RunStore:
    """A new run folder with everything that `parent` has up to an iteration.

    What is taken over was paid for by the parent and does not count in the fork.

    Args:
        parent: the run to fork.
        at: the last iteration they have in common; 0: only the judged baseline.
        config: settings of the fork.
        runs_dir: where its folder is made.

    Raises:
        ConfigError: the parent never finished that iteration, or nothing is left to do.
    """
    if at < 0 or not has_state(parent.journal, at):
        done = parent.summary().iterations
        raise ConfigError(
            f"run {parent.run_id} can't be forked at iteration {at}: it has finished {done}",
            hint=f"--at takes 0 to {done}" if has_state(parent.journal, 0) else "resume it first",
        )
    if config.iterations <= at:
        raise ConfigError(
            f"a fork at iteration {at} needs more than {config.iterations} iterations",
            hint=f"--set iterations={at + 4}",
        )
    store = RunStore.create(
        runs_dir, config, parent.task_name, forked_from=parent.run_id, forked_at=at
    )
    parent.journal.copy_to(store.path / "journal.sqlite")
    store.journal.drop_iterations_after(at)
    store.journal.disown()
    for candidate in store.candidates():
        store.save_candidate(candidate)
    return store
