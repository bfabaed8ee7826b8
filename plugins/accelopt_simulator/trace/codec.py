"""Trace to bytes and back: a compact binary form, JSON for people, and the content hash.

Binary form: magic, header length (u32, little endian), JSON header, columns, constants. The header
states every column's length, so decoding is one `frombuffer` per column. Decoding trusts nothing:
the bytes come from a process that ran hostile code. Columns and constants are views of the bytes;
only the header costs more memory than it has bytes, and `header_json` bounds by how much.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import numpy as np

from accelopt_simulator.trace.errors import TraceError
from accelopt_simulator.trace.header_json import check_attr, check_name, load_header
from accelopt_simulator.trace.schema import COLUMNS, LINE_COLUMNS, SCHEMA_VERSION, Trace
from accelopt_simulator.trace.validate import MAX_TENSORS, validate

MAGIC = b"NKITRACE"
MAX_BYTES = 320 << 20
"""Two million unrolled instructions of 160 bytes; an ordinary kernel takes about 120 for each."""

MAX_CONSTANTS = 4096
MAX_ATTRS = 65_536
MAX_OPS = 4096
MAX_ROLES = 256

_CONSTANT_DTYPES = frozenset(
    {"float32", "int32", "uint32", "int16", "uint16", "int8", "uint8", "float16"}
)


def encode(trace: Trace) -> bytes:
    """The binary form."""
    columns = [np.ascontiguousarray(trace.columns[c], dtype="<" + t) for c, t in COLUMNS.items()]
    header = _header(trace) | {"lengths": [len(column) for column in columns]}
    text = json.dumps(header, separators=(",", ":"), sort_keys=True, allow_nan=True).encode()
    parts = [MAGIC, struct.pack("<I", len(text)), text]
    parts += [column.tobytes() for column in columns]
    parts += [np.ascontiguousarray(c).tobytes() for c in trace.constants]
    return b"".join(parts)


def decode(data: bytes | memoryview) -> Trace:
    """Rebuild and validate a trace.

    Raises:
        TraceError: the bytes are not a well-formed trace.
    """
    view = memoryview(data)
    if len(view) > MAX_BYTES:
        raise TraceError(f"trace of {len(view)} bytes exceeds {MAX_BYTES}")
    if len(view) < 12 or bytes(view[:8]) != MAGIC:
        raise TraceError("not a trace")
    (size,) = struct.unpack("<I", view[8:12])
    if 12 + size > len(view):
        raise TraceError("header length out of range")
    fields = _checked_header(load_header(view[12 : 12 + size]))
    offset = 12 + size
    columns: dict[str, Any] = {}
    for (name, kind), length in zip(COLUMNS.items(), fields.pop("lengths"), strict=True):
        dtype = np.dtype("<" + kind)
        if offset + length * dtype.itemsize > len(view):
            raise TraceError(f"column {name} is cut short")
        columns[name] = np.frombuffer(view, dtype, length, offset)
        offset += length * dtype.itemsize
    constants = []
    for entry in fields.pop("constants"):
        dtype = np.dtype(entry["dtype"])
        count = math.prod(entry["shape"])
        if offset + count * dtype.itemsize > len(view):
            raise TraceError("a constant is cut short")
        constants.append(np.frombuffer(view, dtype, count, offset).reshape(entry["shape"]))
        offset += count * dtype.itemsize
    if offset != len(view):
        raise TraceError(f"{len(view) - offset} bytes too many")
    trace = Trace(columns=columns, constants=tuple(constants), **fields)
    validate(trace)
    return trace


def trace_hash(trace: Trace) -> str:
    """Content hash (hex SHA-256); source lines and names do not count."""
    if not trace._hash:
        digest = hashlib.sha256()
        header = _header(trace)
        del header["entry"], header["tensor_names"]
        digest.update(json.dumps(header, sort_keys=True, allow_nan=True).encode())
        for name, kind in COLUMNS.items():
            if name not in LINE_COLUMNS:
                column = np.ascontiguousarray(trace.columns[name], dtype="<" + kind)
                digest.update(f"{name}:{len(column)}:".encode())
                digest.update(column.data if len(column) else b"")
        for constant in trace.constants:
            digest.update(np.ascontiguousarray(constant).tobytes())
        trace._hash.append(digest.hexdigest())
    return trace._hash[0]


def to_json(trace: Trace) -> str:
    """The JSON form, for people and other tools; `from_json` reads it back."""
    data = _header(trace) | {
        "columns": {name: trace.columns[name].tolist() for name in COLUMNS},
        "constant_values": [c.tolist() for c in trace.constants],
    }
    return json.dumps(data, sort_keys=True, allow_nan=True)


def from_json(text: str) -> Trace:
    """Rebuild and validate a trace from its JSON form.

    Raises:
        TraceError: the text is not a well-formed trace.
    """
    try:
        data = json.loads(text)
        columns = {n: np.array(data["columns"][n], dtype="<" + t) for n, t in COLUMNS.items()}
        values = data.pop("constant_values")
        del data["columns"]
        fields = _checked_header(data | {"lengths": [len(c) for c in columns.values()]})
        del fields["lengths"]
        constants = tuple(
            np.array(value, dtype=entry["dtype"]).reshape(entry["shape"])
            for value, entry in zip(values, fields.pop("constants"), strict=True)
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise TraceError(f"not a trace in JSON: {error}") from None
    trace = Trace(columns=columns, constants=constants, **fields)
    validate(trace)
    return trace


def _header(trace: Trace) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "dialect": trace.dialect,
        "entry": trace.entry,
        "grid": list(trace.grid),
        "ops": list(trace.ops),
        "roles": list(trace.roles),
        "attrs": list(trace.attrs),
        "tensor_names": list(trace.tensor_names),
        "constants": [{"dtype": c.dtype.name, "shape": list(c.shape)} for c in trace.constants],
    }


_HEADER_KEYS = frozenset(
    [
        "schema_version",
        "dialect",
        "entry",
        "grid",
        "ops",
        "roles",
        "attrs",
        "tensor_names",
        "constants",
        "lengths",
    ]
)


def _checked_header(header: Any) -> dict[str, Any]:
    """Check the header's types and limits; returns the fields of `Trace` plus `lengths`."""
    if not isinstance(header, dict) or header.keys() != _HEADER_KEYS:
        raise TraceError("header has the wrong keys")
    if header.pop("schema_version") != SCHEMA_VERSION:
        raise TraceError("unknown schema version")
    for key in ("dialect", "entry"):
        check_name(header[key])
    for key, most in (("ops", MAX_OPS), ("roles", MAX_ROLES), ("tensor_names", MAX_TENSORS)):
        if not isinstance(header[key], list) or len(header[key]) > most:
            raise TraceError(f"{key} is not a list of at most {most}")
        for name in header[key]:
            check_name(name)
        header[key] = tuple(header[key])
    header["grid"] = tuple(_naturals(header["grid"], 8, "grid"))
    lengths = header["lengths"]
    if not isinstance(lengths, list) or len(lengths) != len(COLUMNS):
        raise TraceError("wrong number of columns")
    header["lengths"] = _naturals(lengths, len(COLUMNS), "lengths")
    if not isinstance(header["attrs"], list) or len(header["attrs"]) > MAX_ATTRS:
        raise TraceError("attrs is not a short list")
    for attr in header["attrs"]:
        check_attr(attr)
    header["attrs"] = tuple(header["attrs"])
    if not isinstance(header["constants"], list) or len(header["constants"]) > MAX_CONSTANTS:
        raise TraceError("constants is not a short list")
    for entry in header["constants"]:
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape"}:
            raise TraceError("a constant has the wrong keys")
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in _CONSTANT_DTYPES:
            raise TraceError(f"a constant of type {str(entry['dtype'])[:40]!r}")
        entry["shape"] = _naturals(entry["shape"], 8, "constant shape")
        if not 1 <= math.prod(entry["shape"]) <= MAX_BYTES:
            raise TraceError("a constant is empty or too large")
    return header


def _naturals(values: Any, most: int, what: str) -> list[int]:
    if not isinstance(values, list) or len(values) > most:
        raise TraceError(f"{what} is not a short list")
    for value in values:
        if type(value) is not int or not 0 <= value < 1 << 40:
            raise TraceError(f"{what} holds {str(value)[:40]!r}")
    return values
