"""Kernels that cheat the recorder, each with an honest twin one edit apart.

An attack without `evidence` forges: its trace differs from that of the same kernel without it. One
with evidence shows what it got hold of, in the text of an error.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.compiler as ncc

def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
"""
TAIL = """
    nl.store(out, nl.multiply(tile, 2.0, dtype=np.float32))
    return out
"""
SHOW = "raise ValueError('GOT ' + str(got))"
CALM = HEAD + TAIL


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: what it does.
        code: statements in the kernel's body.
        twin: the same, honest.
        evidence: part of what it shows; empty for a forgery.
    """

    name: str
    code: str
    twin: str
    evidence: str = ""

    @property
    def text(self) -> str:
        """The hostile kernel file."""
        return kernel_with(self.code + ("\n" + SHOW if self.evidence else ""))

    @property
    def honest(self) -> str:
        """The twin's file."""
        return kernel_with(self.twin)


def kernel_with(code: str) -> str:
    """A kernel with statements in its body."""
    return HEAD + "\n".join("    " + line for line in code.split("\n")) + TAIL


def _module(name: str, path: str, found: str, honest: str) -> Attack:
    return Attack(
        f"{path}", f"import {name}\ngot = {path}", f"import {name}\ngot = {honest}", found
    )


SYS = "<module 'sys'"
FRAME = "<frame"
TILE = "frontend.tile.Tile"
ATTACKS = [
    _module("collections", "collections._sys", SYS, "collections.deque"),
    _module("collections", "collections._sys.modules['os']", "<module 'os'", "collections.deque"),
    _module("dataclasses", "dataclasses.sys", SYS, "dataclasses.field"),
    _module("dataclasses", "dataclasses.builtins", "<module 'builtins'", "dataclasses.field"),
    _module("enum", "enum.sys", SYS, "enum.Enum"),
    _module("typing", "typing.sys", SYS, "typing.Any"),
    _module("typing", "typing.types.FrameType", "frame", "typing.Any"),
    _module("functools", "functools.GenericAlias", "GenericAlias", "functools.partial"),
    _module("functools", "functools.partial(nl.load).func", "<function", "functools.partial(max)"),
    _module("operator", "operator.attrgetter('__cla' + 'ss__')(x)", TILE,
            "operator.itemgetter(0)((1,))"),
    _module("operator", "operator.methodcaller('__red' + 'uce_ex__', 2)(1.5)", "__newobj__",
            "operator.itemgetter(0)((1,))"),
    _module("dataclasses", "dataclasses.make_dataclass('P', ['a'])(1)", "P(a=1)",
            "dataclasses.field"),
    _module("dataclasses", "dataclasses.dataclass(type(tile)).__name__", "Tile",
            "type(tile).__name__"),
    Attack("reads past the end of an array",
           "got = np.lib.stride_tricks.as_strided(np.zeros(1), (9,), (8,))",
           "got = np.broadcast_to(np.zeros(1), (9,))", "["),
    Attack("writes past the end of an array",
           "a = np.zeros(8)\nb = np.lib.stride_tricks.as_strided(a[:1], (8,), (8,))\n"
           "b[5] = 7\ngot = a[5]", "a = np.zeros(8)\nb = a[:8]\nb[5] = 7\ngot = a[5]", "7.0"),
    *(
        Attack(f"numpy: {code}", f"got = {code}", f"got = {twin}", evidence)
        for code, twin, evidence in (
            ("np.ctypeslib.ctypes", "np.pi", "<module 'ctypes'"),
            ("np.lib", "np.pi", "<module 'numpy.lib'"),
            ("np.frombuffer(b'12345678')", "np.zeros(1)", "[6.8"),
            ("np.ndarray((1,), buffer=b'12345678')", "np.empty((1,))", "[6.8"),
            ("np.frompyfunc(lambda a: a, 1, 1)", "np.add", "ufunc"),
            ("np.vectorize(lambda a: a)", "np.add", "vectorize"),
            ("np.nditer(np.zeros(2))", "np.zeros(2)", "nditer"),
            ("np.require(np.zeros(2), requirements='O')", "np.asarray(np.zeros(2))", "[0. 0.]"),
            ("np.fromfile('/dev/zero', count=1)", "np.zeros(1)", "[0.]"),
            ("np.memmap", "np.zeros", "memmap"),
            ("np.load", "np.zeros", "<function load"),
            ("np.zeros(2).ctypes", "np.zeros(2).size", "_ctypes"),
            ("np.zeros(2).data", "np.zeros(2).size", "<memory"),
            ("np.zeros(2).base", "np.zeros(2).size", "None"),
            ("np.zeros(2).setflags(write=True)", "np.zeros(2).fill(1)", "None"),
            ("np.zeros(1).view(np.int64)", "np.zeros(1).astype(np.int64)", "[0]"),
            ("np.zeros(1).resize(2, refcheck=False)", "np.zeros(2).reshape(1, 2)", "None"),
            ("np.zeros(1).__array_interface__", "np.zeros(1).dtype", "typestr"),
            ("np.dtype([('a', 'O')])", "np.dtype('float32')", "'O'"),
            ("np.random.default_rng(0).bit_generator.ctypes", "np.random.default_rng(0)",
             "interface"),
        )
    ),
    *(
        Attack(f"names {code}", f"got = {code}", f"got = {twin}", evidence)
        for code, twin, evidence in (
            ("getattr(x, '__cla' + 'ss__')", "getattr(x, 'sha' + 'pe')", TILE),
            ("'{0.__class__.__init__.__globals__}'.format(x)", "'{0}'.format(1)", "frontend.tile"),
            ("'{a.__class__}'.format_map({'a': x})", "'{a}'.format_map({'a': 1})", TILE),
            ("'{0:{1.tensor}}'.format(7, x)", "'{0:{1}}'.format(7, 3)", "7"),
            ("list(map(str.format, ['{0.__class__}'], [x]))", "list(map(str.upper, ['a']))", TILE),
            ("nl.load.__globals__", "nl.load.__name__", "__name__"),
            ("nl.load.__closure__", "nl.load.__doc__", "cell"),
            ("nl.load.__wrapped__", "nl.load.__name__", "<function load"),
            ("nl.add._function", "nl.add.__name__", "<function"),
            ("nl.__dict__", "nl.tile_size.pmax", "neuronxcc.nki.language"),
            ("kernel.__code__", "kernel.__name__", "<code"),
            ("print.__self__", "print.__name__", "<module 'builtins'"),
            ("type(x).mro()", "type(1)", TILE),
            ("type(tile)(0, tile.space, 0, (1, 1), (), 0, -1, -1)", "nl.arange(2)", "tile("),
            ("().__class__.__base__.__subclasses__()", "tuple(())", "<class 'type'>"),
            ("type('K', (int,), {})(7)", "type(7)", "7"),
            ("(i for i in [1]).gi_frame", "next(i for i in [1])", FRAME),
            ("nl.affine_range(2).gi_frame", "nl.affine_range(2)", FRAME),
            ("ncc.allocation_scope().gen.gi_frame", "ncc.allocation_scope()", FRAME),
            ("nl.exp(tile).fresh", "x.ndim", "Instruction("),
            ("tile.access()", "tile.shape", "Access("),
            ("tile.with_grid((128, 1), {}, 0)", "tile.dtype", "tile("),
            ("(tile.index, tile.tensor, tile.scope)", "(tile.ndim, tile.size)", "Affine("),
            ("(nl.arange(4) + 1).affine", "(nl.arange(4) + 1).ndim", "Affine("),
            ("x.__\uff43lass__", "x.shape", TILE),
            ("__builtins__", "abs(1)", "'builtins'"),
            ("__import__('sys')", "abs(-1)", SYS),
            ("eval('1 + 1')", "int('2')", "2"),
            ("compile('1', '', 'eval')", "int('2')", "<code"),
            ("globals()", "dict()", "kernel_module"),
            ("locals()", "dict()", "tile("),
            ("vars(nl)", "dict()", "neuronxcc.nki.language"),
            ("dir(x)", "list()", "__reduce__"),
            ("memoryview(b'a')", "bytes(b'a')", "<memory"),
            ("open('/dev/null')", "print()", "/dev/null"),
        )
    ),
    Attack("imports importlib", "import importlib\ngot = importlib.import_module('sys')",
           "import math\ngot = math.pi", SYS),
    Attack("imports a private name", "from collections import _sys as got",
           "from collections import deque as got", SYS),
    Attack("imports a hidden submodule", "import numpy.lib as got", "import numpy as got",
           "<module 'numpy.lib'"),
    Attack("evaluates an annotation",
           "import typing\ndef f(a: '__import__(\"sys\")'): pass\ngot = typing.get_type_hints(f)",
           "import typing\ndef f(a: 'int'): pass\ngot = typing.Any", SYS),
    Attack("a traceback's frame",
           "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
           "    got = error.__traceback__.tb_frame.f_back",
           "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    got = error.args", FRAME),
    Attack("a class pattern reads attributes",
           "match tile:\n    case object(index=got): pass",
           "match 3:\n    case 3: got = 1", "Affine("),
    Attack("code inside an integer's conversion",
           "class Liar(int):\n    def __int__(self): raise KeyError('inside')\n"
           "got = nl.ndarray((Liar(128), 4), dtype=Liar, buffer=nl.sbuf)",
           "class Liar:\n    def size(self): return 128\n"
           "got = nl.ndarray((Liar().size(), 4), dtype=nl.float32, buffer=nl.sbuf)", "Liar"),
    Attack("code inside a shape",
           "class Liar(tuple):\n    def __iter__(self): raise KeyError('inside')\n"
           "try:\n    nl.ndarray(Liar((128, 4)), dtype=nl.float32)\n"
           "except KeyError as error:\n    got = error.args",
           "class Liar:\n    def __iter__(self): return iter((128, 4))\n"
           "nl.ndarray(tuple(Liar()), dtype=nl.float32)", "inside"),
    Attack("code inside a name",
           "class Liar(str):\n    def __getitem__(self, key): raise KeyError('inside')\n"
           "try:\n    nl.ndarray((128, 4), dtype=nl.float32, name=Liar('a'))\n"
           "except KeyError as error:\n    got = error.args",
           "class Liar:\n    def __getitem__(self, key): return 'a'\n"
           "nl.ndarray((128, 4), dtype=nl.float32, name=Liar()[0])", "inside"),
    Attack("code inside a type",
           "class Liar:\n    @property\n    def dtype(self): return hits.append(1) or np.float32\n"
           "hits = []\ntry:\n    nl.ndarray((128, 4), dtype=Liar())\n"
           "except ValueError:\n    pass\ngot = len(hits) > 0",
           "class Liar:\n    @property\n    def dtype(self): return np.float32\n"
           "nl.ndarray((128, 4), dtype=Liar().dtype)", "True"),
    Attack("passes for a tile", "class Fake:\n    __class__ = type(tile)\n"
           "got = isinstance(Fake(), type(tile))",
           "class Fake:\n    kind = 1\ngot = isinstance(Fake(), type(tile))", "True"),
    *(
        Attack(f"a class with {method}",
               f"class Hook:\n    def {method}(self, *args): return 1\ngot = Hook()",
               "class Hook:\n    def __call__(self, *args): return 1\ngot = Hook()", "Hook object")
        for method in ("__getattr__", "__eq__", "__index__", "__bool__", "__array__", "__radd__",
                       "__del__", "__set_name__", "__getattribute__", "__hash__")
    ),
    Attack("a metaclass", "class Meta(type): pass\nclass A(metaclass=Meta): pass\ngot = type(A)",
           "class Base: pass\nclass A(Base): pass\ngot = type(A())", "Meta"),
    # Forgeries: the recorder says something else than the source does.
    Attack("replaces a function of nl", "nl.multiply = nl.add", "multiply = nl.add"),
    Attack("replaces it by setattr", "setattr(nl, 'multiply', nl.add)",
           "multiply = getattr(nl, 'add')"),
    Attack("replaces it in the module's dictionary", "nl.__dict__['multiply'] = nl.add",
           "names = {}\nnames['multiply'] = nl.add"),
    Attack("replaces a type of numpy", "np.float32 = np.float16", "half = np.float16"),
    Attack("makes an operator another one", "nl.multiply.__init__('add', nl.add)",
           "nl.multiply(tile, 2.0) if False else None"),
    Attack("updates an operator's attributes",
           "import functools\nclass Fake: pass\nfake = Fake()\nfake._function = nl.add\n"
           "functools.update_wrapper(nl.multiply, fake)",
           "import functools\ndef f(): pass\n@functools.wraps(f)\ndef g(): pass"),
    Attack("changes a tile", "tile.tensor = 0",
           "class Box: pass\nbox = Box()\nbox.tensor = 0"),
    Attack("changes a tile in a method of its own",
           "class Box:\n    def put(self, value): self.tensor = value\nBox.put(tile, 0)",
           "class Box:\n    def put(self, value): self.tensor = value\nBox.put(Box(), 1)"),
    Attack("changes a tile in a loop's head", "for tile.tensor in [0]: pass",
           "for code in [1, 2]: pass"),
    Attack("makes a tile anew",
           "tile.__init__(0, tile.space, 0, tile.shape, tile.index, 0, -1, -1)",
           "tile.assert_shape(tile.shape)"),
    Attack("changes a constant of the hardware, then the record",
           "nl.load.__wrapped__.__globals__['current']().builder.instructions.clear()",
           "items = [1]\nitems.clear()"),
    Attack("finds the session in a frame",
           "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
           "    frame = error.__traceback__.tb_frame\n"
           "while 'session' not in frame.f_locals:\n    frame = frame.f_back\n"
           "frame.f_locals['session'].builder.instructions.clear()",
           "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    frame = error.args"),
    Attack("turns a load into another instruction",
           "nl.load.__wrapped__.__globals__['lower'].compute.__globals__['current']"
           "().builder.instructions[-1].attrs['oob'] = 'skip'",
           "attrs = {}\nattrs['oob'] = 'skip'"),
]  # fmt: skip
