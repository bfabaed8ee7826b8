"""Whether an OpenAI-compatible server is there and has a model: asks for its list of models.

The client is the one of a run, so that proxies, certificates and headers are those of a run.
Nothing that the server or the client says is shown as it is: a key may stand in it.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from accelopt.doctor import Check
from accelopt.secrets import key_file, shown_url

LIMIT_S = 5.0
"""Seconds until a server counts as unreachable, the look-up of its name included."""

_NAME = "endpoint"
_UNAUTHORIZED = (401, 403)
_NO_LISTING = (404, 405, 501)
_BUSY = 429
_SHOWN_MODELS = 5
_LONGEST_NAME = 80

T = TypeVar("T")


@dataclass(frozen=True)
class Server:
    """A server as a run would call it.

    Attributes:
        base_url: None for OpenAI's own.
        key: what is sent as the key; also where there is none.
        has_key: whether it is one.
        key_variable: environment variable that a key comes from.
    """

    base_url: str | None
    key: str
    has_key: bool
    key_variable: str


def endpoint_check(model: str, server: Server) -> Check:
    """Ask the server for its models; takes `LIMIT_S` at most.

    Args:
        model: the server's name of the model.
        server: the server.
    """
    # Its import takes a second, which is not the server's fault.
    import openai

    where = shown_url(server.base_url) if server.base_url else "OpenAI's server"
    started_s = time.monotonic()
    try:
        text = _within(LIMIT_S, lambda: _listing(server))
    except openai.APIStatusError as error:
        return _refused(error.status_code, where, server)
    except Exception as error:  # noqa: BLE001 - whatever the client raises, the server is not there
        what, fix = _trouble(error)
        return Check(name=_NAME, state="fail", detail=f"{where}: {what}", fix=fix)
    return _listed(model, text, f"{where} answers in {time.monotonic() - started_s:.1f} s")


def _listing(server: Server) -> str:
    import openai

    with openai.OpenAI(
        api_key=server.key, base_url=server.base_url, timeout=LIMIT_S, max_retries=0
    ) as client:
        return client.models.with_raw_response.list().text


def _within(seconds: float, call: Callable[[], T]) -> T:
    """What `call` gives; its own limits do not hold while a name is looked up.

    Raises:
        TimeoutError: it takes longer.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    # Nobody waits for a thread that is a daemon, also not the end of the process.
    threading.Thread(target=work, name="endpoint-check", daemon=True).start()
    return answer.result(timeout=seconds)


def _listed(model: str, text: str, answers: str) -> Check:
    names = _names(text)
    if names is None:
        return Check(
            name=_NAME,
            state="warn",
            detail=f"{answers}, but with no list of models",
            fix="check the base URL; those of most servers end in /v1",
        )
    # Ollama takes a name for its newest version; Google puts a folder in front.
    if any(model in (name, name.removesuffix(":latest"), name.removeprefix("models/"))
           for name in names):  # fmt: skip
        return Check(name=_NAME, state="ok", detail=f"{answers} and has the model")
    shown = ", ".join(_plain(name) for name in names[:_SHOWN_MODELS]) or "none"
    more = f" and {len(names) - _SHOWN_MODELS} more" if len(names) > _SHOWN_MODELS else ""
    return Check(
        name=_NAME,
        state="warn",
        detail=f"{answers}, but does not list the model {model}; it has {shown}{more}",
        fix="use a name that it lists, or load the model there",
    )


def _names(text: str) -> list[str] | None:
    """The models of a listing; None for an answer that is none."""
    try:
        body: Any = json.loads(text)
    except ValueError:
        return None
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        return None
    return [str(entry["id"]) for entry in data if isinstance(entry, dict) and "id" in entry]


def _refused(status: int, where: str, server: Server) -> Check:
    if status in _NO_LISTING:
        detail = f"{where} answers, and lists no models ({status}): the name can't be checked"
        return Check(name=_NAME, state="ok", detail=detail)
    if status in _UNAUTHORIZED:
        what = f"refuses the key ({status})" if server.has_key else f"wants a key ({status})"
        fix = f"set {server.key_variable}, or this server's entry in {key_file()}, to a valid key"
        return Check(name=_NAME, state="fail", detail=f"{where} {what}", fix=fix)
    if status == _BUSY:
        return Check(
            name=_NAME,
            state="warn",
            detail=f"{where} answers, and takes no calls now ({status})",
            fix="wait, or look at the quota of the account",
        )
    return Check(
        name=_NAME,
        state="fail",
        detail=f"{where} answers with an error ({status})",
        fix="look into the server's log, and check the base URL",
    )


def _trouble(error: Exception) -> tuple[str, str]:
    """What is wrong with the connection, and what to do about it."""
    import openai

    causes = list(_causes(error))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if has(socket.gaierror):
        return "its host name is not known", "check the base URL, and this machine's DNS"
    if has(ConnectionRefusedError):
        return "nothing listens there", "start the server, or correct the base URL"
    if has(ssl.SSLError):
        return (
            "no safe connection (TLS)",
            "check its certificate, or write http:// if the server has none",
        )
    if has(TimeoutError, openai.APITimeoutError):
        return (
            f"no answer within {LIMIT_S:g} s",
            "check that the server runs, and that no firewall or proxy stands before it",
        )
    return (
        f"it can't be reached ({type(causes[-1]).__name__})",
        "check the base URL (http://HOST:PORT/v1), the key and the network",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from."""
    seen: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        found = found.__cause__ or found.__context__


def _plain(name: str) -> str:
    """A server's word, without what would steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in name[:_LONGEST_NAME])
