"""Judges one kernel of an attempt."""

from __future__ import annotations

from functools import partial

from langgraph.runtime import Runtime

from accelopt.candidate import Candidate, speedup
from accelopt.curation import teaches
from accelopt_graphs.attempts import attempt_slot, load_draft
from accelopt_graphs.context import RunContext, candidate_ref
from accelopt_graphs.state import AttemptState


def evaluate(state: AttemptState, runtime: Runtime[RunContext]) -> AttemptState:
    """Evaluate the last draft; the result takes the place of the one of an earlier round."""
    run = runtime.context
    # A kernel that was paid for is judged even when there is no money for another one.
    with run.guard(without_budget=True):
        slot, round_ = attempt_slot(state), state["round"]
        draft = load_draft(run, slot, round_)
        parent_us = run.store.candidate(state["parent"]).latency_us

        def matters(latency_us: float) -> bool:
            bar_us = state["bar_us"]
            if bar_us is None or latency_us < bar_us or not parent_us:
                return True
            return state["learns"] and teaches(
                speedup(parent_us, latency_us),
                topk=run.config.topk_experiences,
                positive_threshold=run.config.positive_threshold,
                negative_threshold=run.config.negative_threshold,
            )

        where = {
            "candidate": slot,
            "parent": state["parent"],
            "plan": state["plan"],
            "iteration": state["iteration"],
        }
        judgement = run.pool.evaluate(
            draft.source,
            matters=matters,
            on_start=partial(run.events.emit, "evaluation_started", **where),
        )
        candidate = Candidate(
            id=slot,
            iteration=state["iteration"],
            parent=state["parent"],
            plan=state["plan"],
            sample=state["sample"],
            source=draft.source,
            evaluation=judgement.evaluation,
            fixer_rounds=round_,
            notes=draft.notes,
        )
        run.store.save_candidate(candidate)
        ref = candidate_ref(candidate)
        us = ref["latency_us"]
        run.events.emit(
            "evaluation_finished",
            **where,
            status=ref["status"],
            latency_us=us,
            speedup=speedup(parent_us, us) if parent_us and us else None,
            percent_of_peak=run.percent_of_peak(us),
            cached=judgement.cached,
            message=_first_finding(candidate),
        )
        return AttemptState(  # type: ignore[typeddict-item]
            outcome="judged", status=ref["status"], attempts=[ref]
        )


def _first_finding(candidate: Candidate) -> str | None:
    if candidate.evaluation.ok or not candidate.evaluation.diagnostics:
        return None
    return candidate.evaluation.diagnostics[0].message.split("\n", 1)[0]
