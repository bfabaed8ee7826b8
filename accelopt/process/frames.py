"""Length-prefixed messages over pipes: a JSON head and a binary body.

A message is two u64 lengths (little endian), the head as UTF-8 JSON, then the body. Lengths are
checked before anything is read into memory: one side of the pipe may be hostile.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from typing import Any

_LENGTHS = struct.Struct("<QQ")


class FrameError(Exception):
    """The other side sent something that is not a message, or too much."""


class FrameTimeoutError(Exception):
    """The other side did not answer in time."""


def send(
    fd: int, head: dict[str, Any], body: bytes = b"", *, deadline: float | None = None
) -> None:
    """Write one message.

    Args:
        fd: the pipe.
        head: the head.
        body: the body.
        deadline: `time.monotonic()` value to give up at; only for a pipe that does not block.

    Raises:
        OSError: the other side is gone.
        FrameTimeoutError: the deadline passed.
    """
    text = json.dumps(head).encode()
    # A body may be large: it is written from where it stands.
    parts = [memoryview(_LENGTHS.pack(len(text), len(body)) + text), memoryview(body)]
    while parts:
        try:
            written = os.writev(fd, parts)
        except BlockingIOError:
            _wait(fd, select.POLLOUT, deadline)
            continue
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][written:]


def receive(
    fd: int, *, max_bytes: int, max_head: int | None = None, deadline: float | None = None
) -> tuple[dict[str, Any], bytes] | None:
    """Read one message.

    Args:
        fd: the pipe.
        max_bytes: most bytes of head and body together.
        max_head: most bytes of the head, if fewer: parsing costs many times its size.
        deadline: `time.monotonic()` value to give up at; None waits for ever.

    Returns:
        head and body; None when the other side closed the pipe first.

    Raises:
        FrameError: malformed or too large.
        FrameTimeoutError: the deadline passed.
    """
    start = _read(fd, _LENGTHS.size, deadline)
    if start is None:
        return None
    head_size, body_size = _LENGTHS.unpack(start)
    _check(head_size + body_size, max_bytes, "a message")
    _check(head_size, max_bytes if max_head is None else max_head, "a message head")
    text = _read(fd, head_size, deadline)
    body = None if text is None else _read(fd, body_size, deadline)
    if text is None or body is None:
        return None
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a message head is not JSON: {error}") from None
    if not isinstance(head, dict):
        raise FrameError("a message head is not an object")
    return head, body


def _check(size: int, most: int, what: str) -> None:
    if size > most:
        raise FrameError(f"{what} of {size} bytes, at most {most}")


def send_with_descriptor(control: socket.socket, head: dict[str, Any], descriptor: int) -> None:
    """Send a message without a body, and a file descriptor with its first byte.

    Raises:
        OSError: the other side is gone.
    """
    text = json.dumps(head).encode()
    data = _LENGTHS.pack(len(text), 0) + text
    sent = socket.send_fds(control, [data[:1]], [descriptor])
    control.sendall(data[sent:])


def receive_with_descriptor(
    control: socket.socket, *, max_bytes: int
) -> tuple[dict[str, Any] | None, list[int]]:
    """Read a message that may carry file descriptors; (None, []) when the socket was closed.

    Raises:
        FrameError: malformed or too large.
    """
    first, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    if not first:
        return None, []
    rest = _read(control.fileno(), _LENGTHS.size - 1, None)
    if rest is None:
        return None, list(descriptors)
    head_size, body_size = _LENGTHS.unpack(first + rest)
    _check(head_size + body_size, max_bytes, "a message")
    data = _read(control.fileno(), head_size, None)
    head = None if data is None else json.loads(data)
    return head, list(descriptors)


def _read(fd: int, size: int, deadline: float | None) -> bytes | None:
    """Exactly `size` bytes; None when the other side closed the pipe first."""
    chunks = []
    missing = size
    while missing:
        if deadline is not None:
            _wait(fd, select.POLLIN, deadline)
        chunk = os.read(fd, min(1 << 20, missing))
        if not chunk:
            return None
        chunks.append(chunk)
        missing -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _wait(fd: int, event: int, deadline: float | None) -> None:
    """Until something can be read or written."""
    poll = select.poll()
    poll.register(fd, event)
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise FrameTimeoutError
    if not poll.poll(None if left is None else left * 1000):
        raise FrameTimeoutError
