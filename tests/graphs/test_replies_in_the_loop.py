"""Answers that can't be used, or not as they stand: what the loop makes of them."""

from __future__ import annotations

import pytest

from accelopt.replay import replay
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, ScriptedChatModel, dummy_kernel, dummy_task

COMPLAINT = "# Your previous answer could not be used"
ONE = {"num_plans": 1, "num_samples": 1, "iterations": 1, "fixer_rounds": 0}
SAMPLE = "i1-c0-p0-s0"


class Killed(BaseException):
    """Stands for the death of the process: nothing catches it."""


class ReportingModel(ScriptedChatModel):
    """A scripted model that says why it stopped, as a server does."""

    finish_reason: str = "stop"
    finish_key: str = "finish_reason"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        result = super()._generate(messages, stop, run_manager, **kwargs)
        result.generations[0].message.response_metadata = {self.finish_key: self.finish_reason}
        return result


def by_number(*replies):
    """A role that gives the replies one after the other, the last one for ever."""
    left = list(replies)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def asked(chat, role):
    return [request for request in chat.requests if request.role == role]


def slots_of(lab):
    return [event["slot"] for event in lab.observer.of("model_call_finished")]


# Asking again.


@pytest.mark.parametrize(
    ("reply", "reason", "words"),
    [
        ("Swap the loops and all will be well.", "no_code", "no code block"),
        ("", "empty", "empty"),
        ("<think>Should I?</think>", "reasoning_only", "apart from its reasoning"),
        ("I'm sorry, but I can't help with that.", "refusal", "refusal"),
        ("```python\nx = 1\n```", "no_function", "'kernel'"),
        ("```python\ndef kernel(x):\n    return (", "truncated", "cut off"),
    ],
)
def test_an_unusable_answer_is_asked_for_again_in_a_slot_of_its_own_saying_what_was_wrong(
    lab, reply, reason, words
):
    good = lab.fenced(dummy_kernel(60))
    chat = lab.by_role(by_number(reply, good))
    with lab.store(**ONE, reply_reasks=1) as store:
        result = lab.run(store, model=chat)
    first, second = asked(chat, "executor")
    assert first.complaint == ""
    assert words in second.complaint
    assert second.model_copy(update={"complaint": ""}) == first
    before, after = (text for text in chat.prompts if "# Kernel to start from" in text)
    assert after.startswith(before)
    assert COMPLAINT in after
    assert second.complaint in after
    assert COMPLAINT not in before
    assert slots_of(lab)[1:3] == [SAMPLE, f"{SAMPLE}-r1"]
    assert result.failures == {f"reply_format:{reason}": 1}
    [told] = lab.observer.of("reply_unusable")
    assert (told["slot"], told["failure"]) == (SAMPLE, f"reply_format:{reason}")
    assert result.best.latency_us == 60
    assert result.best.id == SAMPLE


@pytest.mark.parametrize("reasks", [0, 1, 3])
@pytest.mark.parametrize("short_by", [0, 1])
def test_a_question_is_repeated_at_most_reply_reasks_times(lab, reasks, short_by):
    bad = ["no code here"] * (reasks + short_by)
    chat = lab.by_role(by_number(*bad, lab.fenced(dummy_kernel(60))))
    with lab.store(**ONE, reply_reasks=reasks) as store:
        result = lab.run(store, model=chat)
        candidate = store.candidate(SAMPLE)
    assert len(asked(chat, "executor")) == reasks + 1
    assert result.failures.get("reply_format:no_code", 0) == len(bad)
    if short_by:
        [finding] = candidate.evaluation.diagnostics
        assert (finding.rule, finding.hint) == ("reply_format", "no_code")
        assert candidate.source.text == ""
        assert result.best.id == "baseline"
        assert store.attempts() == []
    else:
        assert candidate.latency_us == 60


