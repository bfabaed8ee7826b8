"""A trace as the latency model's passes see it: flat columns of instances, operands and tiles.

An *instance* is one run of a recorded instruction; a *tile* is one block of an on-chip tensor as
one iteration makes it, or a piece of an HBM tensor that the kernel both writes and reads.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelopt_simulator.dtypes import DTYPES
from accelopt_simulator.isa import DMA_OPS
from accelopt_simulator.latency.generations import fresh_tile_loops
from accelopt_simulator.latency.stream import InstructionInstances, program_order
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.folding import uses_by_storage
from accelopt_simulator.trace.schema import Engine, LoopKind, OperandKind, Space, TensorRole, Trace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass
class Program:
    """Columns in program order.

    Attributes:
        item: position in the list of expanded instructions.
        row: which of that instruction's instances it is.
        engine: engine code.
        ports: shared ports it uses: 1 = PSUM, 2 = SBUF, 3 = both; 0 for one that shares none.
        signature: equal for instances that compute the same function of their operands; for a load,
            of the same HBM region.
        pure: whether the result depends on nothing else, so that doing it twice is useless.
        is_load: reads HBM by DMA.
        has_effect: writes HBM, or nothing that is tracked: never useless.
        adds: a matmul that may add to what its tile holds, so that earlier writes still count.
        added: a copy that no line of the kernel asks for.
        sequential_epoch: which iteration of the sequential loops around it, -1 for none.
        bytes, descriptors: bytes that a DMA moves, and contiguous pieces of it; else 0.
        operand_start: row offsets into the operand columns.
        operand_tile: tile of each operand, -1 = HBM that need not be tracked.
        operand_write: whether it is written.
        operand_box: first and last partition, first and last free element.
        tile_storage: storage tensor of each tile.
        tile_space: its memory.
        tile_bytes: bytes per partition.
        tile_partitions: partitions that it has.
        tile_fetch_descriptors: contiguous pieces of loading it; 0 when more than loads made it.
        tile_sunk: tiles that no instance loads: they are fetched where they are first used.
        tile_rotates: tiles that an affine loop makes afresh: copies of them may overlap.
        broadcast_tiles: tiles that hold a row copied to all partitions.
    """

    item: Ints
    row: Ints
    engine: Ints
    ports: Ints
    signature: Ints
    pure: Bools
    is_load: Bools
    has_effect: Bools
    adds: Bools
    added: Bools
    sequential_epoch: Ints
    bytes: Floats
    descriptors: Floats
    operand_start: Ints
    operand_tile: Ints
    operand_write: Bools
    operand_box: Ints
    tile_storage: Ints
    tile_space: Ints
    tile_bytes: Floats
    tile_partitions: Ints
    tile_fetch_descriptors: Floats
    tile_sunk: Bools
    tile_rotates: Bools
    broadcast_tiles: Ints

    def __len__(self) -> int:
        return len(self.item)

    def first_writer(self) -> Ints:
        """The first instance that writes each tile (the last of all for one that nobody writes)."""
        first = np.full(len(self.tile_storage), len(self), dtype=np.int64)
        instance = np.repeat(np.arange(len(self)), np.diff(self.operand_start))
        writes = self.operand_write
        np.minimum.at(first, self.operand_tile[writes], instance[writes])
        return np.minimum(first, len(self) - 1)


def build_program(
    analysis: Analysis,
    instances: list[InstructionInstances],
    in_psum: frozenset[int] = frozenset(),
) -> Program:
    """Flatten expanded instructions; instances that a predicate switches off are left out.

    Args:
        analysis: facts about the trace.
        instances: expanded instructions.
        in_psum: tensors declared in SBUF that the compiler puts into PSUM.
    """
    trace = analysis.trace
    loops = fresh_tile_loops(analysis)
    tracked = _tracked_hbm(analysis, instances)
    which, within = program_order(instances)
    alive = np.concatenate([item.alive for item in instances])
    counts = np.array([len(item.alive) for item in instances])
    offsets = np.concatenate(([0], np.cumsum(counts)))
    flat = offsets[which] + within
    keep = alive[flat]
    flat, which = flat[keep], which[keep]

    columns = _Columns(analysis, loops, tracked, _met_whole(instances, tracked))
    for item in instances:
        columns.add(item)
    operand_counts = np.array([len(rows) for rows in columns.operands], dtype=np.int64)
    per_instance = operand_counts[which]
    operand_start = np.concatenate(([0], np.cumsum(per_instance))).astype(np.int64)
    total = int(operand_start[-1])
    keys = np.empty((total, 3), dtype=np.int64)
    boxes = np.empty((total, 4), dtype=np.int64)
    writes = np.empty(total, dtype=np.bool_)
    positions = np.arange(len(which))
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(instances) + 1))
    within_kept = within[keep]
    for index, rows in enumerate(columns.operands):
        mine = positions[order[bounds[index] : bounds[index + 1]]]
        local = within_kept[mine]
        for k, row in enumerate(rows):
            at = operand_start[mine] + k
            keys[at, 0] = row.storage
            keys[at, 1] = row.block[local]
            keys[at, 2] = row.generation[local]
            boxes[at] = row.box[local]
            writes[at] = row.write
    tiles, operand_tile = _number(keys)
    storage = tiles[:, 0]
    space = trace.tensor_space.astype(np.int64)
    for tensor in in_psum:
        space[tensor] = Space.PSUM
    size = np.array([_tile_bytes(analysis, s) for s in range(trace.num_tensors)])
    partitions = np.array([_partitions(trace, s) for s in range(trace.num_tensors)], dtype=np.int64)
    rotates = np.array([_rotates(analysis, s) for s in range(trace.num_tensors)], dtype=np.bool_)
    program = Program(
        item=which,
        row=within_kept,
        engine=np.array([int(i.engine) for i in instances])[which],
        ports=np.array(columns.ports, dtype=np.int64)[which],
        signature=np.concatenate(columns.signatures)[flat],
        pure=np.array(columns.pure, dtype=np.bool_)[which],
        is_load=np.array(columns.loads, dtype=np.bool_)[which],
        has_effect=np.array(columns.effects, dtype=np.bool_)[which],
        adds=np.array(columns.adds, dtype=np.bool_)[which],
        added=np.array(columns.added, dtype=np.bool_)[which],
        sequential_epoch=np.concatenate(columns.epochs)[flat],
        bytes=np.concatenate(columns.bytes)[flat],
        descriptors=np.concatenate([i.descriptors for i in instances])[flat],
        operand_start=operand_start,
        operand_tile=operand_tile,
        operand_write=writes,
        operand_box=boxes,
        tile_storage=storage,
        tile_space=space[storage] if len(storage) else storage,
        tile_bytes=size[storage] if len(storage) else np.zeros(0),
        tile_partitions=partitions[storage] if len(storage) else storage,
        tile_fetch_descriptors=np.zeros(len(storage)),
        tile_sunk=np.zeros(len(storage), dtype=np.bool_),
        tile_rotates=rotates[storage] if len(storage) else np.zeros(0, dtype=np.bool_),
        broadcast_tiles=_broadcast_tiles(instances, which, operand_start, operand_tile, writes),
    )  # fmt: skip
    program.tile_fetch_descriptors = _fetch_descriptors(program)
    return program


@dataclass
class _OperandRows:
    storage: int
    write: bool
    block: Ints
    generation: Ints
    box: Ints


class _Columns:
    """Per recorded instruction, what `build_program` scatters into program order."""

    def __init__(
        self, analysis: Analysis, loops: dict[int, int], tracked: set[int], whole: set[int]
    ) -> None:
        self.analysis, self.loops, self.tracked, self.whole = analysis, loops, tracked, whole
        self.operands: list[list[_OperandRows]] = []
        self.signatures: list[Ints] = []
        self.ports: list[int] = []
        self.pure: list[bool] = []
        self.loads: list[bool] = []
        self.effects: list[bool] = []
        self.added: list[bool] = []
        self.adds: list[bool] = []
        self.epochs: list[Ints] = []
        self.bytes: list[Floats] = []

    def add(self, item: InstructionInstances) -> None:
        """Take one instruction's instances."""
        count = len(item.alive)
        trace = self.analysis.trace
        rows = []
        source_key = np.zeros(count, dtype=np.int64)
        from_hbm = to_hbm = impure = False
        for role, region, write, (block, p0, p1, f0, f1) in item.operands:
            if region.space is Space.HBM:
                from_hbm |= not write
                to_hbm |= write
                impure |= not write and region.storage in self.tracked
                if not write:
                    source_key = source_key * 1_000_003 + np.broadcast_to(f0, count)
                    source_key = source_key * 1_000_003 + np.broadcast_to(f1, count)
                    source_key += region.storage * 7_919
                if region.storage not in self.tracked:
                    continue
                if region.storage in self.whole:
                    block, f0, f1 = f0, 0 * f0, f1 - f0
            loop = self.loops.get(region.storage, -1)
            box = np.stack([np.broadcast_to(c, count) for c in (p0, p1, f0, f1)], axis=1)
            rows.append(
                _OperandRows(
                    region.storage,
                    write,
                    np.broadcast_to(block, count),
                    _generation(self.analysis, item, loop, count),
                    box,
                )
            )
            del role
        # Reads first: an instruction that updates a tile in place depends on its old value.
        rows.sort(key=lambda row: row.write)
        self.operands.append(rows)
        immediates = tuple(
            float(trace.immediate[ref])
            for _, kind, ref in trace.operands(item.instruction)
            if kind is OperandKind.IMMEDIATE
        )
        shapes = tuple((r, g.grid, g.axis_strides, g.itemsize) for r, g, _, _ in item.operands)
        what = (item.op, int(item.engine), sorted(item.attrs.items()), immediates, shapes)
        digest = zlib.crc32(repr(what).encode())
        indirect = any(role.startswith("index") for role, _, _, _ in item.operands)
        in_place = item.attrs.get("accumulate") is True or item.attrs.get("implied") is True
        self.signatures.append(source_key * 31 + digest)
        self.pure.append(not (impure or indirect or in_place or to_hbm or item.op == "rand"))
        dma = item.op in DMA_OPS
        self.loads.append(dma and from_hbm)
        self.effects.append(to_hbm or not any(row.write for row in rows))
        self.added.append(bool(item.key[-1][0] % 2) if count else False)
        self.ports.append(_ports(item))
        self.adds.append(item.op == "nc_matmul" and item.attrs.get("accumulate") is True)
        self.epochs.append(_sequential_epoch(self.analysis, item, count))
        itemsize = max((g.itemsize for _, g, _, _ in item.operands), default=0)
        self.bytes.append(item.rows * item.free * itemsize if dma else np.zeros(count))


