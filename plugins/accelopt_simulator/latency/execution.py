"""What the latency model predicts: when every instruction instance ran, and what it waited for.

Columns in program order, one entry per instance that takes time on a queue (instances that the
compiler model removed are absent; spill saves and reloads that it adds are present).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Wait(IntEnum):
    """What an instance waited for last before it started."""

    NOTHING = 0
    ENGINE = 1
    """Its engine (or its turn in the engine's queue)."""
    DATA = 2
    """A value that another instance computes or loads."""
    SPACE = 3
    """A buffer that other instances still use."""


class Transfer(IntEnum):
    """What a DMA instance moves."""

    NONE = 0
    """Not a DMA."""
    LOAD = 1
    STORE = 2
    SPILL_SAVE = 3
    SPILL_RELOAD = 4


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """Bytes per partition that are in use over time: a step function.

    Attributes:
        times_ns: when it changes, ascending.
        bytes_per_partition: value from that time on.
        capacity_bytes: what there is.
    """

    times_ns: Floats
    bytes_per_partition: Floats
    capacity_bytes: int


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A predicted run of a kernel.

    Attributes:
        op_names: names that `op` indexes.
        op: what each instance is.
        line: 1-based kernel line that it comes from, 0 when there is none.
        engine: `trace.schema.Engine` code of the queue that it holds.
        start_ns, end_ns: when it holds that queue.
        done_ns: when its result can be used.
        data_ready_ns: when the last value that it needs was there.
        space_ready_ns: when the last buffer that it overwrites was free.
        cause: index of the instance that it waited for last, -1 when it waited for none.
        wait: `Wait` code of that.
        transfer: `Transfer` code.
        bytes: bytes moved by a DMA, else 0.
        tensor: index into `tensor_names` of what it writes (of what a store or spill moves).
        tensor_names: names that `tensor` indexes.
        makespan_ns: end of the last instance, result latency included.
        repeats: how many times the recorded stretch stands for itself; 1 = all instances are here.
            Above 1, the kernel has a steady state, and only its first iterations are recorded.
        sbuf, psum: memory use over time.
    """

    op_names: tuple[str, ...]
    op: Ints
    line: Ints
    engine: Ints
    start_ns: Floats
    end_ns: Floats
    done_ns: Floats
    data_ready_ns: Floats
    space_ready_ns: Floats
    cause: Ints
    wait: Ints
    transfer: Ints
    bytes: Floats
    tensor: Ints
    tensor_names: tuple[str, ...]
    makespan_ns: float
    repeats: float = 1.0
    sbuf: MemoryUse
    psum: MemoryUse

    def __len__(self) -> int:
        return len(self.op)
