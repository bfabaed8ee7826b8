"""What a kernel may name: modules and what is in them, builtins, attributes by type of object.

An allow-list throughout: what is not here is not there for a kernel.
"""

from __future__ import annotations

import types

import numpy as np

from accelopt_simulator.frontend.annotations import TensorAnnotation
from accelopt_simulator.frontend.buffers import Buffer, PlacedBuffer
from accelopt_simulator.frontend.index import DynamicSlice, Index, Mask, MGrid, MGridMaker
from accelopt_simulator.frontend.loop_reduce import LoopReduction
from accelopt_simulator.frontend.spmd import SpmdDim
from accelopt_simulator.frontend.tile import Shape, Tile
from accelopt_simulator.frontend.types import NkiType, OpFunction, ParDim

SPECIAL_METHODS = frozenset(
    [
        "__init__",
        "__post_init__",
        "__call__",
        "__repr__",
        "__str__",
        "__enter__",
        "__exit__",
        "__len__",
        "__iter__",
        "__next__",
        "__getitem__",
        "__contains__",
    ]
)
"""Those a kernel's class may define: NKI calls and NumPy never ask for them before they have made
plain values of their arguments."""

READABLE_SPECIAL = frozenset({"__name__", "__doc__"})
CLASS_BODY_NAMES = frozenset({"__slots__", "__doc__"})
NAMED_TUPLE = frozenset({"_replace", "_asdict", "_fields"})

_PLAIN_FUNCTIONS = """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format frozenset hash hex id int isinstance issubclass iter len list
    map max min next object oct ord pow print property range repr reversed round set slice sorted
    staticmethod str sum super tuple zip
"""
_CONSTANTS = "True False None Ellipsis NotImplemented __debug__"
EXCEPTIONS = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "Exception",
    "FloatingPointError",
    "ImportError",
    "IndexError",
    "KeyError",
    "LookupError",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotImplementedError",
    "OverflowError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "SystemExit",
    "TypeError",
    "UnboundLocalError",
    "ValueError",
    "ZeroDivisionError",
    "Warning",
    "UserWarning",
    "DeprecationWarning",
    "RuntimeWarning",
]
BUILTINS = frozenset([*_PLAIN_FUNCTIONS.split(), *_CONSTANTS.split(), *EXCEPTIONS])
"""Builtins that a kernel gets as they are; `sandbox` adds guarded ones."""

_NUMPY = """
    all allclose amax amin any append arange argmax argmin argsort argwhere around array array_equal
    asarray ascontiguousarray atleast_1d atleast_2d average block broadcast_arrays broadcast_shapes
    broadcast_to can_cast ceil clip column_stack concatenate copy count_nonzero cross cumprod cumsum
    diag diagonal diff dot e einsum empty empty_like euler_gamma expand_dims eye finfo flatnonzero
    flip fliplr flipud full full_like hstack identity iinfo indices inf inner interp isclose
    isscalar issubdtype kron linspace logspace matmul max mean median meshgrid mgrid min moveaxis
    nan nan_to_num nanmax nanmin ndim newaxis nonzero ones ones_like outer pad pi prod promote_types
    ptp ravel repeat reshape result_type roll rollaxis round searchsorted shape sinc size sort split
    squeeze stack std sum swapaxes take tensordot tile trace transpose tri tril tril_indices triu
    triu_indices unique unravel_index var vdot vstack where zeros zeros_like
    float16 float32 float64 half single double int8 int16 int32 int64 uint8 uint16 uint32 uint64
    intp uintp bool_ complex64 complex128 longlong ulonglong
    generic number integer signedinteger unsignedinteger inexact floating
"""
# What NumPy has loaded: asking it for every name of `dir` would load f2py and its testing tools.
_UFUNCS = [n for n, value in vars(np).items() if isinstance(value, np.ufunc) and n[0] != "_"]

