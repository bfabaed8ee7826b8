"""Parts of the graph package: drawing, plugin door, messages, errors, models."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from accelopt.errors import BudgetExhaustedError, ConfigError
from accelopt.models import ModelSettings
from accelopt.plugins import collect, plugin_manager
from accelopt.prompts import render
from accelopt.requests import REQUEST_KEY, ExecuteRequest, ProblemFacts, parse_request
from accelopt_graphs import plugin
from accelopt_graphs.build import build_graph
from accelopt_graphs.mermaid import draw
from accelopt_graphs.messages import messages
from accelopt_graphs.model_errors import judge, one_line, retry_after_s
from accelopt_graphs.openai_models import OpenAIModels
from accelopt_graphs.state import gather
from accelopt_graphs.stopping import RunStoppedError, StopSignal
from accelopt_graphs.studio import make_graph

MERMAID = """\
---
config:
  flowchart:
    curve: linear
---
graph TD;
	__start__([<p>__start__</p>]):::first
	baseline(baseline)
	recall(recall)
	planner(planner)
	dispatch(dispatch)
	curate(curate)
	summarizer(summarizer)
	memory(memory)
	beam_selection(beam_selection)
	__end__([<p>__end__</p>]):::last
	__start__ -.-> baseline;
	__start__ -.-> recall;
	attempt\\3a__end__ --> curate;
	baseline --> recall;
	beam_selection -.-> __end__;
	beam_selection -.-> recall;
	curate -.-> memory;
	curate -.-> summarizer;
	dispatch -.-> attempt\\3aexecutor;
	dispatch -.-> curate;
	memory --> beam_selection;
	planner --> dispatch;
	recall -.-> planner;
	summarizer --> memory;
	subgraph attempt
	attempt\\3aexecutor(executor)
	attempt\\3aevaluate(evaluate)
	attempt\\3afixer(fixer)
	attempt\\3a__end__(<p>__end__</p>)
	attempt\\3aevaluate -.-> attempt\\3a__end__;
	attempt\\3aevaluate -.-> attempt\\3afixer;
	attempt\\3aexecutor -.-> attempt\\3a__end__;
	attempt\\3aexecutor -.-> attempt\\3aevaluate;
	attempt\\3afixer -.-> attempt\\3a__end__;
	attempt\\3afixer -.-> attempt\\3aevaluate;
	end
	classDef default fill:#f2f0ff,line-height:1.2
	classDef first fill-opacity:0
	classDef last fill:#bfb6fc
