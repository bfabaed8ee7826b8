"""Every attack works on the bare front end, and neither the screen nor the sandbox lets it pass."""

from __future__ import annotations

import os
from types import ModuleType

import pytest
from screening_attacks import ATTACKS, CALM, kernel_with

from accelopt_simulator.frontend.neuronxcc_nki import modules as dialect
from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.process.screening import screen_source
from accelopt_simulator.trace.codec import trace_hash

ARGUMENTS = (((128, 64), "float32"),)
REFUSALS = {("rejected", "source_screen"), ("constraint_violation", "bad_argument")}


def run(text, *, guarded=True):
    return trace_kernel(
        TraceRequest(text=text, entry="kernel", arguments=ARGUMENTS, guarded=guarded)
    )


def in_a_child(function):
    """What a function returns in a forked process: the attacks that work leave a mess behind."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, str(function()).encode()[:4000])
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def without_defences(text):
    """Outcome on a front end as it was: no guards, modules that can be changed, values as given."""
    dialect.NkiModule.__setattr__ = ModuleType.__setattr__
    dialect.NkiModule.__delattr__ = ModuleType.__delattr__
    for place in ("types", "tile", "operators", "neuronxcc_nki.modules", "entry_points"):
        module = __import__(f"accelopt_simulator.frontend.{place}", fromlist=["x"])
        if hasattr(module, "plain"):
            module.plain = lambda value, depth=0: value
    result = run(text, guarded=False)
    if result.trace is not None:
        return f"trace {trace_hash(result.trace)}"
    return f"{result.status}: {result.diagnostics[0]['message']}"


@pytest.fixture(scope="module")
def calm():
    return f"trace {trace_hash(run(CALM).trace)}"


def test_there_are_enough_of_them():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 60


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_it_works_without_the_defences(attack, calm):
    outcome = in_a_child(lambda: without_defences(attack.text))
    if attack.evidence:
        assert attack.evidence in outcome
    else:
        assert outcome.startswith("trace ")
        assert outcome != calm


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_sandbox_alone_stops_it(attack):
    result = run(attack.text)
    found = [(result.status, d["rule"]) for d in result.diagnostics]
    assert set(found) <= REFUSALS, result.diagnostics
    assert found
    assert result.diagnostics[0]["message"]
    assert result.diagnostics[0]["line"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_its_twin_passes_both(attack):
    assert screen_source(attack.honest, "kernel") == []
    result = run(attack.honest)
    assert result.status == "ok", result.diagnostics


def test_the_screen_alone_stops_most():
    # Not names made at run time, and not public names of our own objects and of arrays: a kernel's
    # own class may have a field of that name.
    missed = [a.name for a in ATTACKS if not screen_source(a.text, "kernel")]
    assert len(missed) <= len(ATTACKS) // 3, missed


def test_a_refusal_that_the_kernel_catches_is_still_one():
    text = kernel_with("try:\n    getattr(x, 'ten' + 'sor')\nexcept BaseException:\n    pass")
    assert screen_source(text, "kernel") == []
    result = run(text)
    assert (result.status, result.trace) == ("rejected", None)


def test_asking_for_what_is_not_there_is_no_crime():
    text = kernel_with("assert not hasattr(x, 'T') and getattr(nl, 'nothing', 3) == 3")
    assert run(text).status == "ok"


HONEST = {
    "a dataclass with fields that tiles have too": (
        "from dataclasses import dataclass, field\n\n"
        "@dataclass(frozen=True)\nclass Config:\n    scope: int = 64\n"
        "    index: list = field(default_factory=list)\n    tensor: str = 'x'",
        "c = Config()\nassert c.scope == 64 and c.index == [] and c.tensor == 'x'",
    ),
    "a class with private attributes and a property": (
        "class Counter:\n    def __init__(self):\n        self._count = 0\n"
        "    @property\n    def count(self):\n        return self._count\n"
        "    def add(self):\n        self._count += 1\n        return self\n"
        "class Double(Counter):\n    def __init__(self):\n        super().__init__()",
        "assert Double().add().count == 1",
    ),
    "named tuples and enumerations": (
        "from collections import namedtuple\nfrom enum import Enum, IntEnum\n"
        "from typing import NamedTuple\nclass Tiling(NamedTuple):\n    m: int\n    n: int = 64\n"
        "Pair = namedtuple('Pair', 'a b')\nclass Mode(Enum):\n    FAST = 1\n"
        "class Size(IntEnum):\n    SMALL = 64",
        "t = Tiling(128)._replace(n=64)\nassert (t.m, t.n, Pair(1, 2).b) == (128, 64, 2)\n"
        "assert Mode.FAST.name == 'FAST'\nnl.ndarray((128, Size.SMALL), nl.float32)\n"
        "nl.ndarray(t, nl.float32)",
    ),
    "the usual modules": (
        "import functools, itertools, math, operator\nfrom functools import partial, reduce\n"
        "import numpy as np\nfrom numpy import float32 as f32\nfrom typing import Optional, List",
        "assert reduce(operator.mul, [2, 3]) == 6 and math.ceil(1.5) == 2\n"
        "assert list(itertools.product([1], [2])) == [(1, 2)]\n"
        "assert isinstance(np.zeros(2), np.ndarray) and np.float32(2).item() == 2\n"
        "assert np.dtype(np.float32).itemsize == 4 and np.finfo(np.float32).max > 0\n"
        "partial(nl.load, dtype=np.float32)(x)",
    ),
    "decorators, generators and closures": (
        "import functools\ndef noted(f):\n    @functools.wraps(f)\n    def call(*a, **k):\n"
        "        return f(*a, **k)\n    return call\n@noted\ndef half(n):\n    return n // 2\n"
        "def tiles(n):\n    for k in range(n):\n        yield k",
        "assert half(4) == 2 and half.__name__ == 'half' and sum(tiles(3)) == 3\n"
        "assert type(1) is int and type(x).__name__ == 'Tile' and isinstance(int, type)",
    ),
    "errors of its own": (
        "class Wrong(ValueError):\n    pass",
        "try:\n    raise Wrong('no')\nexcept Wrong as error:\n    assert error.args == ('no',)",
    ),
    "a local called like a builtin": ("def f(input, open=1):\n    return input + open",
                                      "vars = f(1)\nassert vars == 2"),
    "star imports": ("from neuronxcc.nki.language import *\nfrom math import *",
                     "assert sqrt(4) == 2\nload(x)"),
}  # fmt: skip


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("what", HONEST)
def test_honest_python_passes(what, future):
    before, body = HONEST[what]
    text = future + kernel_with(body).replace("\ndef kernel", f"\n{before}\n\ndef kernel")
    assert screen_source(text, "kernel") == []
    result = run(text)
    assert result.status == "ok", result.diagnostics
