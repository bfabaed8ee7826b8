"""Judges one kernel of an attempt."""

from __future__ import annotations

from functools import partial

from langgraph.runtime import Runtime

from accelopt.candidate import Candidate, speedup
from accelopt_graphs.attempts import attempt_slot, load_draft
from accelopt_graphs.context import RunContext, candidate_ref
from accelopt_graphs.state import AttemptState


def evaluate(state: AttemptState, runtime: Runtime[RunContext]) -> AttemptState:
    """Evaluate the last draft; the result takes the place of the one of an earlier round."""
    run = runtime.context
    with run.guard():
        slot, round_ = attempt_slot(state), state["round"]
        source = load_draft(run, slot, round_)
        where = {
            "candidate": slot,
            "parent": state["parent"],
            "plan": state["plan"],
            "iteration": state["iteration"],
        }
        judgement = run.pool.evaluate(
            source, on_start=partial(run.events.emit, "evaluation_started", **where)
        )
        candidate = Candidate(
            id=slot,
            iteration=state["iteration"],
            parent=state["parent"],
            plan=state["plan"],
            sample=state["sample"],
            source=source,
            evaluation=judgement.evaluation,
            fixer_rounds=round_,
        )
        run.store.save_attempt(candidate)
        run.store.save_candidate(candidate)
        status = judgement.evaluation.status.value
        run.events.emit(
            "evaluation_finished",
            **where,
            status=status,
            latency_us=candidate.latency_us,
            speedup=_over_parent(run, candidate),
            percent_of_peak=run.percent_of_peak(candidate.latency_us),
            cached=judgement.cached,
            message=_first_finding(candidate),
        )
        return AttemptState(  # type: ignore[typeddict-item]
            outcome="judged", status=status, attempts=[candidate_ref(candidate)]
        )


def _over_parent(run: RunContext, candidate: Candidate) -> float | None:
    parent_us = run.store.candidate(candidate.parent).latency_us
    if not parent_us or not candidate.latency_us:
        return None
    return speedup(parent_us, candidate.latency_us)


def _first_finding(candidate: Candidate) -> str | None:
    if candidate.evaluation.ok or not candidate.evaluation.diagnostics:
        return None
    return candidate.evaluation.diagnostics[0].message.split("\n", 1)[0]