"""


def test_mermaid_text_is_pinned():
    assert draw(build_graph(), "optimize") == MERMAID


def test_studio_entry_gives_the_compiled_graph():
    assert set(make_graph().get_graph().nodes) >= {"planner", "attempt", "beam_selection"}


def test_plugin_registers_graph_models_and_embedder():
    manager = plugin_manager(load_entry_points=False)
    manager.register(plugin, name="graphs")
    registry = collect(manager)
    assert registry.graph("optimize").mermaid() == MERMAID
    assert registry.embedder("hashed-tokens").dimension == 512
    assert {"openai", "anthropic", "langchain"} <= set(registry.chat_models)


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("accelopt_graphs.plugin", "langgraph langchain_core chromadb langchain_openai"),
        ("accelopt.run_store", "langgraph langchain_core chromadb"),
        ("accelopt.memory", "langgraph langchain_core chromadb"),
        ("accelopt.testing", "langgraph langchain_core chromadb"),
        ("accelopt_graphs.provider", "chromadb langchain_openai"),
    ],
)
def test_importing_stays_light(module, forbidden):
    code = (
        f"import sys, {module}\n"
        f"loaded = [n for n in {forbidden.split()!r} if n in sys.modules]\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_messages_carry_the_request_and_rendering_it_gives_the_text():
    problem = ProblemFacts(
        task="t",
        device="d",
        dialect="nki",
        reference_source="x",
        arguments=(),
        output_shape=(1,),
        relative_l2_tolerance=1e-5,
    )
    request = ExecuteRequest(problem=problem, kernel="k {{plan}}", plan="p", index=3, seed=4)
    system, human = messages(request)
    carried = parse_request(human.additional_kwargs[REQUEST_KEY])
    assert carried == request
    prompt = render(carried)
    assert (system.content, human.content) == (prompt.system, prompt.user)


def error_with(status):
    error = RuntimeError("no")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (error_with(429), "passing"),
        (error_with(500), "passing"),
        (error_with(503), "passing"),
        (error_with(400), "call"),
        (error_with(401), "run"),
        (error_with(404), "run"),
        (TimeoutError(), "passing"),
        (ConnectionResetError(), "passing"),
        (ValueError("not JSON"), "passing"),
        (type("APIConnectionError", (Exception,), {})(), "passing"),
        (RuntimeError("boom"), "call"),
        (BudgetExhaustedError("spent"), "run"),
        (ConfigError("no key"), "run"),
    ],
)
def test_errors_are_passing_or_cost_a_call_or_the_run(error, verdict):
    assert judge(error) == verdict


def test_retry_after_is_read_from_the_response():
    error = RuntimeError("busy")
    assert retry_after_s(error) is None
    error.response = type("Response", (), {"headers": {"retry-after": "2.5"}})()
    assert retry_after_s(error) == 2.5
    error.response.headers["retry-after"] = "Wed, 21 Oct 2026 07:28:00 GMT"
    assert retry_after_s(error) is None


def test_an_error_for_people_is_one_line():
    assert one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert one_line(ValueError()) == "ValueError"


def test_gather_appends_and_starts_anew():
    assert gather([{"id": "a"}], [{"id": "b"}]) == [{"id": "a"}, {"id": "b"}]
    assert gather([{"id": "a"}], None) == []
    assert gather(None, [{"id": "a"}]) == [{"id": "a"}]


def test_openai_without_key_or_server_is_one_clear_line():
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        OpenAIModels().create("gpt-oss-120b", ModelSettings())
    assert "\n" not in str(caught.value)


def test_openai_needs_a_model_name():
    with pytest.raises(ConfigError, match="name"):
        OpenAIModels().create("", ModelSettings(base_url="http://127.0.0.1:1/v1"))


def test_openai_with_a_server_needs_no_key():
    model = OpenAIModels().create(
        "local", ModelSettings(base_url="http://127.0.0.1:1/v1", temperature=0.5, seed=7)
    )
    assert model.openai_api_key.get_secret_value() == "none"
    assert model.temperature == 0.5
    assert model.max_retries == 0
    assert model.seed is None


def test_openai_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model = OpenAIModels().create("gpt", ModelSettings())
    assert model.openai_api_key.get_secret_value() == "sk-test"


def test_the_first_failure_ends_the_steps_that_have_not_begun_and_is_kept():
    stop = StopSignal(threading.Event())
    stop.check()
    first = RuntimeError("first")
    stop.break_off(first)
    stop.break_off(RuntimeError("second"))
    assert stop.error is first
    with pytest.raises(RunStoppedError):
        stop.check()


def test_a_failure_is_reported_even_when_the_graph_reports_the_steps_it_stopped(lab, monkeypatch):
    def search(self, run):
        run.stop.break_off(RuntimeError("the device fell off"))
        raise RunStoppedError

    monkeypatch.setattr("accelopt_graphs.provider.SearchGraph._search", search)
    store = lab.store()
    with pytest.raises(RuntimeError, match="fell off"):
        lab.run(store)
    assert store.status == "failed"


def test_waiting_before_a_retry_ends_when_somebody_asks_to_stop():
    asked = threading.Event()
    threading.Timer(0.05, asked.set).start()
    with pytest.raises(RunStoppedError):
        StopSignal(asked).sleep(30)
