"""Puts the lessons of an iteration into the memory."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.curation import push
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import SearchState


def memory(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Store the lessons, strongest first, and let the run's queue forget its oldest."""
    run = runtime.context
    with run.guard():
        order = {pair["child"]: place for place, pair in enumerate(state["pairs"])}
        lessons = sorted(state.get("lessons") or [], key=lambda lesson: order[lesson["child"]])
        experiences = [run.store.experience(lesson["id"]) for lesson in lessons]
        run.memory.add(*experiences)
        for lesson, experience in zip(lessons, experiences, strict=True):
            run.events.emit(
                "experience_added",
                iteration=state["iteration"],
                candidate=lesson["child"],
                speedup=experience.speedup,
                status=experience.sign,
                message=experience.title,
            )
        before = [*state["queue"], *(lesson["id"] for lesson in lessons)]
        queue = push(
            state["queue"], (lesson["id"] for lesson in lessons), run.config.memory_capacity
        )
        dropped = [id_ for id_ in before if id_ not in queue]
        return SearchState(queue=queue, forgotten=[*state["forgotten"], *dropped])
