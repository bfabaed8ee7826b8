"""Asks the summarizer for the lesson in a slow-fast pair."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt import slots
from accelopt.candidate import Experience
from accelopt.errors import ReplyFormatError
from accelopt.replies import extract_title, is_no_optimization
from accelopt_graphs.context import RunContext
from accelopt_graphs.model_errors import CallFailedError
from accelopt_graphs.prose import read_prose
from accelopt_graphs.request_builders import summarize_request
from accelopt_graphs.state import LessonRef, SearchState, SummaryInput


def summarizer(state: SummaryInput, runtime: Runtime[RunContext]) -> SearchState:
    """One lesson; none when the call fails or the model sees nothing to learn."""
    run = runtime.context
    with run.guard():
        pair = state["pair"]
        slow, fast = run.store.candidate(pair["slow"]), run.store.candidate(pair["fast"])
        request = summarize_request(
            run.problem, slow, fast, speedup=pair["speedup"], seed=run.config.seed
        )
        slot = slots.summary_slot(pair["child"])
        try:
            text = run.chat.ask(slot, request, read_prose, iteration=state["iteration"])
        except (CallFailedError, ReplyFormatError):
            return SearchState(lessons=[])
        if is_no_optimization(text):
            return SearchState(lessons=[])
        experience = Experience(
            id=f"{run.store.run_id}/{pair['child']}",
            title=extract_title(text),
            strategy=text,
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