def _ports(item: InstructionInstances) -> int:
    """Which memory ports an instruction may have to share with another engine."""
    spaces = {region.space for _, region, _, _ in item.operands}
    psum = item.engine in (Engine.VECTOR, Engine.SCALAR) and Space.PSUM in spaces
    sbuf = item.engine in (Engine.VECTOR, Engine.GPSIMD) and Space.SBUF in spaces
    return int(psum) + 2 * int(sbuf)


def _generation(analysis: Analysis, item: InstructionInstances, loop: int, count: int) -> Ints:
    """Number of the iteration (of `loop` and all loops around it) that each instance belongs to."""
    number = np.zeros(count, dtype=np.int64)
    if loop < 0 or loop not in item.loops:
        return number
    for lp, values in item.loops.items():
        low, high = analysis.loop_range[lp]
        number = number * (high - low + 1) + (values - low)
        if lp == loop:
            break
    return number + 1


def _sequential_epoch(analysis: Analysis, item: InstructionInstances, count: int) -> Ints:
    number = np.zeros(count, dtype=np.int64)
    result = np.full(count, -1, dtype=np.int64)
    for lp, values in item.loops.items():
        low, high = analysis.loop_range[lp]
        number = number * (high - low + 1) + (values - low)
        if analysis.trace.loop_kind[lp] == LoopKind.SEQUENTIAL:
            result = number * analysis.trace.num_loops + lp
    return result


