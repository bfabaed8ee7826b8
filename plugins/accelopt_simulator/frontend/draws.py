"""Random draws: `rand` and `dropout`, under the last `random_seed` (spec 2.2, 2.3)."""

from __future__ import annotations

from typing import Any

from accelopt_simulator.dtypes import INT32
from accelopt_simulator.frontend import lower
from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.session import current
from accelopt_simulator.frontend.tile import Tile, new_tensor
from accelopt_simulator.frontend.types import scalar_value
from accelopt_simulator.trace.builder import Affine, Instruction
from accelopt_simulator.trace.schema import Space

DEFAULT_SEED = 0


def seed(value: Any) -> None:
    """Seed the draws that follow: a number, or a tile with one element.

    The seed is kept in a tile of its own; filling it is what seeding costs [prior].
    """
    number = scalar_value(value)
    tile = new_tensor((1, 1), INT32, Space.SBUF, name="random seed")
    if number is not None:
        bits = int(number) % 2**32
        lower.fill(tile, bits - 2**32 if bits >= 2**31 else bits)
    else:
        source = lower.require_tile(value, "seed")
        if source.size != 1:
            raise KernelFault(
                "bad_random_seed", f"a seed has shape {tuple(source.shape)}, not (1, 1)"
            )
        current().emit(
            "tensor_copy", [("dst", tile.access()), ("src", lower.fit(source, (1, 1), "seed"))]
        )
    session = current()
    session.random_seed = tile
    session.seed_loops = tuple(session.builder.open_loops)
    session.draws = 0


def drawn(instruction: Instruction) -> None:
    """Make an instruction the next draw: number it, and say where its seed comes from."""
    session = current()
    attrs: dict[str, Any] = {"seed": DEFAULT_SEED, "draw": session.draws}
    session.draws += 1
    tile = session.random_seed
    if isinstance(tile, Tile):
        if not session.in_scope(tile.scope):
            raise unsupported("a random seed that is set in a loop and used after it")
        instruction.operands.append(("seed", tile.access()))
        if session.seed_loops and session.seed_loops == tuple(session.builder.open_loops):
            attrs["restart"] = True
    instruction.attrs = instruction.attrs | attrs


def dropout(data: Any, rate: Any, *, dtype: int | None, mask: Any) -> Tile:
    """Zero each element with a probability; no rescaling."""
    tile = lower.require_tile(data, "data")
    if isinstance(rate, Tile) and rate.size == 1 != tile.shape[0]:
        rate = lower.broadcast_tile(
            rate.with_grid((1, 1), {("axis", a): Affine(0) for a in range(rate.ndim)}, 0),
            (tile.shape[0], 1),
        )
        rate = lower.named(rate)
    shape = tuple(tile.shape)
    result = lower.compute(
        "dropout",
        [("data", tile.access()), ("rate", lower.column_or_scalar(rate, tile, "rate"))],
        shape=shape,
        dtype=tile.dtype_code if dtype is None else dtype,
        predicate=lower.mask_predicate(mask, shape),
    )
    number_draw(result)
    return result


def number_draw(result: Tile) -> None:
    """Number the draw behind a fresh result."""
    if result.fresh is not None:
        drawn(result.fresh)
