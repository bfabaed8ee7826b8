"""The HTTP side of the scripted chat server: how each kind of reply goes over the wire."""

from __future__ import annotations

import json
import select
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from accelopt.testing import chat_replies as replies
from accelopt.testing.chat_replies import Reply, Status, Text

if TYPE_CHECKING:
    from accelopt.testing.chat_server import HttpServer, ServerRequest

_POLL_S = 0.02


class ChatHandler(BaseHTTPRequestHandler):
    """One connection of a scripted chat server."""

    protocol_version = "HTTP/1.1"
    # Head and body are two writes; Nagle would hold the second back for 40 ms.
    disable_nagle_algorithm = True
    server: HttpServer

    def handle(self) -> None:
        """Answer requests until either side ends the connection."""
        self.close_connection = False
        while not self.close_connection and self._wait_for_client():
            self.handle_one_request()

    def do_GET(self) -> None:
        """List the models, or the requests so far."""
        owner = self.server.owner
        if self.path.rstrip("/") == "/v1/models":
            listed = [{"id": name, "object": "model"} for name in owner.models]
            self._send_json(200, {"object": "list", "data": listed})
        elif self.path == "/requests":
            self._send_json(200, [asdict(request) for request in owner.requests])
        else:
            self._send_json(404, replies.error_body(f"no {self.path} here", None))

    def do_POST(self) -> None:
        """Answer a chat request."""
        length = int(self.headers.get("Content-Length", 0))
        data = self.rfile.read(length)
        if len(data) < length:
            # The client died while it asked.
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._answer(*self.server.owner.reply_to(self.path, headers, json.loads(data or b"{}")))

    def _answer(self, request: ServerRequest, reply: Reply) -> None:
        match reply:
            case Text():
                self._wait(reply.delay_s)
                self._send_completion(request, reply)
            case Status():
                self._send_status(reply)
            case replies.Hang():
                self._hang()
            case replies.Cut():
                self._send_cut(request, reply)
            case replies.Dribble():
                self._dribble(request, reply)
            case replies.MalformedJson():
                self._send_odd(request, '{"choices": [{"mess')
            case replies.EmptyChoices():
                self._send_odd(request, json.dumps(self._without_choices(request, [])))
            case replies.NullChoices():
                self._send_odd(request, json.dumps(self._without_choices(request, None)))
            case replies.ErrorInBody():
                self._send_odd(request, json.dumps(replies.error_body(reply.message, reply.code)))
            case replies.Html():
                page = "<!DOCTYPE html>\n<html><body><h1>Sign in</h1></body></html>\n"
                self._send(200, page.encode(), "text/html; charset=utf-8")
        self.wfile.flush()
        if not isinstance(reply, replies.Hang | replies.Cut):
            self.server.owner.note_answered()

    def _send_completion(self, request: ServerRequest, reply: Text) -> None:
        if not request.stream:
            self._send_json(200, replies.completion(request.model, reply))
            return
        self._start_stream(chunked=True)
        for event in replies.events(request.model, reply, usage=request.wants_usage):
            self._send_chunk(f"data: {json.dumps(event)}\n\n".encode())
        self._send_chunk(b"data: [DONE]\n\n")
        self._send_chunk(b"")

    def _send_status(self, reply: Status) -> None:
        headers = dict(reply.headers)
        if reply.retry_after is not None:
            headers["Retry-After"] = str(reply.retry_after)
        self._send_json(reply.status, replies.error_body(reply.message, reply.code), headers)

    def _send_cut(self, request: ServerRequest, reply: replies.Cut) -> None:
        self.close_connection = True
        if not request.stream:
            body = json.dumps(replies.completion(request.model, Text(reply.text))).encode()
            self._head(200, "application/json", {"Content-Length": str(len(body))})
            self.wfile.write(body[: len(body) // 2])
            return
        self._start_stream(chunked=not reply.clean)
        for event in replies.cut_events(request.model, reply.text):
            data = f"data: {json.dumps(event)}\n\n".encode()
            if reply.clean:
                self.wfile.write(data)
            else:
                self._send_chunk(data)

    def _dribble(self, request: ServerRequest, reply: replies.Dribble) -> None:
        self.close_connection = True
        answer = Text(reply.text)
        if request.stream:
            self._start_stream(chunked=False)
            sent = replies.events(request.model, answer, usage=request.wants_usage)
            lines = [*(json.dumps(event) for event in sent), "[DONE]"]
            body = "".join(f"data: {line}\n\n" for line in lines).encode()
        else:
            body = json.dumps(replies.completion(request.model, answer)).encode()
            self._head(200, "application/json", {"Content-Length": str(len(body))})
        for byte in body:
            if self._wait(reply.interval_s):
                return
            self.wfile.write(bytes([byte]))

    def _send_odd(self, request: ServerRequest, text: str) -> None:
        """Status 200 and `text` as the body, or as the only event of a stream."""
        if request.stream:
            self._send(200, f"data: {text}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")
        else:
            self._send(200, text.encode(), "application/json")

    def _without_choices(
        self, request: ServerRequest, choices: list[dict[str, Any]] | None
    ) -> dict[str, Any]:
        if request.stream:
            return replies.chunk(request.model, choices)
        return replies.completion(request.model, Text("")) | {"choices": choices}

    def _hang(self) -> None:
        self.close_connection = True
        while not self.server.owner.closing.is_set():
            if _readable(self.connection, _POLL_S):
                # The client has nothing more to say, so this is its end of the connection.
                return

    def _wait(self, seconds: float) -> bool:
        """Wait; True when the server closes meanwhile."""
        return seconds > 0 and self.server.owner.closing.wait(seconds)

    def _wait_for_client(self) -> bool:
        """Wait for the next request; False when the server closes first."""
        while not self.server.owner.closing.is_set():
            if _readable(self.connection, _POLL_S):
                return True
        return False

    def _start_stream(self, *, chunked: bool) -> None:
        if not chunked:
            # Without a length, only the end of the connection ends the body.
            self.close_connection = True
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Connection": "close"}
        self._head(200, "text/event-stream", framing)

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send_json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), "application/json", headers)

    def _send(
        self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self._head(status, kind, {"Content-Length": str(len(data))} | (headers or {}))
        self.wfile.write(data)

    def _head(self, status: int, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _readable(connection: Any, seconds: float) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])