def test_each_complaint_is_about_the_last_answer(lab):
    chat = lab.by_role(by_number("", "no code here", lab.fenced(dummy_kernel(60))))
    lab.run(lab.store(**ONE, reply_reasks=2), model=chat)
    complaints = [request.complaint for request in asked(chat, "executor")]
    assert complaints[0] == ""
    assert "empty" in complaints[1]
    assert "no code block" in complaints[2]
    assert slots_of(lab)[1:4] == [SAMPLE, f"{SAMPLE}-r1", f"{SAMPLE}-r2"]


def test_an_unusable_answer_is_counted_once_even_after_resume_and_replay(lab):
    good = lab.fenced(dummy_kernel(60))
    store = lab.store(**ONE, reply_reasks=1)
    first = lab.by_role(by_number("no code here", Killed()))
    with pytest.raises(Killed):
        lab.run(store, model=first)
    with RunStore.open(store.path) as again:
        assert again.journal.failure_counts() == {"reply_format:no_code": 1}
        second = lab.by_role(by_number(good))
        result = lab.run(again, model=second)
    # The journalled answer was read a second time, and not asked for.
    [request] = asked(second, "executor")
    assert "no code block" in request.complaint
    assert result.failures == {"reply_format:no_code": 1}
    with RunStore.open(store.path) as again:
        found = replay(again, lab.task, DummyBackend())
        assert found.same, found.difference
        assert found.answers == result.model_calls
        assert again.journal.failure_counts() == {"reply_format:no_code": 1}


@pytest.mark.parametrize(
    ("reason", "key", "kind"),
    [
        ("length", "finish_reason", "truncated"),
        ("max_tokens", "stop_reason", "truncated"),
        ("MAX_TOKENS", "finish_reason", "truncated"),
        ("stop", "finish_reason", "no_code"),
    ],
)
def test_a_reply_that_hit_the_limit_of_output_tokens_is_truncated(lab, reason, key, kind):
    def answer(request):
        return "plan 0" if request.role == "planner" else "First I move the loads. Then"

    chat = ReportingModel(answer=answer, finish_reason=reason, finish_key=key)
    with lab.store(**ONE, reply_reasks=1) as store:
        result = lab.run(store, model=chat)
        [finding] = store.candidate(SAMPLE).evaluation.diagnostics
    assert result.failures == {f"reply_format:{kind}": 2}
    assert finding.hint == kind
    complaint = asked(chat, "executor")[1].complaint
    assert ("limit of output tokens" in complaint) == (kind == "truncated")


def test_a_complete_kernel_is_used_although_the_limit_was_hit_after_it(lab):
    def answer(request):
        if request.role == "executor":
            return lab.fenced(dummy_kernel(60)) + "This kernel is fast sin"
        return "plan 0" if request.role == "planner" else "**T**\nText"

    chat = ReportingModel(answer=answer, finish_reason="length")
    result = lab.run(lab.store(**ONE, reply_reasks=1), model=chat)
    assert (result.best.latency_us, result.failures) == (60, {})


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("  \n\n", "empty"),
        ("<think>Hm.</think>", "empty"),
        ("I'm sorry, but I can't help with that.", "refusal"),
    ],
)
def test_a_planner_that_says_nothing_is_asked_again_and_then_costs_its_plan_only(
    lab, reply, reason
):
    chat = lab.by_role(
        lambda request: lab.fenced(dummy_kernel(60, note=request.plan)),
        planner=lambda request: reply if request.index == 0 else "plan 1",
    )
    with lab.store(**(ONE | {"num_plans": 2}), reply_reasks=1) as store:
        result = lab.run(store, model=chat)
        assert [plan.id for plan in store.plans()] == ["i1-c0-p1"]
    assert result.failures == {f"reply_format:{reason}": 2}
    assert [request.index for request in asked(chat, "planner")].count(0) == 2
    assert result.best.id == "i1-c0-p1-s0"


