"""What a compiler would make of a trace: events in program order, and what each waits for.

Everything here depends on the kernel and on the compiler's habits, not on how fast the engines are;
`durations` adds that. So a calibration that changes only speeds reuses the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt.device import DeviceSpec
from accelopt_simulator.hardware import PSUM_BANKS, Timing
from accelopt_simulator.latency.cost_basis import dma_cost
from accelopt_simulator.latency.interchange import exchange, exchanged_loops
from accelopt_simulator.latency.program import Program, build_program
from accelopt_simulator.latency.queues import Schedule, run_queues
from accelopt_simulator.latency.reuse import mergers, without_repeats
from accelopt_simulator.latency.sinking import sink_large_loads
from accelopt_simulator.latency.spill import Kind, Residences, reside
from accelopt_simulator.latency.stream import InstructionInstances, expand, placed
from accelopt_simulator.latency.waits import Waits, find_waits
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Engine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass
class Compiled:
    """A compiled kernel.

    Attributes:
        analysis: facts about the trace.
        items: expanded instructions.
        program: what is left of them after reuse.
        residences: events and stays of tiles.
        engine: engine code of each event.
        ports: shared memory ports of each event, 0 where nothing is shared.
        waits: what each event waits for.
    """

    analysis: Analysis
    items: list[InstructionInstances]
    program: Program
    residences: Residences
    engine: Ints
    ports: Ints
    waits: Waits

    @property
    def is_instance(self) -> NDArray[np.bool_]:
        """Which events are instances of the kernel's instructions."""
        return np.asarray(self.residences.kind == Kind.INSTANCE)

    def moved_tiles(self) -> tuple[Ints, Ints]:
        """(event, tile) of each spill save, reload and repeated fetch."""
        events = np.flatnonzero(~self.is_instance)
        return events, self.residences.tile[self.residences.subject[events]]


def compile_trace(analysis: Analysis, device: DeviceSpec, timing: Timing) -> Compiled:
    """Compile a trace that passed the constraints.

    Raises:
        TooManyInstancesError: the trace is too large for this model.
    """
    items = expand(analysis, timing)
    program = build_program(analysis, items, placed(analysis, timing))
    if timing.removes_repeats:
        merged = mergers(program, device.sbuf_bytes_per_partition)
        pairs = exchanged_loops(analysis, items, program, merged) if timing.exchanges_loops else []
        if pairs:
            groups = program.tile_storage[merged[merged != np.arange(len(merged))]]
            items = exchange(analysis, items, pairs)
            program = build_program(analysis, items, placed(analysis, timing))
            merged = mergers(program, device.sbuf_bytes_per_partition, frozenset(groups.tolist()))
        program = without_repeats(program, merged)
    if timing.sinks_loads:
        program = sink_large_loads(program, items, timing.keep_bytes)
    residences = reside(program, timing.keep_bytes)
    is_instance = residences.kind == Kind.INSTANCE
    engine = np.full(len(residences.kind), int(Engine.DMA), dtype=np.int64)
    engine[is_instance] = program.engine[residences.subject[is_instance]]
    waits = find_waits(
        program,
        residences,
        engine,
        sbuf_bytes=device.sbuf_bytes_per_partition,
        psum_banks=PSUM_BANKS,
        psum_bank_bytes=device.psum_bytes_per_partition / PSUM_BANKS,
        copies=timing.buffer_copies,
        ring_bytes=timing.ring_bytes,
        sequential_barrier=bool(timing.sequential_barrier),
    )
    ports = np.zeros(len(engine), dtype=np.int64)
    if timing.port_exclusion:
        ports[is_instance] = program.ports[residences.subject[is_instance]]
    return Compiled(analysis, items, program, residences, engine, ports, waits)


def durations(
    compiled: Compiled, timing: Timing, *, fresh_costs: bool = False
) -> tuple[Floats, Floats]:
    """How long each event holds its queue, and its result latency, in nanoseconds.

    Args:
        compiled: the kernel.
        timing: constants.
        fresh_costs: whether `timing` differs from the one it was compiled with.
    """
    items = expand(compiled.analysis, timing) if fresh_costs else compiled.items
    program, residences = compiled.program, compiled.residences
    counts = np.array([len(item.alive) for item in items])
    offsets = np.concatenate(([0], np.cumsum(counts)))
    flat = offsets[program.item] + program.row
    busy_of = np.concatenate([item.busy_ns for item in items])[flat]
    latency_of = np.array([item.latency_ns for item in items])[program.item]
    instances = compiled.is_instance
    busy = np.zeros(len(residences.kind))
    latency = np.full(len(residences.kind), timing.dma_latency_ns)
    busy[instances] = busy_of[residences.subject[instances]]
    latency[instances] = latency_of[residences.subject[instances]]
    events, tiles = compiled.moved_tiles()
    partitions, size = program.tile_partitions[tiles], program.tile_bytes[tiles]
    again = residences.kind[events] == Kind.REFETCH
    descriptors = np.where(again, program.tile_fetch_descriptors[tiles], partitions)
    busy[events] = dma_cost(timing, descriptors, partitions * size).busy_ns
    return busy, latency


def run(compiled: Compiled, busy_ns: Floats, latency_ns: Floats, timing: Timing) -> Schedule:
    """Run a compiled kernel."""
    return run_queues(
        compiled.engine,
        compiled.ports,
        busy_ns,
        latency_ns,
        compiled.waits,
        window=timing.window,
        dma_window=timing.dma_window,
        semaphore_ns=timing.semaphore_ns,
    )


def makespan_ns(schedule: Schedule, latency_ns: Floats) -> float:
    """End of the last event, result latency included."""
    return float((schedule.end + latency_ns).max()) if len(latency_ns) else 0.0