def _broadcast_tiles(
    instances: list[InstructionInstances], which: Ints, start: Ints, tiles: Ints, writes: Bools
) -> Ints:
    """Tiles that a broadcast writes, or a copy of what a broadcast wrote."""
    spread = np.array([i.op == "partition_broadcast" for i in instances])
    copies = np.array([i.op == "tensor_copy" for i in instances])
    owner = np.repeat(np.arange(len(which)), np.diff(start))
    direct = np.unique(tiles[spread[which][owner] & writes & (tiles >= 0)])
    reads_direct = np.isin(tiles, direct) & ~writes & copies[which][owner]
    copied = np.zeros(len(which), dtype=np.bool_)
    copied[owner[reads_direct]] = True
    return np.unique(np.concatenate([direct, tiles[copied[owner] & writes & (tiles >= 0)]]))


def _number(keys: Ints) -> tuple[Ints, Ints]:
    """Distinct rows, and which of them each row is."""
    if not len(keys):
        return np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.int64)
    low = keys.min(axis=0)
    span = keys.max(axis=0) - low + 1
    packed = ((keys[:, 0] - low[0]) * span[1] + keys[:, 1] - low[1]) * span[2] + keys[:, 2] - low[2]
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    return keys[first], inverse.astype(np.int64)


def _rotates(analysis: Analysis, tensor: int) -> bool:
    """Whether the innermost loop around all uses of a tensor may overlap its iterations."""
    uses = uses_by_storage(analysis).get(tensor, [])
    loops = [analysis.loops_of(use.instruction) for use in uses if use.write]
    if not loops:
        return False
    common = [lp for lp in loops[0] if all(lp in chain for chain in loops)]
    if not common:
        return False
    return bool(analysis.trace.loop_kind[common[-1]] == LoopKind.AFFINE)


