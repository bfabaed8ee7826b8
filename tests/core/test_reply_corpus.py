from __future__ import annotations

import pytest
from reply_corpus import CORPUS, DIFFS, REASONS, SEARCH_REPLACE, Case, K

from accelopt.errors import ReplyFormatError
from accelopt.replies import UnusableReply, apply_edits, extract_kernel, extract_reply, refusal


def _named(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("case", _named([case for case in CORPUS if case.reason is None]))
def test_a_reply_gives_its_kernel(case):
    found = extract_reply(case.reply, entry=case.entry, parent=case.parent)
    assert found.source == case.want
    assert found.style == case.style
    assert found.entry == (case.entry or case.found)
    assert found.renamed_from == (
        None if case.found == case.entry or not case.entry else case.found
    )
    assert extract_kernel(case.reply, entry=case.entry, parent=case.parent) == case.want


@pytest.mark.parametrize("case", _named([case for case in CORPUS if case.reason is not None]))
def test_a_useless_reply_gives_its_reason(case):
    with pytest.raises(ReplyFormatError) as raised:
        extract_reply(case.reply, entry=case.entry, parent=case.parent)
    assert isinstance(raised.value, UnusableReply)
    assert raised.value.reason == case.reason
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("case", _named(CORPUS))
def test_only_a_refusal_is_a_refusal(case):
    assert (refusal(case.reply) is not None) is (case.reason == "refusal")


def test_the_corpus_is_large_and_uses_every_reason():
    names = [case.name for case in CORPUS]
    assert len(names) == len(set(names)) >= 80
    assert {case.reason for case in CORPUS} == {*REASONS, None}


@pytest.mark.parametrize(
    "case",
    _named(
        [
            case
            for case in [*SEARCH_REPLACE, *DIFFS]
            if case.style != "fenced" and case.found == case.entry
        ]
    ),
)
def test_edits_alone(case):
    parent = case.parent or ""
    if case.reason is None:
        assert apply_edits(case.reply, parent) == case.want
    else:
        with pytest.raises(UnusableReply) as raised:
            apply_edits(case.reply, parent)
        assert raised.value.reason == case.reason


def test_no_edits():
    with pytest.raises(UnusableReply, match="no search/replace block and no diff") as raised:
        apply_edits(f"```python\n{K}```", K)
    assert raised.value.reason == "no_code"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("second not found", "edit block 2 of 2: its search text is not in the kernel; it has no"
         " line `nl.store(o[i], nl.add(tile, b))`"),
        ("ambiguous", "edit block 1 of 1: its search text `x = 1` occurs 2 times in the kernel"
         " (lines 11, 13); quote more lines around it"),
        ("overlap", "edit blocks 1 and 2 change the same place of the kernel (line 8)"),
        ("unknown context", "diff hunk 1 of 1: its old text is not in the kernel"),
        ("cut off", "the reply was cut off inside edit 1"),
        ("only helpers", "no function 'kernel' (it defines: helper, other)"),
        ("only a helper of the parent", "no function 'kernel' (it defines: helper)"),
        ("renamed, calls the old one", "no function 'kernel' (it defines: kernel_v2)"),
        ("refusal: sorry", "is a refusal and has no code block: I'm sorry, but I can't help"),
    ],
)  # fmt: skip
def test_messages_for_the_model(name, message):
    case = next(case for case in CORPUS if case.name == name)
    with pytest.raises(UnusableReply) as raised:
        extract_reply(case.reply, entry=case.entry, parent=case.parent)
    assert message in raised.value.message


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        (f"```\n{K}", "the code block is not closed"),
        (f"```\n{K}```\n```\n{K}```", "1 other code block left out"),
        (f"```\n{K}```\n```\nx = (", "a code block that is not closed"),
        (f"```\n{K.replace('out)', 'out')}    # ... rest of the code\n```", "leave parts out"),
        (f"```rust\n{K}```", "has the tag 'rust'"),
        (f"<think>\n```\n{K}```", "reasoning in the reply is not closed"),
        ("```\n" + K.replace("tile", "ti\u200ble") + "```", "invisible characters"),
        (f"```\n{K}\nIt adds them and nothing else.\n", "text after the code"),
        (f"```\n{K.replace('b):', 'b)')}```", "does not parse"),
    ],
)
def test_notes(reply, note):
    assert any(note in text for text in extract_reply(reply, entry="kernel").notes)


def test_a_note_says_that_imports_were_added():
    without = K.split("\n\n\n")[1]
    found = extract_reply(f"```\n{without}```", entry="kernel", parent=K)
    assert found.notes == ("import lines of the parent were added",)
    assert extract_reply(f"```\n{without}```", entry="kernel").source == without
    assert extract_reply(f"```\n{K}```", entry="kernel", parent=K).notes == ()


def test_notes_of_edits():
    same = "<<<<<<< SEARCH\n@nki.jit\n=======\n@nki.jit\n>>>>>>> REPLACE"
    assert "the edits change nothing" in extract_reply(same, parent=K).notes
    broken = same.replace("=\n@nki", "=\n@@nki")
    assert "the edited code does not parse" in extract_reply(broken, parent=K).notes
