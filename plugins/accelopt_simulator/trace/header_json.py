"""Reading the JSON header of a trace that a hostile process wrote, in bounded time and memory."""

from __future__ import annotations

import json
from typing import Any

from accelopt_simulator.trace.errors import TraceError

MAX_HEADER_BYTES = 32 << 20
MAX_CONTAINERS = 300_000
"""Objects and lists: they cost far more memory than the two bytes that open and close one."""

MAX_NUMBER_LENGTH = 32
MAX_ATTR_NUMBER = 1 << 53
MAX_NAME_LENGTH = 200


def load_header(data: bytes | memoryview) -> Any:
    """The header as JSON values.

    Raises:
        TraceError: it is not JSON, or costs more to read than any honest one.
    """
    text = bytes(data)
    if len(text) > MAX_HEADER_BYTES:
        raise TraceError("header length out of range")
    # Those in strings count too: no honest name is full of them.
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS:
        raise TraceError("header holds too many lists and objects")
    try:
        return json.loads(
            text.decode(), parse_int=_integer, parse_float=_real, object_pairs_hook=_object
        )
    except (ValueError, RecursionError) as error:
        raise TraceError(f"header is not JSON: {str(error)[:200]}") from None


def check_name(name: Any) -> None:
    """Refuse what is not a short text.

    Raises:
        TraceError: it is not one.
    """
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
        raise TraceError("a name is not a short string")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:  # JSON can say a lone surrogate, UTF-8 can't
            raise TraceError("a name is not text") from None


def check_attr(attr: Any) -> None:
    """Refuse what is not a small set of plain attributes.

    NaN and the infinities are numbers of a kernel like any other; huge integers are not.

    Raises:
        TraceError: it is not one.
    """
    if not isinstance(attr, dict) or len(attr) > 16:
        raise TraceError("an attribute set is not a small object")
    for key, value in attr.items():
        check_name(key)
        values = value if isinstance(value, list) else [value]
        if len(values) > 64:
            raise TraceError(f"attribute {key[:40]} is too long")
        for item in values:
            if isinstance(item, str):
                check_name(item)
            elif isinstance(item, int):
                if abs(item) > MAX_ATTR_NUMBER:
                    raise TraceError(f"attribute {key[:40]} is too large a number")
            elif not (item is None or isinstance(item, float)):
                raise TraceError(f"attribute {key[:40]} has an odd type")


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError("a number has too many digits")
    return int(text)


def _real(text: str) -> float:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError("a number has too many digits")
    return float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result
