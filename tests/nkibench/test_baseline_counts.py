"""Counts instructions and bytes of the full-size baselines by running them on empty tensors."""

from __future__ import annotations

import sys
from collections import Counter
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from nkibench.suite import suite


class Tensor:
    """A tensor that has a shape and nothing else."""

    def __init__(self, shape, dtype="float32"):
        self.shape, self.dtype = tuple(int(n) for n in shape), dtype

    def __getitem__(self, index):
        items = index if isinstance(index, tuple) else (index,)
        arrays = [i.array for i in items if isinstance(i, Index)]
        if arrays:
            return Tensor(np.broadcast_shapes(*(a.shape for a in arrays)))
        if items == (Ellipsis,):
            return self
        spans = zip(items, self.shape, strict=True)
        return Tensor([len(range(size)[i]) for i, size in spans if isinstance(i, slice)])

    def __setitem__(self, index, value):
        pass

    def __truediv__(self, other):
        COUNTS["divide"] += 1
        return self

    def __iadd__(self, other):
        return self

    def reshape(self, shape):
        return Tensor(shape)

    def broadcast_to(self, shape):
        COUNTS["broadcast_to"] += 1
        return Tensor(shape)


class Index:
    def __init__(self, array):
        self.array = array

    def __getitem__(self, axes):
        return Index(self.array[axes])

    def __add__(self, other):
        return Index(self.array + getattr(other, "array", other))

    __radd__ = __add__

    def __le__(self, other):
        return self.array <= other


COUNTS: Counter[str] = Counter()


def _moved(tile, mask):
    rows = tile.shape[0] if mask is None else int(mask.sum())
    return rows * int(np.prod(tile.shape[1:])) * 4


def _load(src, mask=None, dtype=None):
    COUNTS["load"] += 1
    COUNTS["loaded"] += _moved(src, mask)
    COUNTS[f"load {src.shape}"] += 1
    return src


def _store(dst, value, mask=None):
    assert dst.shape == value.shape
    COUNTS["store"] += 1
    COUNTS["stored"] += _moved(dst, mask)


def _counted(name, result=None):
    def call(*arguments, **keywords):
        COUNTS[name] += 1
        tiles = [a for a in (*arguments, *keywords.values()) if isinstance(a, Tensor)]
        return result(*arguments) if result else tiles[0] if tiles else None

    return call


@pytest.fixture
def count(monkeypatch):
    nl = ModuleType("neuronxcc.nki.language")
    nl.float32, nl.sbuf, nl.psum, nl.shared_hbm = "float32", "sbuf", "psum", "hbm"
    nl.tile_size = SimpleNamespace(pmax=128)
    nl.affine_range, nl.par_dim, nl.load, nl.store = range, int, _load, _store
    nl.arange = lambda n: Index(np.arange(n))
    nl.ndarray = nl.zeros = lambda shape, dtype=None, **_: Tensor(shape)
    nl.sum = _counted("sum", lambda x: Tensor((x.shape[0], 1)))
    nl.matmul = _counted("matmul", lambda x, y: Tensor((x.shape[0], y.shape[1])))
    for name in ("add", "subtract", "multiply", "square", "rsqrt", "copy", "exp", "sqrt"):
        setattr(nl, name, _counted(name))
    nisa = ModuleType("neuronxcc.nki.isa")
    nisa.unknown_engine = None
    for name in ("activation", "tensor_scalar", "reciprocal", "memset"):
        setattr(nisa, name, _counted(name))
    nki = ModuleType("neuronxcc.nki")
    nki.jit, nki.trace, nki.language, nki.isa = lambda f: f, None, nl, nisa
    nki.typing = nl.typing = ModuleType("neuronxcc.nki.typing")
    root = ModuleType("neuronxcc")
    root.nki = nki
    for name, module in {
        "neuronxcc": root,
        "neuronxcc.nki": nki,
        "neuronxcc.nki.language": nl,
        "neuronxcc.nki.isa": nisa,
        "neuronxcc.nki.typing": nki.typing,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)

    def run(name):
        task = suite()[name]()
        COUNTS.clear()
        space = {}
        exec(task.baseline.text, space)
        arguments = [Tensor(a.shape) if a.value is None else a.value for a in task.arguments]
        result = space[task.baseline.entry](*arguments)
        assert int(np.prod(result.shape)) == int(np.prod(task.output_shape))
        return {key: value for key, value in COUNTS.items() if "(" not in key}, dict(COUNTS)

    return run


def test_silu_has_the_published_counts(count):
    counts, _ = count("silu")
    assert counts == {
        "load": 224,
        "store": 224,
        "activation": 448,
        "tensor_scalar": 448,
        "reciprocal": 448,
        "multiply": 448,
        "memset": 1,
        "loaded": 117_440_512,
        "stored": 117_440_512,
    }


def test_adamw_has_the_published_counts(count):
    counts, _ = count("adamw")
    assert counts == {
        "load": 4 * 172,
        "store": 172,
        "tensor_scalar": 2408,
        "subtract": 688,
        "add": 688,
        "multiply": 688,
        "activation": 344,
        "reciprocal": 344,
        "memset": 1,
        "loaded": 358_612_992,
        "stored": 89_653_248,
    }


def test_add_rmsnorm_matmul_has_the_published_counts(count):
    counts, detail = count("add_rmsnorm_matmul")
    assert counts == {
        "load": 1089,
        "store": 128,
        "matmul": 1024,
        "copy": 128,
        "add": 64,
        "square": 32,
        "sum": 32,
        "divide": 32,
        "rsqrt": 32,
        "multiply": 64,
        "broadcast_to": 32,
        "loaded": 301_993_984,
        "stored": 33_554_432,
    }
    assert detail["load (1, 1024)"] == 1
    assert detail["load (128, 1024)"] == 64
    assert detail["load (128, 512)"] == 1024
