"""Programs of the latency model by hand, at random, and from small kernels."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from hypothesis import strategies as st
from simulator_kernels import traced

from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.latency.compiled import Compiled, compile_trace
from accelopt_simulator.latency.predict import Prediction, predict_on
from accelopt_simulator.latency.program import Program
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Engine, Space

WHOLE = (0, 127, 0, 511)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One tile: bytes per partition, and what it is; `clean` ones come from loads alone."""

    size: float = 1024.0
    space: Space = Space.SBUF
    clean: bool = False
    partitions: int = 128
    storage: int = -1
    sunk: bool = False
    rotates: bool = False


@dataclass(frozen=True, kw_only=True)
class Step:
    """One instance: (tile, box) pairs that it reads and writes."""

    reads: tuple = ()
    writes: tuple = ()
    engine: Engine = Engine.VECTOR
    load: bool = False
    epoch: int = -1
    added: bool = False


def program_of(steps: list[Step], tiles: list[Tile]) -> Program:
    """A program of these instances."""

    def ints(values):
        return np.array(list(values), dtype=np.int64)

    def floats(values):
        return np.array(list(values), dtype=np.float64)

    def bools(values):
        return np.array(list(values), dtype=np.bool_)

    operands = [
        [(tile, False, box) for tile, box in step.reads]
        + [(tile, True, box) for tile, box in step.writes]
        for step in steps
    ]
    flat = [operand for row in operands for operand in row]
    count = len(steps)
    columns = {
        "item": np.arange(count),
        "row": np.zeros(count, dtype=np.int64),
        "engine": ints(step.engine for step in steps),
        "signature": np.arange(count),
        "pure": bools(True for _ in steps),
        "is_load": bools(step.load for step in steps),
        "has_effect": bools(not step.writes for step in steps),
        "adds": bools(False for _ in steps),
        "added": bools(step.added for step in steps),
        "sequential_epoch": ints(step.epoch for step in steps),
        "bytes": floats(0 for _ in steps),
        "descriptors": floats(128 * step.load for step in steps),
        "operand_start": ints(np.concatenate(([0], np.cumsum([len(row) for row in operands])))),
        "operand_tile": ints(tile for tile, _, _ in flat),
        "operand_write": bools(write for _, write, _ in flat),
        "operand_box": ints(side for _, _, box in flat for side in box).reshape(-1, 4),
        "tile_storage": ints(
            k if tile.storage < 0 else tile.storage for k, tile in enumerate(tiles)
        ),
        "tile_space": ints(tile.space for tile in tiles),
        "tile_bytes": floats(tile.size for tile in tiles),
        "tile_partitions": ints(tile.partitions for tile in tiles),
        "tile_fetch_descriptors": floats(128 * tile.clean for tile in tiles),
        "tile_sunk": bools(tile.sunk for tile in tiles),
        "tile_rotates": bools(tile.rotates for tile in tiles),
        "broadcast_tiles": np.empty(0, dtype=np.int64),
    }
    # Columns that no test speaks of.
    rest = {f.name: np.zeros(count, dtype=np.int64) for f in fields(Program)} | columns
    return Program(**rest)


BOXES = st.tuples(
    st.sampled_from([(0, 127), (0, 31), (32, 127)]),
    st.sampled_from([(0, 511), (0, 255), (256, 511), (128, 383)]),
).map(lambda sides: (*sides[0], *sides[1]))


@st.composite
def programs(draw, *, most=24, loops=False, spaces=(Space.SBUF,), sunk=False):
    """(steps, tiles): every read is of a tile that an earlier instance wrote."""
    tiles = draw(
        st.lists(
            st.builds(
                Tile,
                size=st.sampled_from([256.0, 512.0, 1024.0, 2048.0]),
                clean=st.booleans(),
                space=st.sampled_from(spaces),
                partitions=st.sampled_from([128, 64, 32, 1]),
                storage=st.sampled_from([-1, 0, 1]),
                rotates=st.booleans(),
            ),
            min_size=2,
            max_size=8,
        )
    )
    # Tiles of one tensor are alike.
    tiles = [tile if tile.storage < 0 else replace(tiles[tile.storage], storage=tile.storage)
             for tile in tiles]  # fmt: skip
    if sunk:
        tiles = [replace(t, sunk=t.clean and t.space is Space.SBUF) for t in tiles]
    steps: list[Step] = []
    # A sunk tile is there without a load.
    written = [at for at, tile in enumerate(tiles) if tile.sunk]
    for at in range(draw(st.integers(1, most))):
        epoch = at // 5 if loops else -1
        tile = draw(st.integers(0, len(tiles) - 1))
        if tiles[tile].sunk:
            steps.append(Step(reads=((tile, draw(BOXES)),), epoch=epoch))
            continue
        if tiles[tile].clean:
            step = Step(writes=((tile, WHOLE),), engine=Engine.DMA, load=True, epoch=epoch)
        else:
            reads = draw(st.lists(st.sampled_from(written), max_size=2)) if written else []
            engine = draw(st.sampled_from([Engine.VECTOR, Engine.SCALAR, Engine.TENSOR]))
            step = Step(
                reads=tuple((read, draw(BOXES)) for read in reads),
                writes=((tile, draw(BOXES)),),
                engine=engine,
                epoch=epoch,
                added=draw(st.booleans()) and loops,
            )
        steps.append(step)
        written.append(tile)
    return steps, tiles


def room_for_each(steps, tiles, capacity):
    """At least what one instance needs: every kernel that passed the constraints fits so."""

    def size(step):
        used = {t for t, _ in step.reads + step.writes}
        return sum(tiles[t].size for t in used if tiles[t].space is Space.SBUF)

    return max([capacity, *map(size, steps)])


def compiled(text, *arguments, timing=TRN1_TIMING, **changes) -> Compiled:
    """A kernel as the model's compiler leaves it."""
    timing = replace(timing, **changes)
    return compile_trace(Analysis(traced(text, *arguments)), TRN1, timing)


def predicted(text, *arguments, timing=TRN1_TIMING, device=TRN1, **changes) -> Prediction:
    """What the model predicts of a kernel."""
    return predict_on(traced(text, *arguments), device, replace(timing, **changes))


def counts(found: Compiled) -> dict[str, int]:
    """How often each kind of instruction is left."""
    result: dict[str, int] = {}
    for item in found.program.item:
        name = found.items[item].op
        if name == "nc_matmul" and found.items[item].attrs.get("is_transpose"):
            name = "nc_transpose"
        if name == "dma_copy":
            stores = any(write and region.space is Space.HBM
                         for _, region, write, _ in found.items[item].operands)  # fmt: skip
            name = "store" if stores else "load"
        result[name] = result.get(name, 0) + 1
    return result
