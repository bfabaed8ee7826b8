"""A small run through langchain-openai against a scripted server on this machine."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from accelopt.config import RunConfig
from accelopt.embedders import HashedTokenEmbedder
from accelopt.errors import ChatError
from accelopt.graphs import RunServices
from accelopt.models import ModelSettings, Role
from accelopt.requests import REQUEST_KEY
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, RecordingObserver, dummy_kernel, dummy_task
from accelopt_graphs.openai_models import OpenAIModels
from accelopt.plugins import installed


class Server:
    """Answers chat completions; `failures` are sent first, one per request."""

    def __init__(self):
        self.failures = []
        self.requests = []
        self.headers = []
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    server.requests.append((self.path, body))
                    server.headers.append({k.lower(): v for k, v in self.headers.items()})
                    failure = server.failures.pop(0) if server.failures else None
                status, text, extra = failure or (200, json.dumps(completion(body)), {})
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in extra.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.httpd.server_address[1]}/v1"

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()
        self.thread.join()


def completion(body):
    user = body["messages"][-1]["content"]
    if "Write one plan" in user:
        text = "Halve the work."
    elif "Carry the plan out" in user:
        text = f"<think>hm</think>```python\n{dummy_kernel(50)}```"
    else:
        text = "**Halving**\nDo half of it."
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def run(server, folder, observers=(), **settings):
    task = dummy_task()
    values = {
        "task": task.name,
        "backend": "dummy",
        "beam_width": 1,
        "num_plans": 1,
        "num_samples": 1,
        "iterations": 1,
        "memory": "none",
        "model_retries": 2,
    }
    config = RunConfig.load(None, **(values | settings))
    model = OpenAIModels().create("gpt-oss", ModelSettings(base_url=server.url, timeout_s=20))
    with RunStore.create(folder, config, task.name) as store:
        return installed().graph("optimize").run(
            RunServices(
                config=config,
                task=task,
                backend=DummyBackend(),
                chat_models=dict.fromkeys(Role, model),
                embedder=HashedTokenEmbedder(),
                store=store,
                observers=observers,
            )
        )


@pytest.fixture
def no_waiting(monkeypatch):
    waits = []
    monkeypatch.setattr(
        "accelopt_graphs.stopping.StopSignal.sleep", lambda self, seconds: waits.append(seconds)
    )
    return waits


def test_a_full_run_over_http(server, tmp_path):
    result = run(server, tmp_path)
    assert (result.status, result.best.latency_us) == ("finished", 50.0)
    assert result.model_calls == len(server.requests) == 3
    assert (result.input_tokens, result.output_tokens) == (33, 21)
    assert {path for path, _ in server.requests} == {"/v1/chat/completions"}
    assert {headers.get("authorization") for headers in server.headers} == {"Bearer none"}


def test_the_typed_request_and_the_seed_do_not_go_over_the_wire(server, tmp_path):
    run(server, tmp_path)
    for _, body in server.requests:
        assert REQUEST_KEY not in json.dumps(body)
        assert "seed" not in body
        assert [message["role"] for message in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    "failure",
    [
        (429, '{"error": {"message": "slow down"}}', {"Retry-After": "3"}),
        (500, '{"error": {"message": "oops"}}', {}),
        (503, "<html>bad gateway</html>", {}),
        (200, "{not json", {}),
        (200, '{"object": "chat.completion"}', {}),
    ],
)
def test_a_passing_failure_is_retried(server, tmp_path, no_waiting, failure):
    server.failures = [failure]
    result = run(server, tmp_path)
    assert result.best.latency_us == 50.0
    assert len(server.requests) == 4
    assert result.model_calls == 3
    assert len(no_waiting) == 1
    if failure[0] == 429:
        assert no_waiting == [3.0]


def test_a_call_that_keeps_failing_costs_a_sample(server, tmp_path, no_waiting):
    server.failures = [(500, "{}", {})] * 3
    observer = RecordingObserver()
    result = run(server, tmp_path, (observer,), num_plans=2, model_concurrency=1)
    assert result.status == "finished"
    assert result.best.latency_us == 50.0
    failed = [e for e in observer.of("model_call_finished") if e["status"] == "failed"]
    assert [event["role"] for event in failed] == ["planner"]
    assert len(no_waiting) == 2


def test_a_refused_key_ends_the_run_with_one_line(server, tmp_path):
    server.failures = [(401, '{"error": {"message": "bad key"}}', {})]
    with pytest.raises(ChatError, match="bad key") as caught:
        run(server, tmp_path)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1
