"""Full runs through langchain-openai against a server on this machine that misbehaves."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from scripted_answers import VOICES, Script, outcome, role_of

from accelopt.config import RunConfig
from accelopt.errors import ChatError
from accelopt.plugins import installed
from accelopt.requests import REQUEST_KEY
from accelopt.run_store import RunStore
from accelopt.session import open_backend, run_store
from accelopt.testing import DummyBackend, RecordingObserver, dummy_task, nki_sample
from accelopt.testing.chat_replies import Status, Text
from accelopt.testing.chat_server import ScriptedChatServer
from accelopt_graphs.model_calls import CallPolicy

KEY = "sk-recognizable-0123456789abcdef"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(
        "accelopt_graphs.services.CallPolicy", partial(CallPolicy, first_delay_s=0.005)
    )


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def new_store(folder, server, task, **settings):
    values = {
        "preset": "quick",
        "task": task.name,
        "backend": "dummy",
        "model": "openai:scripted",
        "planner_model": ",".join(f"openai:{voice}" for voice in VOICES),
        "base_url": server.base_url,
        "memory": "none",
        "evaluation_cache": "none",
        "patience": 0,
        "model_timeout_s": 2.0,
        "model_retries": 6,
    }
    return RunStore.create(folder / "runs", RunConfig.load(None, **(values | settings)), task.name)


def small_store(folder, server, **settings):
    """One plan, one kernel, one lesson."""
    one = dict.fromkeys(("beam_width", "num_plans", "num_samples", "iterations"), 1)
    values = {"planner_model": "openai:scripted", "model_concurrency": 1, "fixer_rounds": 0}
    return new_store(folder, server, dummy_task(), **(one | values | settings))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run with the same answers and a server that does as it should."""
    folder, task = tmp_path_factory.mktemp("undisturbed"), dummy_task()
    with ScriptedChatServer(Script(calm=True)) as server, new_store(folder, server, task) as store:
        result = run_store(store, task, backend=DummyBackend())
        assert result.failures == {}
        return result, outcome(store)


def event_counts(store, kind):
    return Counter(event["failure"] for event in store.events() if event["kind"] == kind)


def files_with(text, *folders):
    """The files below the folders that hold a text."""
    files = [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]
    assert files
    return [path for path in files if text.encode() in path.read_bytes()]


def check_failures(store, result, script):
    """The run counted exactly what the server sent."""
    assert Counter(result.failures) == script.sent
    assert Counter(store.journal.failure_counts()) == script.sent
    replies = {kind for kind in script.sent if kind.startswith("reply_format:")}
    calls = Counter({kind: n for kind, n in script.sent.items() if kind not in replies})
    assert event_counts(store, "model_call_failed") == calls
    assert event_counts(store, "reply_unusable") == script.sent - calls
    assert result.model_calls == script.good.total()
    assert script.asked.total() == script.good.total() + calls.total()


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_ends_as_if_the_server_had_behaved_and_counts_each_failure_by_kind(
    undisturbed, tmp_path, capfd, caplog, stream
):
    expected, decided = undisturbed
    task, script = dummy_task(), Script()
    with (
        ScriptedChatServer(script) as server,
        new_store(tmp_path, server, task, stream=stream) as store,
    ):
        result = run_store(store, task, backend=DummyBackend())
        assert result.status == "finished"
        assert outcome(store) == decided
        assert (result.best.id, result.best.source.text) == (
            expected.best.id,
            expected.best.source.text,
        )
        assert result.best.latency_us < result.baseline.latency_us
        assert result.evaluations == expected.evaluations
        check_failures(store, result, script)
        # While the journal is open its newest pages are in the WAL.
        assert files_with(KEY, store.path, tmp_path) == []
        assert files_with("***", store.path)
    assert {request.stream for request in server.requests} == {stream}
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    assert script.sent.keys() >= {
        "rate_limit", "server_error", "timeout", "cut_stream", "malformed_response",
        "reply_format:refusal", "reply_format:truncated", "reply_format:no_code",
    }  # fmt: skip
    assert files_with(KEY, store.path) == []
    assert KEY not in "".join(capfd.readouterr()) + caplog.text


