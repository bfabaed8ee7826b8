"""Asks the summarizer for the lesson in a slow-fast pair."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.candidate import Candidate, Experience
from accelopt.replies import extract_title, is_no_optimization, strip_reasoning
from accelopt.requests import SummarizeRequest
from accelopt_graphs.context import RunContext
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.state import LessonRef, SearchState, SummaryInput


def summarizer(state: SummaryInput, runtime: Runtime[RunContext]) -> SearchState:
    """One lesson; none when the call fails or the model sees nothing to learn."""
    run = runtime.context
    with run.guard():
        pair = state["pair"]
        slow, fast = run.store.candidate(pair["slow"]), run.store.candidate(pair["fast"])
        request = SummarizeRequest(
            problem=run.problem,
            slow=slow.source.text,
            fast=fast.source.text,
            speedup=pair["speedup"],
            moved=_moved(slow, fast),
            seed=run.config.seed,
        )
        try:
            answer = run.chat.ask(
                slots.summary_slot(pair["child"]), request, iteration=state["iteration"]
            )
        except CallFailedError:
            return SearchState(lessons=[])
        if is_no_optimization(answer.reply):
            return SearchState(lessons=[])
        experience = Experience(
            id=f"{run.store.run_id}/{pair['child']}",
            title=extract_title(answer.reply),
            strategy=strip_reasoning(answer.reply).strip(),
            slow_source=slow.source.text,
            fast_source=fast.source.text,
            speedup=pair["speedup"],
            sign=pair["sign"],
            task=run.task.name,
            device=run.backend.device.name,
            dialect=slow.source.dialect.value,
            bottleneck=slow.evaluation.bound,
            provenance=f"run {run.store.run_id}: {slow.id} -> {fast.id}",
            features=slow.evaluation.features,
        )
        run.store.save_experience(experience)
        return SearchState(lessons=[LessonRef(id=experience.id, child=pair["child"])])


def _moved(slow: Candidate, fast: Candidate) -> tuple[str, ...]:
    before, after = slow.evaluation.profile, fast.evaluation.profile
    if before is None or after is None:
        return ()
    old, new = before.model_dump(), after.model_dump()
    return tuple(
        f"{name}: {old[name]!r} -> {new[name]!r}"
        for name in old
        if old[name] != new[name] and old[name] is not None and new[name] is not None
    )
