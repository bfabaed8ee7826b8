"""What a run says it has used: tokens, and money by each model's own price."""

from __future__ import annotations

import json

import pytest

from accelopt import session, slots
from accelopt.models import Ensemble, Member, Role
from accelopt.prompts import render
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, ScriptedChatModel
from accelopt.tokens import estimated_tokens

CHEAP = '"cheap" = { input = 1, output = 10 }'
DEAR = '"dear" = { input = 1000, output = 10000 }'
SHORT = {"num_plans": 4, "num_samples": 1, "iterations": 1, "fixer_rounds": 0}


class SilentModel(ScriptedChatModel):
    """A model that reports no tokens, and its thoughts beside its answer."""

    thoughts: str = ""

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        result = super()._generate(messages, stop, run_manager, **kwargs)
        message = result.generations[0].message
        message.usage_metadata = None
        message.additional_kwargs["reasoning_content"] = self.thoughts
        return result


def priced(folder, *lines):
    """Settings that name a price file of these lines."""
    path = folder / f"prices-{len(list(folder.glob('prices-*')))}.toml"
    path.write_text("\n".join(["[models]", *lines, ""]))
    return {"prices": str(path)}


def two_planners(lab):
    """Models of a run: two planners in turn, and one model for the rest."""
    members = tuple(
        Member(name, 1.0, ScriptedChatModel(answer=lab.model._answer)) for name in ("cheap", "dear")
    )
    rest = Ensemble.of("cheap", ScriptedChatModel(answer=lab.model._answer))
    return dict.fromkeys(Role, rest) | {Role.PLANNER: Ensemble(members)}


def run(lab, store, models):
    """Run a folder as the command line does."""
    return session.run_store(store, lab.task, backend=DummyBackend(), models=models)


def answers_by_slot(store):
    """Every answer of a run, by its slot."""
    asked = [e["slot"] for e in store.events() if e["kind"] == "model_call_finished"]
    return {slot: answer for slot in asked for answer in store.journal.answers_in(slot)}


@pytest.mark.parametrize("thoughts", ["", "Hm. " * 50])
def test_tokens_are_worked_out_where_a_model_does_not_report_them(lab, thoughts):
    chat = SilentModel(answer=lab.model._answer, thoughts=thoughts)
    with lab.store(**(SHORT | {"num_plans": 1})) as store:
        result = lab.run(store, model=chat)
        answers = answers_by_slot(store)
        texts = {request.role: render(request) for request in chat.requests}
        answer = answers[slots.plan_slot(1, 0, 0)]
    prompt = texts["planner"]
    assert answer.tokens_estimated
    assert answer.input_tokens == estimated_tokens(prompt.system + prompt.user) > 100
    assert answer.output_tokens == estimated_tokens(answer.reply + thoughts)
    assert answer.reasoning == thoughts
    assert result.input_tokens == sum(answer.input_tokens for answer in answers.values())
    assert result.output_tokens == sum(answer.output_tokens for answer in answers.values())


def test_reported_tokens_are_taken_as_they_are(lab):
    with lab.store(**SHORT) as store:
        result = lab.run(store)
        answers = answers_by_slot(store).values()
    assert not any(answer.tokens_estimated for answer in answers)
    # The scripted model counts words.
    assert result.input_tokens == sum(len(prompt.split()) for prompt in lab.model.prompts)
    assert result.output_tokens == sum(len(answer.reply.split()) for answer in answers)


def test_every_answer_is_priced_by_the_label_of_the_member_that_gave_it(lab):
    with lab.store(**SHORT, **priced(lab.folder, CHEAP, DEAR)) as store:
        result = run(lab, store, two_planners(lab))
        answers = answers_by_slot(store)
    planners = [answer for answer in answers.values() if answer.role == "planner"]
    assert {answer.label for answer in planners} == {"cheap", "dear"}
    for answer in answers.values():
        factor = 1000 if answer.label == "dear" else 1
        expected = factor * (answer.input_tokens + 10 * answer.output_tokens) / 1e6
        assert answer.cost_usd == pytest.approx(expected)
        assert answer.role == "planner" or answer.label == "cheap"
    assert len(answers) == result.model_calls
    assert result.cost_usd == pytest.approx(sum(a.cost_usd for a in answers.values()))
    assert result.unpriced_calls == 0


def test_an_unknown_price_is_counted_and_never_taken_for_zero(lab):
    with lab.store(**SHORT, **priced(lab.folder, CHEAP)) as store:
        result = run(lab, store, two_planners(lab))
        answers = answers_by_slot(store).values()
    unpriced = [answer for answer in answers if answer.cost_usd is None]
    assert {answer.label for answer in unpriced} == {"dear"}
    assert result.unpriced_calls == len(unpriced) > 0
    assert result.cost_usd == pytest.approx(sum(answer.cost_usd or 0 for answer in answers))


def test_the_prices_that_a_run_is_counted_with_stand_in_its_folder(lab):
    with lab.store(**SHORT, **priced(lab.folder, CHEAP)) as store:
        run(lab, store, two_planners(lab))
        kept = json.loads((store.path / "prices.json").read_text())
    assert kept["usd_per_million_tokens"] == {
        "cheap": {"input": 1.0, "output": 10.0},
        "dear": None,
    }
    assert kept["as_of"]
    assert kept["source"]


def test_a_price_that_changes_on_resume_holds_for_new_answers_only(lab):
    store = lab.store(**SHORT, **priced(lab.folder, CHEAP))
    models = dict.fromkeys(Role, Ensemble.of("cheap", ScriptedChatModel(answer=lab.model._answer)))
    first = run(lab, store, models)
    old = answers_by_slot(store)
    store.close()
    with RunStore.open(store.path) as again:
        dearer = CHEAP.replace("= 1", "= 1000")
        config = again.config.model_copy(update={"iterations": 2, **priced(lab.folder, dearer)})
        again.reconfigure(config)
        second = run(lab, again, models)
        answers = answers_by_slot(again)
        kept = json.loads((again.path / "prices.json").read_text())
    new = [answer for slot, answer in answers.items() if slot not in old]
    assert {slot: answers[slot] for slot in old} == old
    assert new
    for answer in new:
        paid = 1000 * (answer.input_tokens + answer.output_tokens * 10) / 1e6
        assert answer.cost_usd == pytest.approx(paid)
    assert second.cost_usd == pytest.approx(first.cost_usd + sum(a.cost_usd for a in new))
    assert kept["usd_per_million_tokens"]["cheap"]["input"] == 1000