def test_a_planner_that_thinks_better_of_it_gives_its_plan(lab):
    chat = lab.by_role(
        lambda request: lab.fenced(dummy_kernel(60, note=request.plan)),
        planner=by_number("I'm sorry, but I can't help with that.", "<think>Ok.</think>Fuse."),
    )
    with lab.store(**ONE, reply_reasks=1) as store:
        lab.run(store, model=chat)
        assert [(plan.id, plan.text) for plan in store.plans()] == [("i1-c0-p0", "Fuse.")]


@pytest.mark.parametrize(
    ("replies", "titles"),
    [
        (["", "I cannot compare the two."], []),
        (["", "**Kept**\nText"], ["Kept"]),
        (["I cannot compare the two.", "**Kept**\nText"], ["Kept"]),
    ],
)
def test_a_summarizer_that_says_nothing_is_asked_again_and_then_costs_its_lesson_only(
    lab, replies, titles
):
    chat = lab.by_role(lambda request: lab.fenced(dummy_kernel(50)), summarizer=by_number(*replies))
    with lab.store(**ONE, reply_reasks=1) as store:
        result = lab.run(store, model=chat)
        assert [lesson.title for lesson in store.experiences()] == titles
    assert result.status == "finished"
    assert sum(result.failures.values()) == 2 - len(titles)
    assert slots_of(lab)[-2:] == [f"{SAMPLE}-summary", f"{SAMPLE}-summary-r1"]


def test_a_fixer_without_code_leaves_the_attempt_as_it_was(lab):
    chat = lab.by_role(
        lambda request: lab.fenced(dummy_kernel(50, status="incorrect")),
        fixer=lambda request: "I'm sorry, but I can't fix that.",
    )
    with lab.store(**(ONE | {"fixer_rounds": 3}), reply_reasks=1) as store:
        result = lab.run(store, model=chat)
        candidate = store.candidate(SAMPLE)
    assert (candidate.evaluation.status, candidate.fixer_rounds) == ("incorrect", 0)
    assert result.failures == {"reply_format:refusal": 2}
    assert slots_of(lab)[-2:] == [f"{SAMPLE}-f1", f"{SAMPLE}-f1-r1"]


# Edits.


def search_replace(old, new):
    return f"Do it.\n\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def diff(old, new):
    return f"```diff\n--- a/kernel.py\n+++ b/kernel.py\n@@ -1 +1 @@\n-{old}\n+{new}\n```\n"


TWO_LINES = ("# latency_us: 100.0", "    return x, 100.0, 'ok', ''")


@pytest.mark.parametrize("notation", [search_replace, diff])
def test_edits_against_the_parent_give_the_edited_kernel(lab, notation):
    chat = lab.by_role(
        lambda request: (
            notation("# latency_us: 100.0", "# latency_us: 60")
            + notation(TWO_LINES[1], TWO_LINES[1].replace("100.0", "60"))
        )
    )
    with lab.store(**ONE, edit_mode="edits") as store:
        result = lab.run(store, model=chat)
    [request] = asked(chat, "executor")
    assert request.edit_mode == "edits"
    expected = lab.task.baseline.text.replace("100.0", "60")
    assert result.best.source.text == expected
    assert result.best.latency_us == 60


def test_the_edits_of_a_later_iteration_refer_to_the_parent_of_then(lab):
    def executor(request):
        us = next(line for line in request.kernel.splitlines() if "latency_us" in line)
        now = float(us.split(": ")[1])
        return search_replace(us, f"# latency_us: {now / 2}") + search_replace(
            f"    return x, {now!r}, 'ok', ''", f"    return x, {now / 2!r}, 'ok', ''"
        )

    settings = ONE | {"iterations": 3, "beam_width": 1}
    result = lab.run(lab.store(**settings, edit_mode="edits"), model=lab.by_role(executor))
    assert result.best.id == "i3-c0-p0-s0"
    assert result.best.latency_us == 12.5


