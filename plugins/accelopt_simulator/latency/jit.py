"""Compiled functions: Numba, cached beside the source or in the user's cache folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function of arrays and numbers when it is first called.

    The result is cached on disk; where no folder is writable it is compiled once per process.
    """
    try:
        return cast(Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no place for a cache
        return cast(Function, njit(nogil=True)(function))
