"""A scripted OpenAI-compatible server on the loopback, for tests over real HTTP.

In a test's own process::

    with ScriptedChatServer(lambda request: Text("hello")) as server:
        ...  # requests go to server.base_url

In a process of its own, `accelopt.testing.chat_server_process`.
"""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from accelopt.testing.chat_handler import ChatHandler
from accelopt.testing.chat_replies import Reply, Status

_POLL_S = 0.02


@dataclass(frozen=True)
class ServerRequest:
    """One chat request as it arrived.

    Attributes:
        number: order of arrival; the first is 1.
        path: for example `/v1/chat/completions`.
        headers: with names in lower case.
        body: the JSON body.
        arrived_s: `time.monotonic()` of the server's process.
    """

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    arrived_s: float

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return bool(self.body.get("stream"))

    @property
    def text(self) -> str:
        """Text of all messages, blank lines between them."""
        messages = self.body.get("messages", [])
        return "\n\n".join(str(message.get("content") or "") for message in messages)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream is to end with the token counts."""
        return bool((self.body.get("stream_options") or {}).get("include_usage"))


class ScriptedChatServer:
    """Answers each chat request with what a function makes of it.

    Also serves `GET /v1/models`, and `GET /requests` for a test in another process.

    Args:
        answer: called in the thread of the connection, so at once for requests that run at once.
            An exception in it is answered with status 500, kept in `errors` and raised when the
            context ends.
        models: names that `GET /v1/models` lists.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        answer: Callable[[ServerRequest], Reply],
        *,
        models: Sequence[str] = ("scripted",),
        port: int = 0,
    ) -> None:
        self.models = tuple(models)
        self.closing = threading.Event()
        self.errors: list[Exception] = []
        self._answer = answer
        self._lock = threading.Lock()
        self._requests: list[ServerRequest] = []
        self._answered = 0
        self._http = HttpServer(("127.0.0.1", port), self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL_S,), name="scripted-chat", daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        """What a client is given as its base URL."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def requests(self) -> list[ServerRequest]:
        """The chat requests so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def answered(self) -> int:
        """How many replies were written whole, cut and hanging ones not counted."""
        with self._lock:
            return self._answered

    def reply_to(
        self, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> tuple[ServerRequest, Reply]:
        """Record a request and ask the script about it."""
        with self._lock:
            number = len(self._requests) + 1
            request = ServerRequest(number, path, headers, body, time.monotonic())
            self._requests.append(request)
        try:
            return request, self._answer(request)
        except Exception as error:  # noqa: BLE001 - a test's own function
            with self._lock:
                self.errors.append(error)
            return request, Status(500, f"the script failed: {error!r}")

    def note_answered(self) -> None:
        """Count a reply that went out whole."""
        with self._lock:
            self._answered += 1

    def close(self) -> None:
        """Stop serving; replies that hang are broken off."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if error is None and self.errors:
            raise self.errors[0]


class HttpServer(ThreadingHTTPServer):
    """One thread per connection."""

    # Many clients may knock at once.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], owner: ScriptedChatServer) -> None:
        self.owner = owner
        super().__init__(address, ChatHandler)

    def server_bind(self) -> None:
        # HTTPServer's own looks the host name up, which takes seconds where no DNS answers.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        # What comes out of a handler is a client that went away; scripts' errors are kept apart.
        pass
