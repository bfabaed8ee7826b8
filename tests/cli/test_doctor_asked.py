"""`accelopt doctor` on named backends and models: only these can fail, and each names a fix."""

from __future__ import annotations

import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from accelopt import doctor
from accelopt.doctor import Check, run_checks
from accelopt.plugins import installed
from accelopt.testing.backend import DummyBackend
from accelopt_graphs import endpoint_check as endpoint_check_module
from accelopt_graphs.endpoint_check import Server, endpoint_check


class Healthy(DummyBackend):
    """Says what it tries."""

    def health(self, progress=lambda text: None):
        progress("a known answer")
        return [Check(name="known answer", state="ok", detail="right")]


class Absent(DummyBackend):
    """Is not here."""

    def unavailable(self):
        return "no chip"


@pytest.fixture
def backends(monkeypatch):
    registry = installed()
    monkeypatch.setattr(registry, "checks", {})
    monkeypatch.setitem(registry.backends, "healthy", Healthy)
    monkeypatch.setitem(registry.backends, "absent", Absent)


@pytest.fixture
def server():
    """A server whose answer to /models is `server.answer`: a status, and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = http.answer
            http.keys.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    http.keys = []
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    yield http
    http.shutdown()
    thread.join()
    http.server_close()


def ask(http, answer, *, key=""):
    http.answer = answer
    url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    return endpoint_check("m", Server(url, key or "none", bool(key), "OPENAI_API_KEY"))


def test_a_named_backend_is_tried(accelopt, backends):
    result = accelopt("doctor", "--backend", "healthy")
    assert result.code == 0
    assert "known answer" in result.out
    assert "a known answer" in result.err


def test_a_backend_that_is_absent_fails_only_when_it_is_named(accelopt, backends):
    assert accelopt("doctor").code == 0
    result = accelopt("doctor", "--backend", "absent", "--json")
    assert result.code == 1
    last = result.data["checks"][-1]
    assert (last["state"], last["detail"]) == ("fail", "no chip")
    assert last["fix"]


def test_an_unknown_backend_is_bad_input(accelopt, backends):
    result = accelopt("doctor", "--backend", "healty")
    assert result.code == 2
    assert "healty" in result.err
    assert "healthy" in result.err


def test_without_a_chip_the_real_backends_fail_only_when_named(accelopt, monkeypatch):
    # The isolation of workers takes its time, and has its own test.
    kept = {name: c for name, c in installed().checks.items() if name != "worker isolation"}
    monkeypatch.setattr(installed(), "checks", kept)
    assert accelopt("doctor").code == 0
    result = accelopt("doctor", "--backend", "trn1", "--json")
    assert result.code == 1
    failed = [check for check in result.data["checks"] if check["state"] == "fail"]
    assert {check["group"] for check in failed} == {"backend trn1"}
    assert all(check["fix"] for check in failed)


def test_the_offline_model_needs_no_endpoint(accelopt, backends):
    result = accelopt("doctor", "--model", "rewriter", "--json")
    assert result.code == 0
    assert result.data["checks"][-1]["detail"] == "needs no endpoint"


def test_a_model_of_an_unknown_provider_is_bad_input(accelopt, backends):
    assert accelopt("doctor", "--model", "nobody:m").code == 2
    assert accelopt("doctor", "--base-url", "http://127.0.0.1:1/v1").code == 2


def test_a_server_that_has_the_model(server):
    found = ask(server, (200, json.dumps({"data": [{"id": "m"}]})), key="sk-very-secret")
    assert found.state == "ok"
    assert server.keys == ["Bearer sk-very-secret"]
    assert "sk-very-secret" not in str(found)


def test_a_server_that_has_another_model_warns(server):
    found = ask(server, (200, json.dumps({"data": [{"id": "other"}]})))
    assert (found.state, "other" in found.detail) == ("warn", True)


def test_a_server_that_refuses_the_key_fails_and_names_the_variable(server):
    found = ask(server, (401, "{}"), key="sk-very-secret")
    assert found.state == "fail"
    assert "OPENAI_API_KEY" in found.fix
    assert "sk-very-secret" not in str(found)


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_a_listing_is_reachable(server, status):
    found = ask(server, (status, "{}"))
    assert (found.state, str(status) in found.detail) == ("ok", True)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ((403, "{}"), "fail"),
        ((500, "{}"), "fail"),
        ((429, "{}"), "warn"),
        ((200, "<html>"), "warn"),
    ],
)
def test_every_other_answer_of_a_server_names_a_fix(server, answer, state):
    found = ask(server, answer)
    assert (found.state, bool(found.fix)) == (state, True)


NOWHERE = Server("http://127.0.0.1:9/v1", "none", False, "OPENAI_API_KEY")


def test_nothing_listens():
    found = endpoint_check("m", NOWHERE)
    assert (found.state, found.fix) == ("fail", "start the server, or correct the base URL")


def test_a_host_name_that_is_not_known(monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = endpoint_check("m", Server("http://no.such.host/v1", "none", False, "OPENAI_API_KEY"))
    assert found.state == "fail"
    assert "DNS" in found.fix


def test_a_server_that_never_answers(monkeypatch):
    monkeypatch.setattr(endpoint_check_module, "LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        found = endpoint_check("m", Server(url, "none", False, "OPENAI_API_KEY"))
    assert (found.state, "no answer within 0.2 s" in found.detail) == ("fail", True)
    assert found.fix


def test_the_command_asks_the_server_with_the_key_and_shows_neither_key(
    accelopt, backends, server, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    server.answer = (200, json.dumps({"data": [{"id": "sk-very-secret"}]}))
    url = f"http://user:pass-word@127.0.0.1:{server.server_address[1]}/v1"
    result = accelopt("doctor", "--model", "openai:m", "--base-url", url, "--json")
    assert result.code == 0
    assert result.data["checks"][-1]["state"] == "warn"
    assert server.keys
    for secret in ("sk-very-secret", "pass-word"):
        assert secret not in result.out + result.err


@pytest.mark.parametrize(
    "model", ["openai:m", "anthropic:m", "bedrock_converse:m", "langchain:x:m"]
)
def test_a_model_that_lacks_a_key_or_a_package_fails_with_a_fix(
    accelopt, backends, model, monkeypatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    result = accelopt("doctor", "--model", model, "--json")
    failed = [check for check in result.data["checks"] if check["state"] == "fail"]
    assert result.code == 1
    assert failed
    assert all(check["fix"] for check in failed)
    if model in ("openai:m", "anthropic:m"):
        variable = f"{model.partition(':')[0].upper()}_API_KEY"
        assert any(variable in check["fix"] for check in failed)


def test_every_failure_of_the_installation_names_a_fix(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)

    def broken():
        raise RuntimeError("boom")

    found = run_checks({"mine": broken})
    failed = [check for group in found.values() for check in group if check.state == "fail"]
    assert {check.name for check in failed} >= {"python", "packages", "data folder", "mine"}
    assert all(check.fix for check in failed)
