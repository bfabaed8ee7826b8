"""Mutations of encoded traces that know the format: most stay decodable up to the field changed."""

from __future__ import annotations

import copy
import json
import random
import struct

import numpy as np

from accelopt_simulator.trace.codec import MAGIC
from accelopt_simulator.trace.schema import COLUMNS

BOUNDARIES = [
    0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 63, 64, 127, 128, 129, 255, 256, 511, 512, 513, 1 << 15,
    1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 46) - 1, 1 << 46, (1 << 63) - 1, -1, -2, -128,
    -(1 << 31), -(1 << 46), -(1 << 63),
]  # fmt: skip
REALS = [0.0, -0.0, 1.0, -1.0, 1e-45, 3.5e38, -1e308, float("nan"), float("inf"), -float("inf")]
ODD_JSON = [
    None, True, False, 0, -1, 1 << 40, 10**30, 10**4000, 1.5, float("nan"), float("inf"), "",
    "x" * 199, "x" * 100_000, "\ud800", "add", "exp", "dst", "src", "data", "nc_matmul", "dma_copy",
    "__class__", [], [[]], [0] * 65, {}, {"a": {}}, [None] * 3, "float32", [1 << 39, 1 << 39], [0],
]  # fmt: skip
ATTR_KEYS = [
    "op", "op0", "op1", "axes", "axis", "accumulate", "in_place_argument", "loop_reduce", "oob",
    "negate", "keepdims", "reverse0", "reverse1", "scale", "transpose", "is_transpose", "value",
    "reduce_op", "perf_mode", "seed", "low", "high", "step", "direction",
]  # fmt: skip


class Parts:
    """An encoded trace taken apart: header, columns and the bytes behind them."""

    def __init__(self, data: bytes) -> None:
        (size,) = struct.unpack("<I", data[8:12])
        self.header = json.loads(data[12 : 12 + size])
        self.columns = {}
        offset = 12 + size
        for (name, kind), length in zip(COLUMNS.items(), self.header["lengths"], strict=True):
            self.columns[name] = np.frombuffer(data, "<" + kind, length, offset).copy()
            offset += self.columns[name].nbytes
        self.rest = data[offset:]

    def bytes(self, *, true_lengths: bool = True) -> bytes:
        """Put together again."""
        if true_lengths and isinstance(self.header, dict):
            self.header["lengths"] = [len(c) for c in self.columns.values()]
        text = json.dumps(self.header).encode()
        columns = [c.tobytes() for c in self.columns.values()]
        return b"".join([MAGIC, struct.pack("<I", len(text)), text, *columns, self.rest])


def mutated(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """One hostile trace, made from `data`; columns may come from others."""
    kind = rng.random()
    if kind < 0.06:
        return _raw(rng, data)
    parts = Parts(data)
    true_lengths = True
    for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 6])):
        pick = rng.random()
        if pick < 0.62:
            _change_column(rng, parts)
        elif pick < 0.80:
            _change_header(rng, parts)
        elif pick < 0.88:
            _resize(rng, parts)
        elif pick < 0.96:
            other = Parts(rng.choice(others))
            name = rng.choice(list(COLUMNS))
            parts.columns[name] = other.columns[name]
            if rng.random() < 0.3:
                key = rng.choice(list(other.header))
                parts.header[key] = other.header[key]
        else:
            true_lengths = False
            lengths = parts.header.get("lengths")
            if isinstance(lengths, list) and lengths:
                odd = rng.choice([*BOUNDARIES, *ODD_JSON])
                lengths[rng.randrange(len(lengths))] = copy.deepcopy(odd)
    return parts.bytes(true_lengths=true_lengths)


def _change_column(rng: random.Random, parts: Parts) -> None:
    """Single values become boundary values, neighbours of themselves, or another row's."""
    filled = [n for n, c in parts.columns.items() if len(c)]
    name = rng.choice(filled)
    column = parts.columns[name] = parts.columns[name].copy()
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        row = rng.randrange(len(column))
        if column.dtype.kind == "f":
            column[row] = rng.choice(REALS)
            continue
        old = int(column[row])
        new = rng.choice(
            [rng.choice(BOUNDARIES), old + 1, old - 1, old * 2, int(column[rng.randrange(
                len(column))]), rng.randrange(8), len(parts.columns[rng.choice(filled)])]
        )  # fmt: skip
        limits = np.iinfo(column.dtype)
        column[row] = min(max(new, limits.min), limits.max)


def _change_header(rng: random.Random, parts: Parts) -> None:
    header = parts.header
    key = rng.choice(["attrs"] * 6 + ["ops"] * 4 + ["roles"] * 3 + [*header])
    if key not in header:
        return
    value = header[key]
    if key == "attrs" and isinstance(value, list) and value and isinstance(value[0], dict):
        attr = dict(rng.choice([a for a in value if isinstance(a, dict)]))
        name = rng.choice([*attr, *attr, *ATTR_KEYS])
        firsts = [next(iter(a.values())) for a in value if isinstance(a, dict) and a]
        attr[name] = copy.deepcopy(rng.choice([*ODD_JSON, *firsts]))
        if rng.random() < 0.2:
            attr.pop(rng.choice(list(attr)))
        value[rng.randrange(len(value))] = attr
    elif isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        choices = [*ODD_JSON, rng.choice(value)]
        if key == "ops":
            from accelopt_simulator.isa import OPS

            choices += [*OPS]
        value[at] = copy.deepcopy(rng.choice(choices))
    elif rng.random() < 0.1:
        del header[key]
    else:
        header[key] = copy.deepcopy(rng.choice(ODD_JSON))


def _resize(rng: random.Random, parts: Parts) -> None:
    """One table's columns get longer or shorter."""
    name = rng.choice(list(COLUMNS))
    column = parts.columns[name]
    table = name.partition("_")[0]
    group = [n for n in COLUMNS if n.partition("_")[0] == table and len(parts.columns[n]) == len(
        column)] if rng.random() < 0.5 else [name]  # fmt: skip
    at = rng.randrange(len(column) + 1)
    for member in group:
        old = parts.columns[member]
        if rng.random() < 0.5 and len(old):
            parts.columns[member] = np.concatenate((old[:at], old[at - 1 : at], old[at:]))
        else:
            parts.columns[member] = np.delete(old, at if at < len(old) else []) if len(old) else old
    if rng.random() < 0.02:
        parts.columns[name] = np.resize(column, 200_000) if len(column) else column


def _raw(rng: random.Random, data: bytes) -> bytes:
    """Bytes changed without any knowledge of the format."""
    kind = rng.randrange(5)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        return data + rng.randbytes(rng.randrange(1, 64))
    changed = bytearray(data)
    if kind == 2:
        at = rng.randrange(len(changed))
        changed[at : at + rng.randrange(1, 32)] = rng.randbytes(rng.randrange(32))
    elif kind == 3:
        for _ in range(rng.randrange(1, 40)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    else:  # a header of another kind
        text = rng.choice(
            [b"[" * 100_000, b'{"a":' * 50_000, b"1" * 100_000, b"[" + b"{}," * 200_000 + b"{}]",
             b'{"grid":[],"grid":[]}', b"NaN", b'"' + b"x" * 100_000, b"[" + b"9" * 5000 + b"]",
             b"\xff\xfe", b"[1e" + b"9" * 5000 + b"]", b""]
        )  # fmt: skip
        return MAGIC + struct.pack("<I", len(text)) + text + bytes(changed[12:])
    return bytes(changed)
