"""What each way in which a model server fails is taken for."""

from __future__ import annotations

import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from accelopt.errors import BudgetExhaustedError, ConfigError
from accelopt.models import ModelSettings
from accelopt.testing.chat_replies import (
    Cut,
    EmptyChoices,
    ErrorInBody,
    Hang,
    Html,
    MalformedJson,
    NullChoices,
    Status,
)
from accelopt.testing.chat_server import ScriptedChatServer
from accelopt_graphs.model_errors import (
    CutStreamError,
    MalformedResponseError,
    ReportedError,
    failure_kind,
    judge,
    refuses_temperature,
    retry_after_s,
)
from accelopt_graphs.openai_models import OpenAIModels

CASES = [
    (Status(429), "rate_limit", "passing"),
    (Status(429, code="insufficient_quota"), "rate_limit", "run"),
    (Status(500), "server_error", "passing"),
    (Status(503), "server_error", "passing"),
    (Status(529), "server_error", "passing"),
    (Status(408), "timeout", "passing"),
    (Status(400), "request_refused", "call"),
    (Status(409), "request_refused", "passing"),
    (Status(422), "request_refused", "call"),
    (Status(401), "authentication", "run"),
    (Status(403), "authentication", "run"),
    (Status(404), "not_found", "run"),
    (Hang(), "timeout", "passing"),
    (Cut(), "cut_stream", "passing"),
    (Cut(clean=False), "cut_stream", "passing"),
    (MalformedJson(), "malformed_response", "passing"),
    (EmptyChoices(), "malformed_response", "passing"),
    (NullChoices(), "malformed_response", "passing"),
    (Html(), "malformed_response", "passing"),
    (ErrorInBody(code=500), "server_error", "passing"),
    (ErrorInBody(code="429"), "rate_limit", "passing"),
    (ErrorInBody(code=None), "server_error", "passing"),
    (ErrorInBody(code=400), "request_refused", "call"),
]


def error_of(reply, *, stream=False):
    with ScriptedChatServer(lambda request: reply) as server:
        timeout_s = 0.3 if isinstance(reply, Hang) else 10
        how = ModelSettings(base_url=server.base_url, timeout_s=timeout_s, stream=stream)
        with pytest.raises(Exception) as caught:
            OpenAIModels().create("m", how).invoke("hi")
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("reply", "kind", "verdict"), CASES)
def test_each_failure_has_its_kind_and_its_verdict(reply, kind, verdict, stream):
    error = error_of(reply, stream=stream)
    assert (failure_kind(error), judge(error)) == (kind, verdict)


def test_a_server_that_is_not_there_is_a_connection_failure():
    how = ModelSettings(base_url="http://127.0.0.1:1/v1", timeout_s=10)
    with pytest.raises(Exception) as caught:
        OpenAIModels().create("m", how).invoke("hi")
    assert (failure_kind(caught.value), judge(caught.value)) == ("connection", "passing")


def named(name, **attributes):
    error = type(name, (Exception,), {})()
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            named("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 429}}),
            "rate_limit",
        ),
        (named("HTTPStatusError", response=SimpleNamespace(status_code=503)), "server_error"),
        (named("GoogleAPICallError", code=403), "authentication"),
        (caused(named("ChatError"), named("ServerError", code=500)), "server_error"),
        (named("ReadTimeoutError"), "timeout"),
        (named("ThrottlingException"), "rate_limit"),
        (named("OverloadedError"), "rate_limit"),
        (named("EndpointConnectionError"), "connection"),
        (named("RemoteProtocolError"), "connection"),
        (named("Other", code=7), "other"),
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "connection"),
        (CutStreamError("cut"), "cut_stream"),
        (MalformedResponseError("odd"), "malformed_response"),
        (ReportedError("died"), "server_error"),
        (IndexError("list index out of range"), "malformed_response"),
        (AttributeError("'NoneType' object has no attribute 'content'"), "malformed_response"),
        (RuntimeError("boom"), "other"),
    ],
)
def test_other_clients_errors_have_a_kind_too(error, kind):
    assert failure_kind(error) == kind


def test_errors_that_go_round_in_circles_are_no_trap():
    first, second = named("One"), named("Two")
    caused(first, caused(second, first))
    assert failure_kind(first) == "other"


def test_the_budget_and_the_settings_end_the_run():
    assert judge(BudgetExhaustedError("spent")) == judge(ConfigError("no key")) == "run"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT",
                "date": "Wed, 21 Oct 2026 07:29:00 GMT",
            },
            None,
        ),
    ],
)
def test_the_wait_that_a_server_asks_for(headers, seconds):
    error = named("Busy", response=SimpleNamespace(headers=headers))
    assert retry_after_s(error) == seconds


def test_a_date_without_the_servers_clock_goes_by_ours():
    in_an_hour = formatdate(time.time() + 3600, usegmt=True)
    error = named("Busy", response=SimpleNamespace(headers={"retry-after": in_an_hour}))
    assert retry_after_s(error) == pytest.approx(3600, abs=60)


def test_the_wait_comes_over_http():
    assert retry_after_s(error_of(Status(429, retry_after=3))) == 3.0
    assert retry_after_s(error_of(Status(503, headers={"retry-after-ms": "1500"}))) == 1.5
    assert retry_after_s(error_of(Status(429))) is None


@pytest.mark.parametrize(
    ("status", "message", "refused"),
    [
        (400, "Unsupported value: 'temperature' does not support 0.5 with this model.", True),
        (400, "Unsupported parameter: 'temperature' is not supported with this model.", True),
        (400, "`temperature` may only be set to 1 when thinking is enabled.", True),
        (400, "`temperature` is deprecated for this model.", True),
        (400, "temperature must be between 0 and 2", False),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model.", False),
        (500, "'temperature' is not supported", False),
    ],
)
def test_a_model_that_takes_no_temperature_says_so(status, message, refused):
    assert refuses_temperature(error_of(Status(status, message))) is refused
