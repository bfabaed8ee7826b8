"""Names of models, their weights, and the pick of a member for a slot."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from pydantic import ValidationError

from accelopt.errors import ConfigError
from accelopt.model_names import ModelChoice, parse_models
from accelopt.models import Ensemble, Member, ModelName, ModelSettings


def members(*weights):
    return Ensemble(tuple(Member(f"m{i}", w, object()) for i, w in enumerate(weights)))


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("rewriter", ModelChoice("rewriter")),
        ("openai:gpt-oss-120b", ModelChoice("openai", "gpt-oss-120b")),
        ("openai:qwen3:8b", ModelChoice("openai", "qwen3:8b")),
        ("openai:org/model@v2", ModelChoice("openai", "org/model@v2")),
        ("openai:a@http://h:1/v1", ModelChoice("openai", "a", "http://h:1/v1")),
        ("openai:a@b@https://h/v1", ModelChoice("openai", "a@b", "https://h/v1")),
        ("openai:a@http://[::1]:80/v1", ModelChoice("openai", "a", "http://[::1]:80/v1")),
        ("openai:a*3", ModelChoice("openai", "a", None, 3.0)),
        ("openai:a@http://h/v1 * 0.5", ModelChoice("openai", "a", "http://h/v1", 0.5)),
        ("rewriter*.25", ModelChoice("rewriter", "", None, 0.25)),
        ("langchain:groq:llama", ModelChoice("langchain", "groq:llama")),
    ],
)
def test_one_model(text, choice):
    assert parse_models(text) == (choice,)


def test_several_models_keep_their_order():
    text = "openai:a@http://localhost:8000/v1*3, openai:b@http://localhost:8001/v1"
    first, second = parse_models(text)
    assert (first.weight, second.weight) == (3.0, 1.0)
    assert (first.label, second.label) == ("openai:a", "openai:b")
    assert second.address == "openai:b@http://localhost:8001/v1"
    assert parse_models("rewriter")[0].label == "rewriter"


def test_one_model_on_two_servers_is_no_repetition():
    assert len(parse_models("openai:a@http://h:1/v1,openai:a@http://h:2/v1")) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing"),
        ("openai:a,", "missing"),
        (",openai:a", "missing"),
        ("openai:a,,openai:b", "missing"),
        (":a", "no provider"),
        ("@http://h/v1", "no provider"),
        ("openai:a*", "weight"),
        ("openai:a*x", "weight"),
        ("openai:a*0", "weight"),
        ("openai:a*-1", "weight"),
        ("openai:a*nan", "weight"),
        ("openai:a*inf", "weight"),
        ("openai:a*" + "9" * 400, "weight"),
        ("openai:a@http://", "base URL"),
        ("openai:a@http:///v1", "base URL"),
        ("openai:a@http://h:port/v1", "base URL"),
        ("openai:a@http://h h/v1", "base URL"),
        ("openai:a,openai:a", "twice"),
        ("openai:a*2,openai:b,openai:a*3", "twice"),
    ],
)
def test_a_bad_setting_is_one_clear_line(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_models(text)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_single_model_is_always_picked():
    model = object()
    one = Ensemble.of("openai:a", model)
    assert {one.pick(seed, slot).label for seed in range(3) for slot in "abc"} == {"openai:a"}
    assert one.pick(0, "x").model is model


def test_picks_are_as_frequent_as_the_weights_say():
    ensemble = members(3, 1)
    counts = Counter(ensemble.pick(0, f"i0-c0-p{i}").label for i in range(4000))
    assert counts["m0"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_a_pick_depends_on_the_seed_and_the_slot():
    ensemble = members(1, 1)
    by_slot = {ensemble.pick(0, f"s{i}").label for i in range(20)}
    by_seed = {ensemble.pick(i, "s").label for i in range(20)}
    assert by_slot == by_seed == {"m0", "m1"}


def test_a_pick_is_the_same_in_every_process():
    code = (
        "from accelopt.models import Ensemble, Member\n"
        "e = Ensemble(tuple(Member(f'm{i}', w, None) for i, w in enumerate((2, 1, 0.5))))\n"
        "print(' '.join(e.pick(7, f's{i}').label for i in range(30)))"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1"},
    )
    ensemble = members(2, 1, 0.5)
    assert there.stdout.split() == [ensemble.pick(7, f"s{i}").label for i in range(30)]


def test_an_ensemble_needs_members_with_weight():
    with pytest.raises(ValueError, match="member"):
        Ensemble(())
    with pytest.raises(ValueError, match="positive"):
        members(1, 0)


def test_the_plain_name_still_splits_at_its_first_colon():
    assert ModelName.parse("openai:qwen3:8b") == ModelName("openai", "qwen3:8b")


def test_settings_are_frozen_and_know_streaming_and_effort():
    settings = ModelSettings(stream=True, reasoning_effort="high")
    assert (ModelSettings().stream, ModelSettings().reasoning_effort) == (False, "")
    with pytest.raises(ValidationError):
        settings.stream = False
    with pytest.raises(ValidationError):
        ModelSettings(streaming=True)
