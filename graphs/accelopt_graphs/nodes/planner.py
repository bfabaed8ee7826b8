"""Asks the planner for one plan for one candidate."""

from __future__ import annotations

import random

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.candidate import Candidate, Plan
from accelopt.evaluation import Profile
from accelopt.replies import strip_reasoning
from accelopt.requests import PlanRequest
from accelopt_graphs.context import RunContext
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.state import PlannerInput, PlanRef, SearchState


def planner(state: PlannerInput, runtime: Runtime[RunContext]) -> SearchState:
    """One plan; a call that fails costs this plan and nothing else."""
    run = runtime.context
    with run.guard():
        slot = slots.plan_slot(state["iteration"], state["parent_index"], state["index"])
        parent = run.store.candidate(state["parent"])
        request = PlanRequest(
            problem=run.problem,
            kernel=parent.source.text,
            latency_us=parent.latency_us or 0.0,
            profile=_profile_lines(parent, run.config.seed),
            bottleneck=_bottleneck(parent),
            line_facts=parent.evaluation.line_facts,
            experiences=run.memory.offered(
                slots.retrieval_slot(state["iteration"], state["parent_index"])
            ),
            tried=tuple(_first_line(run.store.plan(id_).text) for id_ in state["tried"]),
            index=state["index"],
            seed=run.config.seed,
        )
        try:
            answer = run.chat.ask(slot, request, iteration=state["iteration"])
        except CallFailedError:
            return SearchState(plans=[])
        text = strip_reasoning(answer.reply).strip()
        if not text:
            return SearchState(plans=[])
        run.store.save_plan(Plan(id=slot, parent=parent.id, text=text))
        return SearchState(plans=[PlanRef(id=slot, parent=parent.id)])


def _counters(profile: Profile | None) -> dict[str, float]:
    if profile is None:
        return {}
    # The latency has a line of its own in the prompt.
    return profile.model_dump(exclude_none=True, exclude={"latency_us"})


def _profile_lines(candidate: Candidate, seed: int) -> tuple[str, ...]:
    """`name: value` lines, in an order of their own per candidate: no counter always leads."""
    lines = [
        f"{name}: {value!r}" for name, value in _counters(candidate.evaluation.profile).items()
    ]
    random.Random(f"{seed}:{candidate.id}").shuffle(lines)
    return tuple(lines)


def _bottleneck(candidate: Candidate) -> str:
    evaluation = candidate.evaluation
    parts = [f"The latency is bound by: {evaluation.bound}."] if evaluation.bound else []
    suffix = "_active_time_percent"
    shares = {
        name.removesuffix(suffix).removesuffix("_engine"): value
        for name, value in _counters(evaluation.profile).items()
        if name.endswith(suffix)
    }
    if shares:
        ranked = sorted(shares.items(), key=lambda share: (-share[1], share[0]))
        busy = ", ".join(f"{name} {100 * value:.1f} %" for name, value in ranked)
        parts.append(f"Busy share of the run: {busy}.")
    return "\n\n".join(part for part in (" ".join(parts), evaluation.explanation) if part)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else ""
