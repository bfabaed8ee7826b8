"""Every test runs offline, with a data folder of its own and without the user's settings."""

from __future__ import annotations

import os
import socket

import pytest

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path_factory):
    """Clear what would change a run, and keep the shared memory out of the user's home."""
    for name in list(os.environ):
        if name.startswith(("ACCELOPT_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ACCELOPT_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Refuse every connection that leaves this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def check(sock, address):
        if sock.family == getattr(socket, "AF_UNIX", None):
            return
        host = str(address[0]) if isinstance(address, tuple) else str(address)
        if not host.startswith(_LOOPBACK):
            raise AssertionError(f"a test tried to reach {address!r}")

    def guarded(sock, address):
        check(sock, address)
        return connect(sock, address)

    def guarded_ex(sock, address):
        check(sock, address)
        return connect_ex(sock, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_ex)
