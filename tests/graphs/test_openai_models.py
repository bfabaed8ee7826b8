"""OpenAI-compatible models over real HTTP, streamed and not."""

from __future__ import annotations

import pytest

from accelopt.errors import ConfigError
from accelopt.models import ModelSettings
from accelopt.testing.chat_replies import (
    Cut,
    EmptyChoices,
    ErrorInBody,
    Html,
    MalformedJson,
    NullChoices,
    Text,
)
from accelopt.testing.chat_server import ScriptedChatServer
from accelopt_graphs.model_errors import CutStreamError, MalformedResponseError
from accelopt_graphs.openai_models import OpenAIModels

BOTH = pytest.mark.parametrize("stream", [False, True])


def ask(reply, name="gpt-oss", **settings):
    """The message a reply becomes, and the body of the request."""
    with ScriptedChatServer(lambda request: reply) as server:
        how = ModelSettings(base_url=server.base_url, timeout_s=10, **settings)
        message = OpenAIModels().create(name, how).invoke("Write a kernel.")
        [request] = server.requests
    return message, request.body


@BOTH
def test_an_answer_comes_with_its_usage(stream):
    message, body = ask(Text("a fast kernel", 12, 34), stream=stream)
    assert message.text == "a fast kernel"
    assert message.usage_metadata["input_tokens"] == 12
    assert message.usage_metadata["output_tokens"] == 34
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.response_metadata["model_name"] == "gpt-oss"
    assert message.additional_kwargs == {}
    assert bool(body.get("stream")) is stream
    assert body.get("stream_options") == ({"include_usage": True} if stream else None)


@BOTH
def test_a_cut_off_answer_says_so(stream):
    message, _ = ask(Text("half", finish_reason="length"), stream=stream)
    assert message.response_metadata["finish_reason"] == "length"


@BOTH
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_in_a_field_of_their_own_are_kept(stream, field):
    reply = Text("so be it", reasoning="first this, then that", reasoning_field=field)
    message, _ = ask(reply, stream=stream)
    assert message.text == "so be it"
    assert message.additional_kwargs["reasoning_content"] == "first this, then that"


@BOTH
def test_a_refusal_without_content_is_kept(stream):
    message, _ = ask(Text(None, refusal="I would rather not"), stream=stream)
    assert message.text == ""
    assert message.additional_kwargs["refusal"] == "I would rather not"


@BOTH
@pytest.mark.parametrize("name", ["gpt-oss", "o1-mini", "gpt-5"])
def test_what_is_not_set_is_not_sent(stream, name):
    _, body = ask(Text("x"), name, stream=stream)
    assert set(body) <= {"model", "messages", "stream", "stream_options"}


@BOTH
def test_what_is_set_is_sent_in_the_dialect_of_other_servers(stream):
    _, body = ask(
        Text("x"), stream=stream, temperature=0.5, max_output_tokens=99, reasoning_effort="high"
    )
    assert body["temperature"] == 0.5
    assert body["reasoning_effort"] == "high"
    assert body["max_tokens"] == 99
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1"])
def test_openai_itself_gets_its_own_dialect(monkeypatch, base_url):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    how = ModelSettings(base_url=base_url, max_output_tokens=99)
    payload = OpenAIModels().create("gpt-5", how)._get_request_payload("hi")
    assert payload["max_completion_tokens"] == 99
    assert "max_tokens" not in payload


def test_a_stream_that_ends_too_soon_is_no_answer():
    with pytest.raises(CutStreamError, match="ended before"):
        ask(Cut("def kernel("), stream=True)


@BOTH
@pytest.mark.parametrize("reply", [EmptyChoices(), NullChoices(), Html(), MalformedJson()])
def test_a_body_that_is_no_completion_is_a_clear_error(stream, reply):
    with pytest.raises(MalformedResponseError) as caught:
        ask(reply, stream=stream)
    assert "\n" not in str(caught.value)


@BOTH
def test_an_error_in_the_body_keeps_its_message(stream):
    with pytest.raises(Exception, match="the engine died"):
        ask(ErrorInBody(), stream=stream)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"message": None},
        "text",
        {"message": {"content": "no role"}},
        {"message": {"role": "assistant", "tool_calls": 3}},
    ],
)
def test_a_choice_without_a_message_is_a_clear_error(choice):
    model = OpenAIModels().create("m", ModelSettings(base_url="http://127.0.0.1:1/v1"))
    with pytest.raises(MalformedResponseError):
        model._create_chat_result({"choices": [choice]})


def test_an_end_without_a_delta_is_an_end():
    model = OpenAIModels().create("m", ModelSettings(base_url="http://127.0.0.1:1/v1"))
    event = {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}
    from langchain_core.messages import AIMessageChunk

    made = model._convert_chunk_to_generation_chunk(event, AIMessageChunk, {})
    assert made.generation_info["finish_reason"] == "stop"


def test_each_server_gets_its_own_key(monkeypatch, tmp_path):
    with ScriptedChatServer(lambda request: Text("x")) as server:
        path = tmp_path / "keys.toml"
        path.write_text(f'[servers]\n"{server.base_url}" = "sk-of-this-server"\n')
        path.chmod(0o600)
        monkeypatch.setenv("ACCELOPT_KEY_FILE", str(path))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
        OpenAIModels().create("m", ModelSettings(base_url=server.base_url)).invoke("hi")
        assert server.requests[0].headers["authorization"] == "Bearer sk-of-this-server"


def test_a_failed_call_is_not_repeated_by_the_client():
    with ScriptedChatServer(lambda request: ErrorInBody()) as server:
        model = OpenAIModels().create("m", ModelSettings(base_url=server.base_url))
        with pytest.raises(RuntimeError):
            model.invoke("hi")
        assert len(server.requests) == 1


def test_a_missing_key_is_one_line():
    with pytest.raises(ConfigError, match="needs a key"):
        OpenAIModels().create("m", ModelSettings())


def test_a_copy_without_temperature_asks_without():
    with ScriptedChatServer(lambda request: Text("x")) as server:
        how = ModelSettings(base_url=server.base_url, temperature=0.5, max_output_tokens=9)
        model = OpenAIModels().create("m", how)
        model.model_copy(update={"temperature": None}).invoke("hi")
        [request] = server.requests
    assert "temperature" not in request.body
    assert request.body["max_tokens"] == 9