@pytest.mark.slow
def test_real_kernels_win_on_the_simulator_although_the_server_misbehaves(tmp_path):
    task = installed().task("silu@small")
    backend = open_backend("sim-trn1")
    try:
        with RunStore.create(
            tmp_path / "known",
            RunConfig.load(
                None, preset="quick", task=task.name, memory="none", evaluation_cache="none"
            ),
            task.name,
        ) as store:
            known = run_store(store, task, backend=backend).best
            sources = [c.source.text for c in store.candidates() if c.latency_us is not None]
        assert len(sources) > 2

        def kernels(role, question, number):
            return known.source.text if number % 2 else sources[number // 2 % len(sources)]

        script = Script(kernels=kernels)
        with (
            ScriptedChatServer(script) as server,
            new_store(tmp_path, server, task, backend="sim-trn1", iterations=3) as store,
        ):
            result = run_store(store, task, backend=backend)
            check_failures(store, result, script)
            assert files_with(KEY, tmp_path) == []
        assert result.best.source.text == known.source.text
        assert result.best.latency_us == known.latency_us < result.baseline.latency_us
    finally:
        backend.close()


def our_children():
    """Process ids of this process' children and theirs, Linux."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(after_name[1])
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {os.getpid()}


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_processes_that_see_candidates_have_no_key_in_their_environment():
    sample, before = nki_sample(), our_children()
    backend = open_backend("sim-trn1")
    try:
        assert backend.evaluate(sample.task, sample.good).ok
        helpers = our_children() - before
        assert helpers
        for pid in helpers:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert KEY.encode() not in environment
            assert b"API_KEY" not in environment
    finally:
        backend.close()


def test_a_key_that_a_refusal_quotes_is_written_nowhere(tmp_path, capfd):
    """Status 400 costs the call, so its message is kept for people."""
    refused = Script(calm=True)

    def answer(request):
        if len(server.requests) == 1:
            return Status(400, f"{request.headers['authorization']} may not ask for that")
        return refused(request)

    observer = RecordingObserver()
    with (
        ScriptedChatServer(answer) as server,
        small_store(tmp_path, server, num_plans=2) as store,
    ):
        result = run_store(store, dummy_task(), backend=DummyBackend(), observers=(observer,))
        assert result.failures == {"request_refused": 1}
        [failed] = observer.of("model_call_failed")
        assert "*** may not ask" in failed["message"]
        assert files_with(KEY, tmp_path) == []
    assert KEY not in "".join(capfd.readouterr())
    assert KEY not in repr(observer.events)


def test_a_run_counts_calls_and_tokens_and_sends_neither_seed_nor_typed_request(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY")
    with (
        ScriptedChatServer(Script(calm=True, usage=(11, 7))) as server,
        small_store(tmp_path, server) as store,
    ):
        result = run_store(store, dummy_task(), backend=DummyBackend())
    assert result.status == "finished"
    calls = len(server.requests)
    assert result.model_calls == calls >= 2
    assert (result.input_tokens, result.output_tokens) == (11 * calls, 7 * calls)
    assert (result.cost_usd, result.unpriced_calls) == (0.0, calls)
    for request in server.requests:
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == "Bearer none"
        assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
        assert "seed" not in request.body
        assert REQUEST_KEY not in json.dumps(request.body)


def test_a_call_that_keeps_failing_costs_a_sample(tmp_path):
    good, observer = Script(calm=True), RecordingObserver()

    def answer(request):
        return Status(500) if role_of(request.text) == "executor" else good(request)

    with (
        ScriptedChatServer(answer) as server,
        small_store(tmp_path, server, model_retries=2) as store,
    ):
        result = run_store(store, dummy_task(), backend=DummyBackend(), observers=(observer,))
    assert (result.status, result.best.id) == ("finished", "baseline")
    assert result.failures == {"server_error": 3}
    assert len(server.requests) == 1 + 3
    failed = [e for e in observer.of("model_call_finished") if e["status"] == "failed"]
    assert [event["slot"] for event in failed] == ["i1-c0-p0-s0"]


def test_an_answer_that_stays_unusable_costs_a_sample_and_is_asked_for_once_more(tmp_path):
    def answer(request):
        if role_of(request.text) == "planner":
            return Text("Do less.")
        return Text("I'm sorry, but I can't do that.")

    with ScriptedChatServer(answer) as server, small_store(tmp_path, server) as store:
        result = run_store(store, dummy_task(), backend=DummyBackend())
    assert result.status == "finished"
    assert result.best.id == "baseline"
    assert result.failures == {"reply_format:refusal": 2}
    assert len(server.requests) == 3
    assert "I can't do that" in server.requests[-1].text


@pytest.mark.parametrize(
    "refusal", [Status(401, "bad key"), Status(404, "no such model"),
                Status(429, "pay first", code="insufficient_quota")],
    ids=["key", "model", "quota"],
)  # fmt: skip
def test_a_server_that_refuses_the_run_ends_it_with_one_line_and_it_can_be_resumed(
    tmp_path, refusal
):
    good = Script(calm=True)

    def answer(request):
        return refusal if len(server.requests) == 1 else good(request)

    with ScriptedChatServer(answer) as server, small_store(tmp_path, server) as store:
        with pytest.raises(ChatError, match=refusal.message) as caught:
            run_store(store, dummy_task(), backend=DummyBackend())
        assert "\n" not in str(caught.value)
        assert len(server.requests) == 1
        assert store.status == "failed"
        assert run_store(store, dummy_task(), backend=DummyBackend()).status == "finished"


def test_a_wait_that_the_server_asks_for_holds_every_call_to_it(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(
        "accelopt_graphs.throttle.Throttle.pause", lambda self, seconds: pauses.append(seconds)
    )
    good = Script(calm=True)

    def answer(request):
        return Status(429, retry_after="3") if len(server.requests) == 1 else good(request)

    with ScriptedChatServer(answer) as server, small_store(tmp_path, server) as store:
        result = run_store(store, dummy_task(), backend=DummyBackend())
    assert pauses == [3.0]
    assert result.failures == {"rate_limit": 1}
