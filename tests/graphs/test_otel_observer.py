"""Events as OpenTelemetry spans, and a collector that is there, slow, or not."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from accelopt.errors import ConfigError
from accelopt_graphs.event_hub import EventHub
from accelopt_graphs.otel_observer import OpenTelemetryObserver, is_asked_for, make_observer

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


class Trace:
    """Events in, finished spans out."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.observer = OpenTelemetryObserver(lambda: self.exporter)
        self.now_s = 1000.0

    def tell(self, kind, **fields):
        self.now_s += 1
        self.observer.observe({"kind": kind, "time_s": self.now_s, "run": "r1", **fields})

    def close(self):
        self.observer.close()
        return self.exporter.get_finished_spans()

    def named(self, name):
        return [span for span in self.close() if span.name == name]


@pytest.fixture
def traced():
    return Trace()


def only(spans):
    (span,) = spans
    return span


def values(span, *names):
    return tuple(span.attributes.get(name) for name in names)


def whole_run(traced):
    traced.tell("run_started", iterations=1, message="bench/silu")
    traced.tell("evaluation_started", candidate="baseline", iteration=0)
    traced.tell("evaluation_finished", candidate="baseline", iteration=0, status="ok")
    traced.tell("iteration_started", iteration=1, planned_evaluations=1, beam=["baseline"])
    call = {"role": "planner", "slot": "i1-c0-p0", "iteration": 1}
    traced.tell("model_call_started", model="openai:gpt-5-mini", **call)
    traced.tell("model_call_failed", failure="rate_limit", message="secret prompt", **call)
    traced.tell(
        "model_call_finished",
        model="openai:gpt-5-mini",
        status="ok",
        cached=False,
        input_tokens=100,
        output_tokens=20,
        cost_usd=0.25,
        **call,
    )
    where = {"candidate": "i1-c0-p0-s0", "parent": "baseline", "iteration": 1}
    traced.tell("evaluation_started", **where)
    traced.tell(
        "evaluation_finished",
        **where,
        status="ok",
        latency_us=50.0,
        speedup=2.0,
        percent_of_peak=40.0,
        cached=False,
    )
    traced.tell("experience_added", iteration=1, candidate="i1-c0-p0-s0", message="secret title")
    traced.tell(
        "beam_selected", iteration=1, beam=["i1-c0-p0-s0"], candidate="i1-c0-p0-s0", cost_usd=0.25
    )
    traced.tell("run_finished", status="finished", best_latency_us=50.0, cost_usd=0.25)


def test_a_run_is_a_tree(traced):
    whole_run(traced)
    spans = {span.name: span for span in traced.close()}
    run, iteration = spans["accelopt run"], spans["iteration 1"]
    assert run.parent is None
    assert iteration.parent.span_id == run.context.span_id
    assert spans["chat gpt-5-mini"].parent.span_id == iteration.context.span_id
    assert len({span.context.trace_id for span in spans.values()}) == 1
    baseline, child = (
        span for span in traced.exporter.get_finished_spans() if span.name == "evaluate"
    )
    assert baseline.parent.span_id == run.context.span_id
    assert child.parent.span_id == iteration.context.span_id


def test_the_run_span(traced):
    whole_run(traced)
    run = only(traced.named("accelopt run"))
    assert values(run, "accelopt.run", "accelopt.task", "accelopt.iterations") == (
        "r1",
        "bench/silu",
        1,
    )
    assert values(run, "accelopt.resumed", "accelopt.cost_usd") == (False, 0.25)
    assert run.status.status_code is StatusCode.OK
    assert (run.start_time, run.end_time) == (1001 * 10**9, round(traced.now_s * 10**9))
    assert values(run, "accelopt.backend") == (None,)


def test_task_backend_and_graph_are_taken_where_they_are_told(traced):
    traced.tell("run_started", task="t", backend="sim-trn1", graph="optimize", message="t")
    run = only(traced.named("accelopt run"))
    assert values(run, "accelopt.task", "accelopt.backend", "accelopt.graph") == (
        "t",
        "sim-trn1",
        "optimize",
    )