@pytest.mark.parametrize("edit_mode", ["edits", "full"])
def test_either_form_of_answer_is_taken_whichever_was_asked_for(lab, edit_mode):
    answers = {
        "plan 0": lab.fenced(dummy_kernel(60, note="whole")),
        "plan 1": search_replace(*["# latency_us: " + us for us in ("100.0", "70")])
        + search_replace(TWO_LINES[1], TWO_LINES[1].replace("100.0", "70")),
    }
    chat = lab.by_role(lambda request: answers[request.plan])
    with lab.store(**(ONE | {"num_plans": 2}), edit_mode=edit_mode) as store:
        lab.run(store, model=chat)
        assert [c.latency_us for c in store.candidates()] == [100, 60, 70]
    told = [COMPLAINT, "<<<<<<< SEARCH"]
    shown = next(text for text in chat.prompts if "# Kernel to start from" in text)
    assert [words in shown for words in told] == [False, edit_mode == "edits"]


def test_an_edit_of_lines_that_the_parent_does_not_have_says_so(lab):
    good = search_replace(TWO_LINES[1], TWO_LINES[1].replace("ok", "fine"))
    chat = lab.by_role(by_number(search_replace("    return y", "    return x"), good))
    with lab.store(**ONE, edit_mode="edits", reply_reasks=1) as store:
        result = lab.run(store, model=chat)
        assert "fine" in store.candidate(SAMPLE).source.text
    assert result.failures == {"reply_format:edit_not_found": 1}
    assert "return y" in asked(chat, "executor")[1].complaint


def test_the_edits_of_a_fixer_refer_to_the_kernel_that_failed(lab):
    broken = dummy_kernel(60, status="incorrect", note="a")
    chat = lab.by_role(
        lambda request: lab.fenced(broken),
        fixer=lambda request: (
            search_replace("# status: incorrect", "# status: ok")
            + search_replace("'incorrect', 'a'", "'ok', 'a'")
            if "'incorrect', 'a'" in request.parent
            else search_replace(
                "# status: incorrect\ndef kernel(x):\n    return x, 60, 'incorrect', 'a'",
                "# status: ok\ndef kernel(x):\n    return x, 60, 'ok', 'a'",
            )
        ),
    )
    settings = ONE | {"fixer_rounds": 1}
    result = lab.run(lab.store(**settings, edit_mode="edits"), model=chat)
    [request] = asked(chat, "fixer")
    assert (request.kernel, request.parent) == (broken, lab.task.baseline.text)
    assert result.best.source.text == dummy_kernel(60, note="a")
    assert (result.best.fixer_rounds, result.failures) == (1, {})


# Repairs of names.


def test_a_renamed_entry_is_put_right_and_noted(lab):
    text = dummy_kernel(60).replace("def kernel(", "def fast_kernel(")
    chat = lab.by_role(lambda request: lab.fenced(text))
    result = lab.run(lab.store(**ONE), model=chat)
    assert result.best.source.text == dummy_kernel(60)
    assert result.best.notes == ("the kernel was called 'fast_kernel' in the reply",)
    assert result.failures == {}


def test_missing_imports_of_the_parent_are_added_and_noted(lab):
    task = dummy_task(
        baseline="import numpy as np\n" + dummy_kernel(100).replace("x,", "np.abs(x),")
    )
    chat = lab.by_role(
        lambda request: lab.fenced(dummy_kernel(60).replace("return x,", "return np.abs(x),"))
    )
    result = lab.run(lab.store(**ONE), model=chat, task=task)
    assert "import numpy as np\n" in result.best.source.text
    assert result.best.notes == ("import lines of the parent were added",)
    assert result.best.latency_us == 60


def test_a_reply_that_needed_no_repair_has_no_notes(lab):
    chat = lab.by_role(lambda request: lab.fenced(dummy_kernel(60)))
    assert lab.run(lab.store(**ONE), model=chat).best.notes == ()


