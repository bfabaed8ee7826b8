"""The scripted chat server, seen through the standard library's HTTP client."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from accelopt.errors import ConfigError
from accelopt.testing.chat_replies import (
    Cut,
    Dribble,
    EmptyChoices,
    ErrorInBody,
    Hang,
    Html,
    MalformedJson,
    NullChoices,
    Status,
    Text,
)
from accelopt.testing.chat_server import ScriptedChatServer, ServerRequest
from accelopt.testing.chat_server_process import ChatServerProcess

SCRIPT = """\
from accelopt.testing.chat_replies import Text

def answer(request):
    return Text(f"{request.number}: {request.text}")
"""


def post(base_url, *, timeout=10, **body):
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | body
    return urllib.request.urlopen(
        urllib.request.Request(
            f"{base_url}/chat/completions",
            data=json.dumps(request).encode(),
            headers={"Content-Type": "application/json", "Authorization": "Bearer k"},
        ),
        timeout=timeout,
    )


def body_of(reply, **body):
    with ScriptedChatServer(lambda request: reply) as server, post(server.base_url, **body) as got:
        return got.read().decode()


def events_of(reply, **body):
    lines = body_of(reply, stream=True, **body).split("\n\n")
    assert lines[-1] == ""
    return [line.removeprefix("data: ") for line in lines[:-1]]


def test_a_text_is_a_completion_with_usage():
    made = json.loads(body_of(Text("hello", 3, 4, finish_reason="length")))
    [choice] = made["choices"]
    assert choice["message"] == {"role": "assistant", "content": "hello"}
    assert choice["finish_reason"] == "length"
    assert made["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert made["model"] == "m"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_and_a_refusal_have_fields_of_their_own(field):
    reply = Text(None, reasoning="hm", reasoning_field=field, refusal="no")
    message = json.loads(body_of(reply))["choices"][0]["message"]
    assert message == {"role": "assistant", "content": None, field: "hm", "refusal": "no"}
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events_of(reply)[:-1]]
    assert {field: "hm"} in deltas
    assert {"refusal": "no"} in deltas


def test_a_stream_gives_the_text_in_pieces_and_usage_when_asked_for():
    *events, done = events_of(Text("hello, world", 3, 4), stream_options={"include_usage": True})
    assert done == "[DONE]"
    chunks = [json.loads(event) for event in events]
    pieces = [c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]]
    assert "".join(pieces) == "hello, world"
    assert len(pieces) > 2
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"]) == ([], 7)
    assert not any("usage" in json.loads(event) for event in events_of(Text("x"))[:-1])


def test_requests_are_recorded_in_order_of_arrival():
    def answer(request):
        return Text(f"{request.number} {request.model} {request.text} {request.stream}")

    with ScriptedChatServer(answer) as server:
        for name in ("a", "b"):
            with post(server.base_url, model=name) as got:
                text = json.load(got)["choices"][0]["message"]["content"]
        first, second = server.requests
    # A reply counts when it is out, which its reader may notice first; closing waits for it.
    assert server.answered == 2
    assert text == "2 b hi False"
    assert (first.number, first.path, first.model) == (1, "/v1/chat/completions", "a")
    assert first.headers["authorization"] == "Bearer k"
    assert first.body["messages"][0]["content"] == "hi"
    assert first.arrived_s <= second.arrived_s


def test_requests_at_once_are_answered_at_once_and_numbered_apart():
    together = threading.Barrier(8)

    def answer(request):
        together.wait(10)
        return Text(str(request.number))

    texts = []
    with ScriptedChatServer(answer) as server:

        def ask():
            with post(server.base_url) as got:
                texts.append(json.load(got)["choices"][0]["message"]["content"])

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(texts) == [str(number) for number in range(1, 9)]


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_a_status_comes_with_a_message_and_its_headers(status):
    reply = Status(status, "too much", retry_after=2.5, headers={"X-Extra": "1"})
    with ScriptedChatServer(lambda request: reply) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server.base_url)
        with caught.value as error:
            assert error.code == status
            assert error.headers["Retry-After"] == "2.5"
            assert error.headers["X-Extra"] == "1"
            assert json.load(error)["error"]["message"] == "too much"


def test_a_cut_body_is_half_of_what_its_head_promises():
    with ScriptedChatServer(lambda request: Cut()) as server, post(server.base_url) as got:
        with pytest.raises(http.client.IncompleteRead):
            got.read()
        assert server.answered == 0


def test_a_stream_is_cut_cleanly_or_in_the_middle():
    events = events_of(Cut("half a sent"))
    assert "[DONE]" not in events
    assert not any(json.loads(event)["choices"][0]["finish_reason"] for event in events)
    with pytest.raises(http.client.IncompleteRead):
        body_of(Cut(clean=False), stream=True)


def test_odd_bodies():
    with pytest.raises(json.JSONDecodeError):
        json.loads(body_of(MalformedJson()))
    assert json.loads(body_of(EmptyChoices()))["choices"] == []
    assert json.loads(body_of(NullChoices()))["choices"] is None
    assert json.loads(body_of(ErrorInBody("no", 429)))["error"]["code"] == 429
    assert body_of(Html()).startswith("<!DOCTYPE html>")


def test_odd_streams():
    with pytest.raises(json.JSONDecodeError):
        json.loads(events_of(MalformedJson())[0])
    assert json.loads(events_of(EmptyChoices())[0])["choices"] == []
    assert json.loads(events_of(NullChoices())[0])["choices"] is None
    assert json.loads(events_of(ErrorInBody())[0])["error"]["code"] == 500
    assert body_of(Html(), stream=True).startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("stream", [False, True])
def test_a_dribbled_reply_is_whole_in_the_end(stream):
    assert '"content": "slow' in body_of(Dribble(0.0001, "slow"), stream=stream)


def test_a_hanging_reply_ends_when_the_server_closes():
    server = ScriptedChatServer(lambda request: Hang())
    ended = []

    def ask():
        try:
            post(server.base_url)
        except (OSError, http.client.HTTPException) as error:
            ended.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not server.requests:
        thread.join(0.01)
    server.close()
    thread.join(10)
    assert len(ended) == 1


def test_a_client_that_gives_up_does_no_harm(capfd):
    replies = iter([Hang(), Dribble(0.001), Text("fine")])
    with ScriptedChatServer(lambda request: next(replies)) as server:
        with pytest.raises(TimeoutError):
            post(server.base_url, timeout=0.05)
        with post(server.base_url) as got:
            assert got.read(3) == b'{"i'
        with post(server.base_url) as got:
            assert json.load(got)["choices"][0]["message"]["content"] == "fine"
    assert capfd.readouterr() == ("", "")


def test_a_client_that_dies_while_it_asks_is_no_request(capfd):
    with ScriptedChatServer(lambda request: Text("x")) as server:
        port = int(server.base_url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")
        with post(server.base_url):
            pass
        assert len(server.requests) == 1
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_script_is_answered_and_raised_at_the_end():
    def answer(request):
        raise RuntimeError("not in the script")

    def use():
        with ScriptedChatServer(answer) as server:
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(server.base_url)
            with caught.value as error:
                assert "not in the script" in json.load(error)["error"]["message"]

    with pytest.raises(RuntimeError, match="not in the script"):
        use()


def test_the_models_are_listed():
    with ScriptedChatServer(lambda request: Text("x"), models=("a", "b")) as server:
        with urllib.request.urlopen(f"{server.base_url}/models", timeout=10) as got:
            assert [model["id"] for model in json.load(got)["data"]] == ["a", "b"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.base_url}/nothing", timeout=10)
        caught.value.close()
        assert server.requests == []


def test_a_server_in_a_process_of_its_own_remembers_dead_clients(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with ChatServerProcess(f"{script}:answer") as server:
        with post(server.base_url) as got:
            assert json.load(got)["choices"][0]["message"]["content"] == "1: hi"
        ask = (
            "import os, signal, socket\n"
            f"port = {server.base_url.split(':')[2].split('/')[0]}\n"
            "client = socket.create_connection(('127.0.0.1', port))\n"
            "client.sendall(b'POST /v1/chat/completions HTTP/1.1\\r\\n'\n"
            "               b'Content-Length: 2\\r\\n\\r\\n{}')\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        subprocess.run([sys.executable, "-c", ask], check=False)
        with post(server.base_url) as got:
            assert json.load(got)["choices"][0]["message"]["content"].endswith(": hi")
        # The dead one's request may still be on its way.
        while len(requests := server.requests()) < 3:
            pass
    assert isinstance(requests[0], ServerRequest)
    assert requests[0].text == "hi"


@pytest.mark.parametrize("script", ["no.such.module:answer", "json:nothing", "missing.py:answer"])
def test_a_script_that_is_not_there_is_a_config_error(script, capfd):
    with pytest.raises(ConfigError, match="did not start"):
        ChatServerProcess(script)
    assert "Traceback" not in capfd.readouterr().err
