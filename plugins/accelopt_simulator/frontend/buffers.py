"""Memories that tensors are created in, placed by the compiler or the kernel (spec 1.3, 1.21)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, product
from typing import Any

from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.trace.schema import Space

SBUF_USABLE_BYTES = (192 - 16) * 1024
PSUM_BANKS = 8
PSUM_BANK_BYTES = 2048
PARTITIONS = 128
MAX_BLOCKS_CHECKED = 4096


class Buffer:
    """A memory whose addresses the compiler chooses."""

    def __init__(self, name: str, space: Space) -> None:
        self.name = name
        self.space = space

    def __repr__(self) -> str:
        return f"nl.{self.name}"


class PlacedBuffer(Buffer):
    """A memory whose addresses the kernel chooses, by block.

    Args:
        space: SBUF or PSUM.
        place: `(block index, partitions, bytes per partition)` to `(start partition, byte address)`
            in SBUF, `(bank, start partition, byte address)` in PSUM.
    """

    def __init__(self, space: Space, place: Callable[[tuple[int, ...], int, int], Any]) -> None:
        super().__init__(f"{space.name.lower()}.alloc", space)
        self._place = place

    def address(self, block: tuple[int, ...], partitions: int, free_bytes: int) -> Any:
        """Where a block lies."""
        return self._place(block, partitions, free_bytes)

    def check(self, blocks: tuple[int, ...], partitions: int, free_bytes: int) -> None:
        """Check the address of every block (of the first few thousand).

        Raises:
            KernelFault: an address is out of range.
        """
        for index in islice(product(*map(range, blocks)), MAX_BLOCKS_CHECKED):
            address = self.address(index, partitions, free_bytes)
            problem = (_sbuf_problem if self.space is Space.SBUF else _psum_problem)(
                address, partitions, free_bytes
            )
            if problem:
                raise KernelFault(
                    "direct_allocation_out_of_range",
                    f"block {index} is placed at {address}: {problem}",
                    required=address,
                    hint="see nki.compiler.sbuf.alloc and psum.alloc for the ranges",
                )


def _sbuf_problem(address: Any, partitions: int, free_bytes: int) -> str:
    if not isinstance(address, tuple) or len(address) != 2:
        return "not (start partition, byte address)"
    start, byte = address
    step = 128 if partitions > 64 else 64 if partitions > 32 else 32
    if start % step or start + partitions > PARTITIONS:
        return f"{partitions} partitions can't start there"
    if byte < 0 or byte + free_bytes > SBUF_USABLE_BYTES:
        return f"{free_bytes} bytes leave the {SBUF_USABLE_BYTES} that are usable"
    return ""


def _psum_problem(address: Any, partitions: int, free_bytes: int) -> str:
    if not isinstance(address, tuple) or len(address) != 3:
        return "not (bank, start partition, byte address)"
    bank, start, byte = address
    if not 0 <= bank < PSUM_BANKS:
        return f"there are {PSUM_BANKS} banks"
    if start or byte:
        return "start partition and byte address must be 0"
    if free_bytes > PSUM_BANK_BYTES:
        return f"{free_bytes} bytes exceed a bank of {PSUM_BANK_BYTES}"
    return ""