def test_the_notes_of_a_repaired_kernel_are_those_of_the_fixers_reply(lab):
    wrong = dummy_kernel(60, status="incorrect").replace("def kernel(", "def a(")
    right = dummy_kernel(60).replace("def kernel(", "def b(")
    chat = lab.by_role(lambda request: lab.fenced(wrong), fixer=lambda request: lab.fenced(right))
    with lab.store(**(ONE | {"fixer_rounds": 1})) as store:
        lab.run(store, model=chat)
        notes = [tried.notes for tried in store.attempts()]
    assert notes == [(f"the kernel was called {name!r} in the reply",) for name in ("a", "b")]


# The fixer's end.


@pytest.mark.parametrize(
    ("repairs", "asked_times", "rounds"),
    [
        (["b", "a", "c"], 2, 1),  # the second repair is the executor's kernel again
        (["a", "b", "c"], 1, 0),
        (["b", "b", "c"], 2, 1),
        (["b", "c", "b"], 3, 2),
        (["b", "c", "d"], 3, 3),
    ],
)
def test_the_fixer_stops_on_code_that_any_earlier_round_had(lab, repairs, asked_times, rounds):
    def broken(note):
        # Comments make no other program.
        return lab.fenced(f"# {len(note)}\n" + dummy_kernel(60, status="incorrect", note=note))

    chat = lab.by_role(
        lambda request: broken("a"), fixer=lambda request: broken(repairs[request.index])
    )
    with lab.store(**(ONE | {"fixer_rounds": 3})) as store:
        result = lab.run(store, model=chat)
        candidate = store.candidate(SAMPLE)
        tried = [(t.fixer_rounds, t.evaluation.status.value) for t in store.attempts()]
    assert len(asked(chat, "fixer")) == asked_times
    assert candidate.fixer_rounds == rounds
    assert result.best.id == "baseline"
    # Every round that was judged is kept, the failed ones too.
    assert tried == [(round_, "incorrect") for round_ in range(rounds + 1)]
    assert result.evaluations == 1 + rounds + 1


# Models without a temperature.


class RefusedError(Exception):
    """How a client library says 400."""

    status_code = 400


class Reasoner(ScriptedChatModel):
    """A model that refuses a request with a temperature, as reasoning models do."""

    temperature: float | None = None
    refusal: str = "Unsupported parameter: 'temperature' is not supported with this model."

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        SEEN.append(self.temperature)
        if self.temperature is not None:
            raise RefusedError(self.refusal)
        return super()._generate(messages, stop, run_manager, **kwargs)


SEEN = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def test_a_model_that_refuses_a_temperature_is_asked_without_from_then_on(lab):
    made = lab.by_role(lambda request: lab.fenced(dummy_kernel(60, note=request.plan)))
    chat = Reasoner(answer=made._answer, temperature=0.7)
    # One call after the other: those that wait for a place have chosen their model before.
    with lab.store(**(ONE | {"iterations": 3})) as store:
        result = lab.run(store, model=chat)
    assert (SEEN[0], set(SEEN[1:]), len(SEEN)) == (0.7, {None}, 1 + result.model_calls)
    assert result.best.latency_us == 60
    assert result.failures == {"request_refused": 1}
    [warning] = lab.observer.of("warning")
    assert warning["message"] == "scripted takes no temperature; it is asked without from now on"
    # The caller's model stays as it was.
    assert chat.temperature == 0.7


@pytest.mark.parametrize(
    ("temperature", "refusal"),
    [(0.7, "'temperature' must be between 0 and 0.5"), (0.7, "the prompt is too long")],
)
def test_another_refusal_costs_its_call_and_keeps_the_temperature(lab, temperature, refusal):
    def answer(request):
        raise AssertionError("never answers")

    chat = Reasoner(answer=answer, temperature=temperature, refusal=refusal)
    with lab.store(**ONE) as store, pytest.raises(Exception, match="no model call succeeded"):
        lab.run(store, model=chat)
    assert SEEN == [0.7]