def test_a_model_call(traced):
    whole_run(traced)
    call = only(traced.named("chat gpt-5-mini"))
    assert call.kind is SpanKind.CLIENT
    assert dict(call.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "accelopt.role": "planner",
        "accelopt.slot": "i1-c0-p0",
        "accelopt.cost_usd": 0.25,
        "accelopt.cached": False,
        "accelopt.status": "ok",
    }
    failed = only(call.events)
    assert (failed.name, dict(failed.attributes)) == (
        "model_call_failed",
        {"error.type": "rate_limit"},
    )
    # A try that failed is not a call that failed.
    assert call.status.status_code is StatusCode.UNSET
    assert call.end_time - call.start_time == 2 * 10**9


def test_a_call_that_failed_for_good(traced):
    call = {"role": "executor", "slot": "s", "iteration": 1}
    traced.tell("model_call_started", model="anthropic:claude", **call)
    traced.tell("model_call_failed", failure="timeout", **call)
    traced.tell("model_call_finished", status="failed", message="secret", **call)
    span = only(traced.named("chat claude"))
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "timeout")
    assert span.attributes["error.type"] == "timeout"


def test_calls_at_once_are_told_apart_by_their_slots(traced):
    for slot in ("a", "b"):
        traced.tell("model_call_started", slot=slot, role="planner", iteration=1, model="x:m")
    for slot, tokens in (("a", 1), ("b", 2)):
        traced.tell(
            "model_call_finished", slot=slot, iteration=1, status="ok", output_tokens=tokens
        )
    found = {
        values(s, "accelopt.slot", "gen_ai.usage.output_tokens") for s in traced.named("chat m")
    }
    assert found == {("a", 1), ("b", 2)}


def test_journalled_answers_and_known_evaluations_have_no_start(traced):
    traced.tell("run_resumed", message="t")
    traced.tell(
        "model_call_finished", slot="a", iteration=2, status="ok", cached=True, model="openai:m"
    )
    traced.tell("evaluation_finished", candidate="c", iteration=2, status="ok", cached=True)
    spans = {span.name: span for span in traced.close()}
    for name in ("chat m", "evaluate"):
        assert spans[name].attributes["accelopt.cached"] is True
        assert spans[name].start_time == spans[name].end_time
        assert spans[name].parent.span_id == spans["iteration 2"].context.span_id
    assert spans["accelopt run"].attributes["accelopt.resumed"] is True


def test_a_server_address_stays_at_home(traced):
    label = "openai:m@http://user:password@host/v1"
    traced.tell("model_call_finished", slot="a", iteration=1, status="ok", model=label)
    span = only(traced.named("chat m"))
    assert "password" not in span.to_json()
    assert span.attributes["gen_ai.request.model"] == "m"


def test_the_offline_model_and_googles_name(traced):
    traced.tell("model_call_finished", slot="a", iteration=1, status="ok", model="rewriter")
    traced.tell("model_call_finished", slot="b", iteration=1, status="ok", model="google_genai:g")
    names = ("gen_ai.provider.name", "gen_ai.request.model")
    found = {values(span, *names) for span in traced.close() if span.name.startswith("chat")}
    assert found == {("rewriter", "rewriter"), ("gcp.gemini", "g")}


def test_an_evaluation(traced):
    whole_run(traced)
    _, child = traced.named("evaluate")
    assert dict(child.attributes) == {
        "accelopt.candidate": "i1-c0-p0-s0",
        "accelopt.parent": "baseline",
        "accelopt.status": "ok",
        "accelopt.latency_us": 50.0,
        "accelopt.speedup": 2.0,
        "accelopt.percent_of_peak": 40.0,
        "accelopt.cached": False,
    }


def test_a_kernel_that_fails_is_no_error(traced):
    traced.tell("evaluation_finished", candidate="c", iteration=1, status="incorrect")
    span = only(traced.named("evaluate"))
    assert span.attributes["accelopt.status"] == "incorrect"
    assert span.status.status_code is StatusCode.UNSET


