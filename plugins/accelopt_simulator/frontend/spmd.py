"""SPMD launch dimensions: which core runs which program instance (spec 1.16).

Instances run one after the other here; how they are spread over cores changes no result.
"""

from __future__ import annotations

from typing import Any

from accelopt_simulator.frontend.faults import KernelFault


class SpmdDim(int):
    """A launch dimension of a flattened size, spread over cores in blocks or in turn.

    Attributes:
        cores: cores it is spread over.
        blocked: whether a core runs neighbouring instances.
    """

    cores: int
    blocked: bool

    def __new__(cls, size: int, cores: int = 1, blocked: bool = True) -> SpmdDim:
        self = super().__new__(cls, size)
        self.cores, self.blocked = cores, blocked
        return self

    def core_of(self, program: int) -> int:
        """The core that runs an instance."""
        return program // (int(self) // self.cores) if self.blocked else program % self.cores


class CoreCount(SpmdDim):
    """`nl.nc(k)`: k physical cores; `nl.nc(2) * n` is blocked, `n * nl.nc(2)` interleaved."""

    def __new__(cls, cores: int) -> CoreCount:
        if not isinstance(cores, int) or cores < 1:
            raise KernelFault("bad_spmd_grid", f"nl.nc({cores!r}) is no number of cores")
        return super().__new__(cls, cores, cores)  # type: ignore[return-value]

    def __mul__(self, other: Any) -> SpmdDim:
        return spmd_dim(self, other)

    def __rmul__(self, other: Any) -> SpmdDim:
        return spmd_dim(other, self)


def spmd_dim(a: Any, b: Any) -> SpmdDim:
    """`nl.spmd_dim`: one of the two is `nl.nc(k)`."""
    for value in (a, b):
        if not isinstance(value, int) or value < 1:
            raise KernelFault("bad_spmd_grid", f"nl.spmd_dim of {value!r}")
    cores = [value for value in (a, b) if isinstance(value, CoreCount)]
    if len(cores) != 1:
        raise KernelFault("bad_spmd_grid", "one of the two of nl.spmd_dim is nl.nc(k)")
    return SpmdDim(int(a) * int(b), cores[0].cores, isinstance(a, CoreCount))
