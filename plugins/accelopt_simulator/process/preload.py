"""Loads what kernels may import, and what those modules load when first used.

A candidate's process can't open any file, so a module that is not loaded before does not exist.
"""

from __future__ import annotations

import gc
import importlib
import linecache
import pkgutil
from contextlib import suppress

import accelopt_simulator.frontend
import accelopt_simulator.trace

_STANDARD = (
    "abc", "bisect", "collections.abc", "contextlib", "contextvars", "copy", "copyreg",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "inspect",
    "itertools", "json", "keyword", "linecache", "locale", "math", "numbers", "operator", "pprint",
    "random", "re", "reprlib", "secrets", "statistics", "string", "struct", "textwrap", "token",
    "tokenize", "traceback", "types", "typing", "unicodedata", "warnings", "weakref",
    "concurrent.futures", "threading", "_strptime",
)  # fmt: skip
_ENCODINGS = (
    "ascii", "charmap", "cp1252", "hex_codec", "idna", "latin_1", "punycode", "raw_unicode_escape",
    "unicode_escape", "utf_16", "utf_16_be", "utf_16_le", "utf_32", "utf_32_be", "utf_32_le",
    "utf_7", "utf_8", "utf_8_sig",
)  # fmt: skip
_NUMPY = (
    "_core", "char", "dtypes", "exceptions", "fft", "lib", "linalg", "ma", "ma.extras",
    "polynomial", "random", "rec", "strings", "typing",
)  # fmt: skip
# Parts of NumPy that its functions load themselves, some of them from C code.
_NUMPY_PACKAGES = ("numpy._core", "numpy.lib", "numpy.linalg", "numpy.polynomial")
_NOT_LOADED = ("tests", "testing", "f2py", "distutils", "cversions", "generate", "_umath_tests")


def preload() -> None:
    """Load everything, then set it apart from garbage collection: children share its memory."""
    names = [*_STANDARD, "ml_dtypes", *(f"encodings.{name}" for name in _ENCODINGS)]
    names += [f"numpy.{name}" for name in _NUMPY]
    for name in names:
        with suppress(ImportError):  # another Python or NumPy may not have all of them
            importlib.import_module(name)
    for package in _NUMPY_PACKAGES:
        for item in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            if not any(part in item.name for part in _NOT_LOADED):
                with suppress(ImportError, AttributeError):
                    importlib.import_module(item.name)
    for ours in (accelopt_simulator.frontend, accelopt_simulator.trace):
        for item in pkgutil.walk_packages(ours.__path__, f"{ours.__name__}."):
            importlib.import_module(item.name)
    linecache.clearcache()
    gc.collect()
    gc.freeze()