def test_the_beam_is_an_event_of_its_iteration_and_ends_it(traced):
    whole_run(traced)
    span = only(traced.named("iteration 1"))
    assert [event.name for event in span.events] == ["experience_added", "beam_selected"]
    assert span.events[-1].attributes["accelopt.beam"] == ("i1-c0-p0-s0",)
    assert span.attributes["accelopt.beam"] == ("baseline",)
    assert span.end_time < only(traced.named("accelopt run")).end_time


def test_what_comes_after_an_iteration_goes_to_the_run(traced):
    traced.tell("iteration_started", iteration=1)
    traced.tell("beam_selected", iteration=1, beam=[])
    traced.tell("reply_unusable", iteration=1, slot="s", role="planner", failure="reply_format:x")
    run = only(traced.named("accelopt run"))
    assert only(run.events).attributes["error.type"] == "reply_format:x"
    assert len(traced.named("iteration 1")) == 1


def test_messages_stay_at_home(traced):
    whole_run(traced)
    traced.tell("warning", message="secret warning")
    assert "secret" not in json.dumps([span.to_json() for span in traced.close()])


@pytest.mark.parametrize(
    ("status", "code"), [("failed", StatusCode.ERROR), ("stopped", StatusCode.UNSET)]
)
def test_a_run_that_ended_early(traced, status, code):
    traced.tell("run_started", message="t")
    traced.tell("run_stopped", status=status, message="secret")
    run = only(traced.named("accelopt run"))
    assert run.status.status_code is code
    assert run.attributes["accelopt.status"] == status


def test_what_is_under_way_at_the_end_is_ended(traced):
    traced.tell("model_call_started", slot="a", iteration=1, model="x:hopeless")
    traced.tell("model_call_failed", slot="a", iteration=1, failure="bad_key")
    traced.tell("model_call_started", slot="b", iteration=1, model="x:stopped")
    traced.tell("evaluation_started", candidate="c", iteration=1)
    spans = {span.name: span for span in traced.close()}
    assert len(spans) == 5
    for name in ("chat hopeless", "chat stopped", "evaluate"):
        assert spans[name].attributes["accelopt.unfinished"] is True
    assert spans["chat hopeless"].status.status_code is StatusCode.ERROR
    assert spans["chat stopped"].status.status_code is StatusCode.UNSET


def test_a_second_start_ends_the_first(traced):
    for _ in range(2):
        traced.tell("model_call_started", slot="a", iteration=1, model="x:m")
        traced.tell("evaluation_started", candidate="c", iteration=1)
    assert len(traced.named("chat m")) == 2
    assert len(traced.named("evaluate")) == 2


def test_an_unknown_kind_is_passed_over(traced):
    traced.tell("something_new", iteration=1)
    assert traced.close() == ()


def test_nothing_global_is_touched(traced):
    before = trace.get_tracer_provider()
    whole_run(traced)
    traced.close()
    assert trace.get_tracer_provider() is before


