"""Calls that must end in time."""

from __future__ import annotations

import contextvars
import threading

import pytest

from accelopt.models import ModelSettings
from accelopt.testing.chat_replies import Dribble
from accelopt.testing.chat_server import ScriptedChatServer
from accelopt_graphs.deadline import CallTimeoutError, call_within
from accelopt_graphs.model_errors import failure_kind, judge
from accelopt_graphs.openai_models import OpenAIModels
from accelopt_graphs.stopping import RunStoppedError, StopSignal

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


@pytest.fixture
def asked():
    return threading.Event()


@pytest.fixture
def stop(asked):
    return StopSignal(asked)


@pytest.fixture
def release():
    """What a hanging function waits for."""
    made = threading.Event()
    yield made
    made.set()


def test_the_value_comes_through(stop):
    assert call_within(10, lambda: 42, stop) == 42
    assert call_within(10, lambda: None, stop) is None


@pytest.mark.parametrize("error", [ValueError("bad"), TimeoutError("its own"), SystemExit(3)])
def test_an_error_of_the_function_comes_out_unchanged(stop, error):
    def fail():
        raise error

    with pytest.raises(type(error)) as caught:
        call_within(10, fail, stop)
    assert caught.value is error


def test_the_function_sees_the_callers_context(stop):
    VARIABLE.set("set")
    assert call_within(10, VARIABLE.get, stop) == "set"
    call_within(10, lambda: VARIABLE.set("changed"), stop)
    assert VARIABLE.get() == "set"


def test_a_call_that_takes_too_long_is_left_to_itself(stop, release):
    with pytest.raises(CallTimeoutError, match=r"longer than 0\.05 s") as caught:
        call_within(0.05, lambda: release.wait(30), stop)
    assert (failure_kind(caught.value), judge(caught.value)) == ("timeout", "passing")
    [thread] = [t for t in threading.enumerate() if t.name == "model-call"]
    assert thread.daemon
    release.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_stop_ends_the_wait(stop, asked, release):
    threading.Timer(0.02, asked.set).start()
    with pytest.raises(RunStoppedError):
        call_within(30, lambda: release.wait(30), stop)


def test_a_call_in_flight_may_use_its_grace(stop, asked, release):
    def answer():
        asked.set()
        release.wait(0.3)
        return "paid for"

    assert call_within(30, answer, stop, grace_s=20) == "paid for"


def test_a_grace_is_no_extension(stop, asked, release):
    def answer():
        asked.set()
        release.wait(30)

    with pytest.raises(CallTimeoutError):
        call_within(0.2, answer, stop, grace_s=20)


def test_nothing_starts_after_a_stop(stop, asked):
    asked.set()
    started = []
    with pytest.raises(RunStoppedError):
        call_within(10, lambda: started.append(1), stop, grace_s=10)
    assert started == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_dribbles_can_not_hold_a_call(stop, stream):
    with ScriptedChatServer(lambda request: Dribble(0.02)) as server:
        how = ModelSettings(base_url=server.base_url, timeout_s=0.3, stream=stream)
        model = OpenAIModels().create("m", how)
        with pytest.raises(CallTimeoutError):
            call_within(0.5, lambda: model.invoke("hi"), stop)
        assert len(server.requests) == 1
