"""Ends a run: names the winner, writes it down, says what was spent."""

from __future__ import annotations

from typing import Literal

from accelopt import slots
from accelopt.candidate import Candidate
from accelopt.evidence import FOLDER, write_bundle
from accelopt.graphs import RunResult, RunServices
from accelopt_graphs.context import RunContext
from accelopt_graphs.progress_record import last_state
from accelopt_graphs.routing import is_over
from accelopt_graphs.winner import best_file, compared, known_comparison, verified_best

_COSTS = (
    "evaluations",
    "reused_evaluations",
    "model_calls",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "unpriced_calls",
)


def conclude(
    run: RunContext, status: Literal["finished", "stopped"], message: str = ""
) -> RunResult:
    """The result of a run, written to its folder."""
    store = run.store
    if status == "stopped" and store.journal.record("candidate", slots.BASELINE) is None:
        # Stopped before the first step: the starting point is still owed to the caller.
        store.save_candidate(_baseline(run))
    baseline = store.candidate(slots.BASELINE)
    best = verified_best(run)
    comparison = compared(run, baseline, best)
    counts = store.journal.counts()
    costs = counts.model_dump()
    result = RunResult(
        status=status,
        baseline=baseline,
        best=best,
        failures=store.journal.failure_counts(),
        message=message,
        comparison=comparison,
        judged=run.backend.session_facts(),
        changed_prompts=() if run.recorded is None else tuple(run.recorded.changed_prompts),
        **costs,
    )
    if best.latency_us is not None:
        store.write_best(best_file(run, result))
        if run.recorded is None:
            write_bundle(
                store.path / FOLDER,
                run=store.run_id,
                task=run.task,
                backend=run.backend,
                kernel=(best.source, best.evaluation),
                baseline=(baseline.source, baseline.evaluation),
                comparison=comparison,
            )
    store.update(
        status=status,
        message=message,
        baseline_latency_us=result.baseline_us,
        best=best.id,
        best_latency_us=result.best_us,
        elapsed_s=run.budget.elapsed_s,
        result={
            "status": status,
            "baseline": baseline.id,
            "best": best.id,
            "judged": dict(result.judged),
        }
        | costs,
    )
    run.events.emit(
        "run_finished" if status == "finished" else "run_stopped",
        status=status,
        candidate=best.id,
        best_latency_us=result.best_us,
        percent_of_peak=run.percent_of_peak(result.best_us),
        cost_usd=counts.cost_usd,
        message=message or None,
    )
    return result


def _baseline(run: RunContext) -> Candidate:
    evaluation = run.pool.evaluate(run.task.baseline, admitted=True).evaluation
    return Candidate(
        id=slots.BASELINE, iteration=0, source=run.task.baseline, evaluation=evaluation
    )


def finished_before(services: RunServices) -> RunResult | None:
    """The result of a run that was finished before; nothing is left to do for it."""
    store = services.store
    saved = store.result
    if store.status != "finished" or saved is None or services.recorded:
        return None
    reached = last_state(store.journal)
    if reached is not None and not is_over(reached, services.config):
        # More iterations, or more patience, were asked for since.
        return None
    return RunResult(
        status="finished",
        baseline=store.candidate(saved["baseline"]),
        best=store.candidate(saved["best"]),
        failures=store.journal.failure_counts(),
        comparison=known_comparison(store.journal, saved["best"]),
        judged=saved.get("judged", {}),
        # A run of an older version did not count them all.
        **{name: saved.get(name, 0) for name in _COSTS},
    )