def test_a_span_of_somebody_else_is_not_our_parent(traced):
    theirs = Trace()
    theirs.tell("run_started")
    with trace.use_span(trace.NonRecordingSpan(only(theirs.named("accelopt run")).context)):
        traced.tell("run_started")
    assert only(traced.named("accelopt run")).parent is None


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (COLLECTOR, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        ({**COLLECTOR, "OTEL_SDK_DISABLED": "True"}, False),
        ({**COLLECTOR, "OTEL_SDK_DISABLED": "false"}, True),
        ({**COLLECTOR, "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_only_opentelemetrys_variables_turn_it_on(monkeypatch, variables, asked):
    assert is_asked_for(variables) is asked
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert isinstance(make_observer(), OpenTelemetryObserver) is asked


def test_without_them_nothing_is_imported():
    code = (
        "import sys; from accelopt_graphs.otel_observer import make_observer; o = make_observer();"
        "o.observe({'kind': 'run_started', 'time_s': 1.0, 'run': 'r'}); o.close();"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class FakeStore:
    run_id = "r1"

    def __init__(self):
        self.events = []

    def append_event(self, event):
        self.events.append(event)


def warnings_of(observer):
    store = FakeStore()
    hub = EventHub(store, [observer])
    hub.emit("run_started")
    hub.emit("run_finished")
    hub.close()
    return [event["message"] for event in store.events if event["kind"] == "warning"]


def test_a_missing_package_is_one_warning_and_the_run_goes_on(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    real = builtins.__import__

    def without_exporter(name, *arguments, **more):
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without_exporter)
    message = only(warnings_of(make_observer()))
    assert "pip install 'accelopt[otel]'" in message
    assert "\n" not in message
    with pytest.raises(ConfigError):
        make_observer().observe({"kind": "run_started", "time_s": 1.0, "run": "r"})


def test_grpc_is_one_warning(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in only(warnings_of(make_observer()))


class Collector(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    daemon_threads = True

    def __init__(self, hold_s=0.0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hold_s = hold_s
        self.posts = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, self.headers["Content-Type"], body))
        time.sleep(self.server.hold_s)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def collector(monkeypatch):
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def send(observer, caplog):
    """Run an observer to its end: how long closing took, and what was logged."""
    traced = Trace()
    traced.observer = observer
    whole_run(traced)
    started_s = time.monotonic()
    observer.close()
    took_s = time.monotonic() - started_s
    observer.close()
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("accelopt")]
    return took_s, ours


def test_spans_arrive_over_http(collector, monkeypatch, caplog):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    took_s, logged = send(make_observer(), caplog)
    assert took_s < 3
    assert logged == []
    path, kind, body = only(collector.posts)
    assert (path, kind) == ("/v1/traces", "application/x-protobuf")
    sent = only(ExportTraceServiceRequest.FromString(body).resource_spans)
    service = {a.key: a.value.string_value for a in sent.resource.attributes}["service.name"]
    assert service == "accelopt"
    spans = only(sent.scope_spans).spans
    assert sorted(span.name for span in spans) == [
        "accelopt run",
        "chat gpt-5-mini",
        "evaluate",
        "evaluate",
        "iteration 1",
    ]
    assert b"secret" not in body


def test_the_service_name_is_the_users(collector, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "night-run")
    send(make_observer(), caplog)
    assert b"night-run" in only(collector.posts)[2]


def test_an_unreachable_collector_neither_blocks_nor_raises(monkeypatch, caplog, capfd):
    # Nobody listens on a port that was just given back.
    with Collector() as server:
        port = server.server_port
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    took_s, logged = send(make_observer(), caplog)
    assert took_s < 5
    assert len(logged) == 1
    assert "OpenTelemetry: the collector" in logged[0]


def test_a_collector_that_never_answers_is_not_waited_for(collector, caplog):
    collector.hold_s = 2.0
    took_s, logged = send(OpenTelemetryObserver(flush_s=0.3), caplog)
    assert took_s < 1.5
    assert logged == ["OpenTelemetry: the collector is slow; some spans were not sent"]


@pytest.mark.parametrize("broken", ["raises", "refuses"])
def test_an_exporter_that_breaks_is_one_line(caplog, broken):
    class Broken(InMemorySpanExporter):
        def export(self, spans):
            if broken == "raises":
                raise ValueError("broken")
            return SpanExportResult.FAILURE

    _, logged = send(OpenTelemetryObserver(Broken), caplog)
    assert logged == ["OpenTelemetry: the collector did not take all spans of this run"]


def test_closing_without_an_event_is_fine():
    OpenTelemetryObserver().close()


def test_a_real_run(lab, traced):
    result = lab.run(observers=(traced.observer,))
    spans = traced.exporter.get_finished_spans()
    run = only([span for span in spans if span.name == "accelopt run"])
    assert run.status.status_code is StatusCode.OK
    chats = [span for span in spans if span.attributes.get("gen_ai.operation.name") == "chat"]
    assert len(chats) == result.model_calls
    assert not any(span.attributes.get("accelopt.unfinished") for span in spans)
    assert {span.name for span in spans} >= {"iteration 1", "iteration 2", "evaluate"}
    by_id = {span.context.span_id for span in spans}
    assert all(span.parent is None or span.parent.span_id in by_id for span in spans)
