"""`neuronxcc.nki.compiler` (`ncc`): allocation control and scheduling directives (spec 1.21).

Directives only steer scheduling, so they are accepted and have no effect on the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from accelopt_simulator.frontend.buffers import Buffer, PlacedBuffer
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.neuronxcc_nki import language
from accelopt_simulator.trace.schema import Space

Place = Callable[[tuple[int, ...], int, int], Any]


def _linear(index: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """Row-major number of a block index, each component taken modulo its number of tiles."""
    position = 0
    for component, size in zip(index, sizes or (1,) * len(index), strict=False):
        position = position * size + component % size
    return position


class SbufAllocator:
    """`ncc.sbuf`."""

    @staticmethod
    def auto_alloc() -> Buffer:
        """Addresses are the compiler's."""
        return language.sbuf

    @staticmethod
    def alloc(func: Place) -> PlacedBuffer:
        """Addresses are `func`'s."""
        return PlacedBuffer(Space.SBUF, func)

    @staticmethod
    def mod_alloc(
        *,
        base_addr: int,
        base_partition: int = 0,
        num_par_tiles: tuple[int, ...] = (),
        num_free_tiles: tuple[int, ...] = (),
    ) -> PlacedBuffer:
        """Blocks rotate through a number of tiles from `base_addr` on."""
        if base_partition:
            raise KernelFault("direct_allocation_out_of_range", "base_partition must be 0")

        def place(index: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, int]:
            start = base_partition + _linear(index, num_par_tiles) * pdim_size
            return start, base_addr + _linear(index, num_free_tiles) * fdim_size

        return PlacedBuffer(Space.SBUF, place)


class PsumAllocator:
    """`ncc.psum`."""

    @staticmethod
    def auto_alloc() -> Buffer:
        """Addresses are the compiler's."""
        return language.psum

    @staticmethod
    def alloc(func: Place) -> PlacedBuffer:
        """Addresses are `func`'s."""
        return PlacedBuffer(Space.PSUM, func)

    @staticmethod
    def mod_alloc(
        *,
        base_bank: int,
        base_addr: int = 0,
        base_partition: int = 0,
        num_bank_tiles: tuple[int, ...] = (),
        num_par_tiles: tuple[int, ...] = (),
        num_free_tiles: tuple[int, ...] = (),
    ) -> PlacedBuffer:
        """Blocks rotate through a number of banks from `base_bank` on."""
        if base_addr or base_partition or any(n != 1 for n in (*num_par_tiles, *num_free_tiles)):
            raise KernelFault(
                "direct_allocation_out_of_range",
                "base_addr and base_partition must be 0, and tiles only rotate through banks",
            )

        def place(index: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, int, int]:
            return base_bank + _linear(index, num_bank_tiles), 0, 0

        return PlacedBuffer(Space.PSUM, place)


def _decorator(func: Any = None, **options: Any) -> Any:
    """A decorator without effect on the trace, with or without arguments."""
    return func if func is not None else _decorator


@contextmanager
def allocation_scope() -> Iterator[None]:
    """A scope for the stack allocator; no effect on the trace."""
    yield


def multi_buffer(factor: int = 2) -> tuple[str, int]:
    """A loop directive; scheduling only."""
    return ("multi_buffer", factor)


def no_reorder() -> tuple[str, int]:
    """A loop directive; scheduling only."""
    return ("no_reorder", 1)


NAMESPACE = MappingProxyType(
    {
        "sbuf": SbufAllocator,
        "psum": PsumAllocator,
        "allocation_scope": allocation_scope,
        "multi_buffer": multi_buffer,
        "no_reorder": no_reorder,
    }
    | dict.fromkeys(
        ("enable_stack_allocator", "force_auto_alloc", "skip_middle_end_transformations"),
        _decorator,
    )
)