MODULES: dict[str, frozenset[str]] = {
    name: frozenset(names.split())
    for name, names in {
        "__future__": "annotations division print_function generator_stop",
        "collections": "OrderedDict defaultdict deque Counter namedtuple abc",
        "collections.abc": "Callable Iterable Iterator Mapping Sequence Generator Hashable Sized",
        "dataclasses": "dataclass field replace asdict astuple fields KW_ONLY MISSING",
        "enum": "Enum IntEnum Flag IntFlag auto unique",
        "functools": "partial reduce lru_cache cache wraps",
        "itertools": "accumulate chain combinations combinations_with_replacement compress count "
        "cycle dropwhile filterfalse groupby islice pairwise permutations product repeat starmap "
        "takewhile tee zip_longest",
        "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees "
        "dist e erf erfc exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf "
        "isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan "
        "nextafter perm pi pow prod radians remainder sin sinh sqrt tan tanh tau trunc ulp",
        "ml_dtypes": "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
        "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int2 int4 uint2 uint4 finfo iinfo",
        "numpy": _NUMPY + " ".join(_UFUNCS) + " dtype ndarray random linalg typing",
        "numpy.linalg": "norm inv det qr svd",
        "numpy.random": "default_rng",
        "numpy.typing": "NDArray ArrayLike DTypeLike",
        "operator": "abs add and_ concat contains eq floordiv ge getitem gt iadd iand imul index "
        "inv invert is_ is_not isub itemgetter le lshift lt matmul mod mul ne neg not_ or_ pos pow "
        "rshift sub truediv truth xor",
        "typing": "Any Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List "
        "Literal Mapping NamedTuple NewType Optional Sequence Set Tuple Type TypeVar "
        "Union TYPE_CHECKING cast no_type_check overload",
    }.items()
}
"""Module -> its names for kernels; the dialect's own modules come on top."""

_ARRAY = frozenset(
    [
        "T",
        "all",
        "any",
        "argmax",
        "argmin",
        "argsort",
        "astype",
        "byteswap",
        "clip",
        "copy",
        "cumprod",
        "cumsum",
        "diagonal",
        "dot",
        "dtype",
        "fill",
        "flatten",
        "imag",
        "item",
        "itemsize",
        "max",
        "mean",
        "min",
        "nbytes",
        "ndim",
        "nonzero",
        "prod",
        "ravel",
        "real",
        "repeat",
        "reshape",
        "round",
        "searchsorted",
        "shape",
        "size",
        "sort",
        "squeeze",
        "std",
        "strides",
        "sum",
        "swapaxes",
        "take",
        "tolist",
        "tobytes",
        "trace",
        "transpose",
        "var",
    ]
)
_NUMBER = frozenset(
    [
        "real",
        "imag",
        "conjugate",
        "bit_length",
        "bit_count",
        "as_integer_ratio",
        "is_integer",
        "numerator",
        "denominator",
        "hex",
        "to_bytes",
    ]
)

ATTRIBUTES: dict[type, frozenset[str]] = {
    Tile: frozenset(
        [
            "shape",
            "dtype",
            "ndim",
            "itemsize",
            "size",
            "buffer",
            "reshape",
            "broadcast_to",
            "astype",
            "expand_dims",
            "assert_shape",
        ]
    ),
    Index: frozenset({"shape", "ndim"}),
    Mask: frozenset({"shape"}),
    MGrid: frozenset({"p", "x", "y", "z", "w", "count", "index"}),
    Shape: frozenset({"count", "index"}),
    MGridMaker: frozenset(),
    DynamicSlice: frozenset({"start", "size"}),
    NkiType: frozenset({"name", "itemsize", "dtype"}),
    ParDim: _NUMBER,
    SpmdDim: _NUMBER | {"core_of"},
    OpFunction: READABLE_SPECIAL,
    Buffer: frozenset({"name"}),
    PlacedBuffer: frozenset({"name"}),
    LoopReduction: frozenset(),
    TensorAnnotation: frozenset(),
    types.FunctionType: READABLE_SPECIAL,
    types.BuiltinFunctionType: READABLE_SPECIAL,
    types.MethodType: READABLE_SPECIAL,
    types.GeneratorType: frozenset({"send", "throw", "close"}),
    property: frozenset({"getter", "setter", "deleter"}),
    int: _NUMBER,
    bool: _NUMBER,
    float: _NUMBER,
    complex: _NUMBER,
    slice: frozenset({"start", "stop", "step", "indices"}),
    range: frozenset({"start", "stop", "step", "index", "count"}),
    np.ndarray: _ARRAY,
    np.generic: _ARRAY | _NUMBER,
    np.dtype: frozenset(
        ["name", "itemsize", "kind", "type", "str", "char", "byteorder", "ndim", "shape"]
    ),
    np.ufunc: frozenset(["reduce", "accumulate", "outer", "nin", "nout"]) | READABLE_SPECIAL,
    np.finfo: frozenset(
        ["bits", "eps", "max", "min", "tiny", "dtype", "smallest_normal", "resolution", "precision"]
    ),
    np.iinfo: frozenset(["bits", "max", "min", "dtype", "kind"]),
    np.random.Generator: frozenset(
        [
            "random",
            "standard_normal",
            "normal",
            "integers",
            "uniform",
            "permutation",
            "choice",
            "shuffle",
        ]
    ),
    BaseException: frozenset({"args"}),
    StopIteration: frozenset({"args", "value"}),
}
"""Type -> attributes of its instances; a subclass has those of its nearest listed base."""

CONTAINERS = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
"""Of these, and their subclasses in `collections`, every public method is harmless but the
formatting ones, which follow attributes by name."""
