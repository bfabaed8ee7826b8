"""The Python API: `accelopt.optimize`, its asynchronous twin, the result, the notebook's view."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import ModuleType

import pytest

import accelopt
from accelopt import session
from accelopt.config import RunConfig
from accelopt.errors import AcceloptError, ConfigError, TaskError, UnknownBackendError
from accelopt.models import Ensemble, Member, Role
from accelopt.notebook import NotebookProgress, in_notebook
from accelopt.run_store import RunStore
from accelopt.testing import (
    DummyBackend,
    RecordingObserver,
    ScriptedChatModel,
    dummy_kernel,
    dummy_task,
)

SMALL = {
    "beam_width": 2,
    "num_plans": 2,
    "iterations": 2,
    "memory": "none",
    "evaluation_cache": "none",
    "model_retries": 0,
}


def answering(name="", gate=None):
    """A model whose kernels halve the latency of the first plan and double that of the second."""

    def answer(request):
        if gate is not None:
            gate(request)
        match request.role:
            case "planner":
                return f"{name} plan {request.index}"
            case "executor":
                line = request.kernel.splitlines()[0]
                factor = 0.5 if request.plan.endswith("plan 0") else 2
                us = float(line.removeprefix("# latency_us: ")) * factor
                return f"```python\n{dummy_kernel(us, note=request.plan)}```"
            case _:
                return f"**Lesson**\nTimes {request.speedup:.1f}."

    return ScriptedChatModel(answer=answer)


@pytest.fixture
def optimize(tmp_path):
    """Optimize the dummy task on the dummy backend, with runs in a temporary folder."""

    def call(task=None, **arguments):
        defaults = {"backend": DummyBackend(), "runs_dir": tmp_path / "runs", "model": answering()}
        return accelopt.optimize(task or dummy_task(), **(defaults | SMALL | arguments))

    return call


# By name.


def test_a_task_by_its_name_on_the_simulator_with_the_offline_model(tmp_path):
    found = accelopt.optimize(
        "silu@small", runs_dir=tmp_path / "runs", iterations=1, num_plans=4, memory="none",
        evaluation_cache="none",
    )  # fmt: skip
    assert found.status == "finished"
    assert found.task.name == "nkibench/silu@small"
    assert found.speedup > 1
    assert found.best.latency_us < found.baseline.latency_us
    assert found.percent_of_peak(found.best) > found.percent_of_peak(found.baseline) > 0
    assert found.best_kernel.read_text().endswith(found.best.source.text)
    # The offline model is free, and its price is known.
    assert found.cost_usd == 0.0
    with RunStore.open(found.run_folder) as store:
        assert store.config.task == "silu@small"
        assert store.status == "finished"


def test_runs_stand_in_the_working_directory_by_default(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = accelopt.optimize(
        dummy_task(), backend=DummyBackend(), model=answering(), **(SMALL | {"iterations": 1})
    )
    assert found.run_folder.resolve().parent == tmp_path / "runs"


# By object.


def test_a_task_a_backend_and_a_model_may_be_objects(optimize):
    backend, chat = DummyBackend(), answering()
    found = optimize(backend=backend, model=chat)
    assert found.status == "finished"
    assert (found.baseline.latency_us, found.best.latency_us, found.speedup) == (100, 25, 4)
    assert found.result.model_calls == chat.calls > 0
    assert found.result.evaluations == backend.calls.estimate > 0
    with RunStore.open(found.run_folder) as store:
        assert (store.config.backend, store.task_name) == ("dummy", "dummy/doubling")
        assert store.config.planner_model == "scripted"


def test_a_backend_that_was_given_stays_open(optimize):
    class Closing(DummyBackend):
        closed = 0

        def close(self):
            self.closed += 1
            super().close()

    backend = Closing()
    optimize(backend=backend)
    optimize(backend=backend)
    assert backend.closed == 0


def test_a_backend_that_was_named_is_closed(optimize, monkeypatch):
    closed = []

    class Closing(DummyBackend):
        def close(self):
            closed.append(self)
            super().close()

    monkeypatch.setitem(session.installed().backends, "dummy", Closing)
    optimize(backend="dummy")
    assert len(closed) == 1


@pytest.mark.parametrize("keys", [str, Role])
def test_roles_may_have_models_of_their_own(optimize, keys):
    models = {role: answering() for role in Role}
    optimize(model={keys(role): chat for role, chat in models.items()})
    for role, chat in models.items():
        assert {request.role for request in chat.requests} <= {role.value}
    assert models[Role.PLANNER].calls
    assert models[Role.EXECUTOR].calls


def test_a_role_that_is_not_named_gets_the_offline_model(optimize):
    planner = answering()
    found = optimize(model={"planner": planner}, iterations=1, num_plans=1)
    assert {request.role for request in planner.requests} == {"planner"}
    with RunStore.open(found.run_folder) as store:
        assert store.config.model_for(Role.EXECUTOR) == "rewriter"
        assert store.config.model_for(Role.PLANNER) == "scripted"


def test_the_model_of_a_role_may_be_given_as_a_setting(optimize):
    chat = answering()
    found = optimize(model=chat, summarizer_model="rewriter", iterations=1)
    assert {request.role for request in chat.requests} == {"planner", "executor"}
    with RunStore.open(found.run_folder) as store:
        assert store.config.summarizer_model == "rewriter"


def test_an_ensemble_shares_the_slots_of_a_role(optimize):
    members = tuple(Member(name, 1.0, answering(name)) for name in ("a", "b"))
    found = optimize(model={"planner": Ensemble(members), "executor": answering()}, num_plans=8)
    texts = {plan.text.split()[0] for plan in found.plans}
    assert texts == {"a", "b"}
    assert all(member.model.calls for member in members)
    with RunStore.open(found.run_folder) as store:
        assert store.config.planner_model == "a,b"


def test_settings_and_a_preset_reach_the_run(optimize):
    found = optimize(preset="quick", seed=7, num_plans=1, iterations=1)
    with RunStore.open(found.run_folder) as store:
        assert (store.config.preset, store.config.seed, store.config.num_plans) == ("quick", 7, 1)
        assert store.config.topk_experiences == RunConfig.load(preset="quick").topk_experiences


def test_observers_watch_and_are_closed(optimize):
    observer = RecordingObserver()
    optimize(observers=[observer])
    assert (observer.kinds()[0], observer.kinds()[-1]) == ("run_started", "run_finished")
    assert observer.closed == 1


# What can't be used.


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"beam_wdith": 3}, ConfigError, "unknown setting 'beam_wdith'"),
        ({"beam_width": 0}, ConfigError, "beam_width"),
        ({"preset": "fast"}, ConfigError, "unknown preset 'fast'"),
        ({"model": {"planer": "rewriter"}}, ConfigError, "unknown role 'planer'"),
        ({"model": "rewrit"}, ConfigError, "unknown model 'rewrit'"),
        ({"model": {"planner": "rewrit"}}, ConfigError, "unknown model 'rewrit'"),
        ({"graph": "optimise"}, ConfigError, "unknown graph 'optimise'"),
        ({"embedder": "none"}, ConfigError, "unknown embedder 'none'"),
        ({"budget_usd": 1.0}, ConfigError, "price of scripted"),
        ({"prices": "gone.toml"}, ConfigError, "gone.toml"),
        ({"backend": "sim-tm1"}, UnknownBackendError, "sim-tm1"),
        ({"task": "slu"}, TaskError, "unknown task 'slu'"),
        ({"task": "mine.py"}, ConfigError, "--reference"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_run_folder(optimize, tmp_path, arguments, kind, words):
    with pytest.raises(kind, match=words) as caught:
        optimize(**arguments)
    assert isinstance(caught.value, AcceloptError)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_baseline_that_is_wrong_is_an_error(optimize):
    with pytest.raises(AcceloptError, match="baseline of dummy/doubling is not correct"):
        optimize(dummy_task(baseline=dummy_kernel(100, status="incorrect")))


# The result.


def test_the_result_holds_candidates_plans_lessons_and_the_lineage_of_the_best(optimize):
    found = optimize()
    assert found.candidates[0] == found.baseline
    assert found.best in found.candidates
    assert {plan.id for plan in found.plans} >= {"i1-c0-p0", "i1-c0-p1", "i2-c0-p0"}
    line = found.lineage()
    assert [c.latency_us for c in line] == [100, 50, 25]
    assert (line[0], line[-1]) == (found.baseline, found.best)
    assert found.lineage(found.baseline) == [found.baseline]
    assert found.lineage(line[1]) == line[:2]
    assert {lesson.sign for lesson in found.experiences} == {"positive", "negative"}
    assert found.run_id == found.run_folder.name
    assert found.best_kernel.read_text().endswith(found.best.source.text)
    assert found.message == ""


PRICED = '[models]\n"scripted" = { input = 1, output = 2 }\n'


@pytest.mark.parametrize(("prices", "known"), [(PRICED, True), (PRICED.replace("ed", "e"), False)])
def test_the_cost_is_none_when_a_price_is_not_known(optimize, tmp_path, prices, known):
    path = tmp_path / "prices.toml"
    path.write_text(prices)
    found = optimize(prices=str(path))
    result = found.result
    expected = (result.input_tokens + 2 * result.output_tokens) / 1e6
    assert result.unpriced_calls == (0 if known else result.model_calls)
    assert found.cost_usd == (pytest.approx(expected) if known else None)


def test_one_unpriced_model_among_several_makes_the_cost_unknown(optimize):
    # The offline fixer and summarizer are free; the others are not known.
    found = optimize(model={"planner": answering(), "executor": answering()})
    assert 0 < found.result.unpriced_calls < found.result.model_calls
    assert found.result.cost_usd == 0.0
    assert found.cost_usd is None


def test_without_a_faster_kernel_the_baseline_is_the_best(optimize):
    found = optimize(
        model=ScriptedChatModel(answer=lambda request: "plan, and no code"), fixer_rounds=0
    )
    assert found.best == found.baseline
    assert (found.speedup, found.lineage()) == (1, [found.baseline])
    assert found.result.failures["reply_format:no_code"] > 0


def test_the_result_shows_itself_in_one_line(optimize):
    found = optimize()
    assert repr(found) == (
        f"<Optimization {found.run_id}: finished, dummy/doubling, 100.0 us -> 25.0 us>"
    )


def test_the_table_of_a_notebook_escapes_what_is_not_ours(optimize):
    found = optimize(dummy_task(name="dummy/<b>bold</b> & so on"))
    table = found._repr_html_()
    assert table.startswith("<table>")
    assert table.endswith("</table>")
    assert "dummy/&lt;b&gt;bold&lt;/b&gt; &amp; so on" in table
    assert "<b>" not in table
    for words in ("4.00x", "100.0 us", "25.0 us", "finished"):
        assert words in table


# Stopping.


def stopping_at(stop, role="executor"):
    """A gate that asks for a stop in the first call of a role."""
    return lambda request: stop.set() if request.role == role else None


def test_a_stop_gives_a_result_that_can_be_resumed(optimize):
    stop = threading.Event()
    found = optimize(model=answering(gate=stopping_at(stop)), stop=stop)
    assert found.status == "stopped"
    assert found.baseline.latency_us == 100
    assert repr(found).startswith(f"<Optimization {found.run_id}: stopped, ")
    assert_resumes(found.run_folder, found.result.model_calls)


def test_a_used_up_budget_gives_a_stopped_result_with_its_reason(optimize):
    found = optimize(max_evaluations=2)
    assert found.status == "stopped"
    assert "2 evaluations" in found.message
    assert "2 evaluations" in found._repr_html_()


def assert_resumes(folder, paid):
    """The run goes on, asks for nothing that is there, and ends as one that nothing disturbed."""
    with RunStore.open(folder) as store:
        assert store.status == "stopped"
        assert store.journal.counts().model_calls == paid
        chat = answering()
        models = dict.fromkeys(Role, Ensemble.of("scripted", chat))
        again = session.run_store(store, dummy_task(), backend=DummyBackend(), models=models)
    assert again.status == "finished"
    assert again.best.latency_us == 25
    assert paid + chat.calls == again.model_calls


# In an event loop.


def call_async(tmp_path, **arguments):
    defaults = {"backend": DummyBackend(), "runs_dir": tmp_path / "runs", "model": answering()}
    return accelopt.optimize_async(dummy_task(), **(defaults | SMALL | arguments))


def test_the_asynchronous_twin_gives_the_same(optimize, tmp_path):
    found = asyncio.run(call_async(tmp_path))
    assert found.status == "finished"
    expected = optimize()
    assert [c.latency_us for c in found.candidates] == [c.latency_us for c in expected.candidates]
    assert found.result.model_calls == expected.result.model_calls


def test_the_loop_goes_on_while_a_run_is_under_way(tmp_path):
    begun, go_on = threading.Event(), threading.Event()

    def gate(request):
        begun.set()
        assert go_on.wait(60)

    async def main():
        work = asyncio.create_task(call_async(tmp_path, model=answering(gate=gate)))
        await asyncio.to_thread(begun.wait, 60)
        assert not work.done()
        go_on.set()
        return await work

    assert asyncio.run(main()).status == "finished"


def test_cancelling_leaves_a_run_that_can_be_resumed(tmp_path):
    begun, go_on = threading.Event(), threading.Event()

    def gate(request):
        begun.set()
        assert go_on.wait(60)

    async def main():
        work = asyncio.create_task(call_async(tmp_path, model=answering(gate=gate)))
        await asyncio.to_thread(begun.wait, 60)
        work.cancel()
        await asyncio.sleep(0)
        # It waits for the step under way, whose answer is paid for.
        assert not work.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    [folder] = (tmp_path / "runs").iterdir()
    with RunStore.open(folder) as store:
        paid = store.journal.counts().model_calls
    assert paid > 0
    assert_resumes(folder, paid)


def test_an_error_comes_out_of_the_asynchronous_twin(tmp_path):
    with pytest.raises(ConfigError, match="beam_wdith"):
        asyncio.run(call_async(tmp_path, beam_wdith=3))


def test_a_run_that_breaks_while_it_is_cancelled_says_nothing_more(tmp_path):
    begun, go_on = threading.Event(), threading.Event()
    complaints = []

    class Breaking(DummyBackend):
        def estimate(self, task, source):
            begun.set()
            assert go_on.wait(60)
            raise RuntimeError("the device fell off")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda *given: complaints.append(given))
        work = asyncio.create_task(call_async(tmp_path, backend=Breaking()))
        await asyncio.to_thread(begun.wait, 60)
        work.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        del work

    asyncio.run(main())
    assert complaints == []


def test_the_plain_call_works_inside_a_running_loop(optimize):
    async def main():
        return optimize()

    assert asyncio.run(main()).best.latency_us == 25


# Progress.


@pytest.fixture
def notebook(monkeypatch):
    """What a fake notebook shows: the states of its one output."""
    shown = []

    class HTML:
        def __init__(self, data):
            self.data = data

    class Handle:
        def update(self, shown_next):
            shown.append(shown_next.data)

    def display(first, *, display_id):
        assert display_id is True
        shown.append(first.data)
        return Handle()

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    shell = type("ZMQInteractiveShell", (), {})()
    ipython.get_ipython = lambda: shell
    displays.HTML, displays.display = HTML, display
    ipython.display = displays
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return shown


def test_without_ipython_there_is_no_notebook(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    assert "IPython" not in sys.modules


def test_a_notebook_is_known_by_its_shell(notebook, monkeypatch):
    assert in_notebook()
    for shell in (type("TerminalInteractiveShell", (), {})(), None):
        monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda shell=shell: shell)
        assert not in_notebook()


def test_a_run_in_a_notebook_shows_a_table_that_ends_with_the_result(optimize, notebook):
    found = optimize(dummy_task(name="dummy/<i>x</i>"))
    first, last = notebook[0], notebook[-1]
    assert f"optimizing dummy/&lt;i&gt;x&lt;/i&gt; on dummy, run {found.run_id}" in first
    assert "0 of 2" in first
    assert "2 of 2" in last
    assert "25.0 us (4.00x" in last
    assert f"{len(found.experiences)} lessons" in last
    assert f"{found.result.model_calls} calls" in last
    assert "<i>" not in last


@pytest.mark.parametrize("progress", ["auto", False])
def test_progress_false_shows_nothing(optimize, notebook, progress):
    optimize(progress=progress)
    assert bool(notebook) == (progress == "auto")


@pytest.mark.parametrize(("progress", "tells"), [("auto", False), (True, True), (False, False)])
def test_outside_of_notebooks_and_terminals_lines_are_printed_when_asked_for(
    optimize, capfd, progress, tells
):
    optimize(progress=progress)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert ("iteration 2/2" in captured.err) == tells


def test_the_view_is_redrawn_at_most_some_times_a_second(notebook, monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr("accelopt.notebook.time.monotonic", lambda: now_s[0])
    view = NotebookProgress("title", RunConfig.load(iterations=3))
    event = {"kind": "iteration_started", "time_s": 0.0, "run": "r", "iteration": 1}
    for passed_s, states in ((0.0, 1), (0.1, 1), (0.3, 2), (0.4, 2), (0.6, 3)):
        now_s[0] = passed_s
        view.observe(event)
        assert len(notebook) == states
    view.close()
    assert len(notebook) == 4