def _fetch_descriptors(program: Program) -> Floats:
    """Contiguous pieces of the loads of each tile that only loads of constant HBM wrote."""
    owner = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    written = program.operand_write
    fetch = (program.is_load & program.pure)[owner]
    total = np.zeros(len(program.tile_space))
    loads = written & fetch
    loaded = np.zeros(len(program.tile_space))
    np.add.at(total, program.operand_tile[loads], program.descriptors[owner[loads]])
    np.add.at(loaded, program.operand_tile[loads], program.bytes[owner[loads]])
    # A tile that is loaded again and again is fetched once at a time.
    whole = program.tile_bytes * program.tile_partitions
    total *= np.minimum(1.0, whole / np.maximum(loaded, 1.0))
    total[program.operand_tile[written & ~fetch]] = 0.0
    return total


def _partitions(trace: Trace, tensor: int) -> int:
    if trace.tensor_space[tensor] == Space.HBM:
        return 0
    return trace.shape(tensor)[int(trace.tensor_par_dim[tensor])]


def _tile_bytes(analysis: Analysis, tensor: int) -> float:
    trace = analysis.trace
    shape, par = trace.shape(tensor), int(trace.tensor_par_dim[tensor])
    if trace.tensor_space[tensor] == Space.HBM:
        return 0.0
    size = 1
    for extent in shape[par + 1 :]:
        size *= extent
    return float(size * DTYPES[trace.tensor_dtype[tensor]].itemsize)


def _tracked_hbm(analysis: Analysis, instances: list[InstructionInstances]) -> set[int]:
    """HBM tensors that are both written and read."""
    written: set[int] = set()
    read: set[int] = set()
    for item in instances:
        for _, region, write, _ in item.operands:
            if region.space is Space.HBM:
                (written if write else read).add(region.storage)
    roles = analysis.trace.tensor_role
    return {t for t in written & read if roles[t] != TensorRole.INPUT}


def _met_whole(instances: list[InstructionInstances], tracked: set[int]) -> set[int]:
    """Tracked HBM tensors whose accessed pieces never overlap in part: each is its own tile."""
    pieces: dict[int, list[Ints]] = {storage: [] for storage in tracked}
    for item in instances:
        for _, region, _, (_, _, _, f0, f1) in item.operands:
            if region.storage in tracked:
                pieces[region.storage].append(np.stack(np.broadcast_arrays(f0, f1)).reshape(2, -1))
    whole = set()
    for storage, found in pieces.items():
        low, high = np.unique(np.concatenate(found, axis=1), axis=1)
        if np.all(low[1:] > high[:-1]):
            whole.add(storage)
    return whole
