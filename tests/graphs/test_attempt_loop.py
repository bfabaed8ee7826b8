"""An attempt as one step and as an inner graph: two forms of one loop."""

from __future__ import annotations

import pytest

from accelopt.beam_history import beam_history
from accelopt.testing import DummyBackend, ScriptedChatModel, dummy_kernel
from accelopt_graphs.best_of_n import build_best_of_n
from accelopt_graphs.build import build_graph


def searching(lab):
    """The lab's answers, with a reply without code and a fixer that gives up among them."""

    def answer(request):
        if request.role == "executor" and "3" in request.plan and request.index == 1:
            return "no code here"
        if request.role == "fixer" and request.index == 1:
            # What failed, once more.
            return lab.fenced(request.kernel)
        if request.role == "fixer" and "7" in request.plan:
            return lab.fenced(dummy_kernel(40, note=f"{request.plan} {request.index}"))
        return lab.model._answer(request)

    return ScriptedChatModel(answer=answer)


def run_as(lab, build, inner_graph, **settings):
    """Everything a run decides and counts, with attempts in one of the two forms."""
    chat, backend = searching(lab), DummyBackend()
    lab.build = lambda *, inner_graph, form=inner_graph: build(inner_graph=form)
    lab.observer.events.clear()
    with lab.store(num_plans=4, iterations=3, **settings) as store:
        result = lab.run(store, model=chat, backend=backend)
        return {
            "candidates": [
                (c.id, c.parent, c.plan, c.source.text, c.evaluation.status, c.latency_us,
                 c.fixer_rounds, c.evaluation.seeds)
                for c in store.candidates()
            ],
            "attempts": [
                (t.id, t.fixer_rounds, t.source.text, t.evaluation.status)
                for t in store.attempts()
            ],
            "beams": beam_history(store.journal),
            "counts": store.journal.counts(),
            "failures": result.failures,
            # Lessons are named after their run.
            "requests": sorted(
                request.model_dump_json().replace(store.run_id, "RUN") for request in chat.requests
            ),
            "judged": sorted(zip(backend.evaluated, backend.seeds_tried, strict=True)),
            "events": sorted(lab.observer.kinds()),
            "best": result.best.id,
        }  # fmt: skip


@pytest.mark.parametrize("fixer_rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("build", [build_graph, build_best_of_n])
def test_an_attempt_as_one_step_does_what_the_inner_graph_does(lab, build, fixer_rounds):
    as_step, as_graph = (
        run_as(lab, build, inner_graph, fixer_rounds=fixer_rounds) for inner_graph in (False, True)
    )
    for part, expected in as_graph.items():
        assert as_step[part] == expected, part
    rounds = {rounds for _, rounds, *_ in as_step["attempts"]}
    assert rounds == set(range(min(fixer_rounds, 1) + 1))
    assert "reply_format:no_code" in as_step["failures"]


def test_the_two_forms_are_two_graphs():
    step, inner = (build_graph(inner_graph=inner_graph) for inner_graph in (False, True))
    assert step.nodes.keys() == inner.nodes.keys()
    drawn = [set(graph.compile().get_graph(xray=True).nodes) for graph in (step, inner)]
    assert "attempt" in drawn[0]
    assert {"attempt:executor", "attempt:evaluate", "attempt:fixer"} <= drawn[1]
