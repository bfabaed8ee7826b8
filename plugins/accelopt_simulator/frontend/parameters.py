"""Kernel parameters and results: inputs, parameters that may be written, outputs (spec 1.17)."""

from __future__ import annotations

from typing import Any

from accelopt_simulator.dtypes import code_of
from accelopt_simulator.frontend.annotations import TensorAnnotation
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.session import Session
from accelopt_simulator.frontend.tile import Tile, new_tensor, whole_index
from accelopt_simulator.trace.schema import Space, TensorRole

ArgumentSpec = tuple[tuple[int, ...], str] | float | int
"""`(shape, dtype name)` of an array, or the number itself."""


def make_arguments(function: Any, specs: tuple[ArgumentSpec, ...], session: Session) -> list[Any]:
    """The values a kernel is called with.

    Raises:
        KernelFault: the kernel takes another number of arguments.
    """
    code = function.__code__
    most = code.co_argcount
    least = most - len(function.__defaults__ or ())
    variable = bool(code.co_flags & 0x04)
    if len(specs) < least or (len(specs) > most and not variable):
        raise KernelFault(
            "wrong_number_of_arguments",
            f"the task calls the kernel with {len(specs)} arguments, it takes {most}",
            required=most,
            limit=len(specs),
        )
    names = code.co_varnames[:most]
    annotations = getattr(function, "__annotations__", {})
    arguments: list[Any] = []
    for index, spec in enumerate(specs):
        name = names[index] if index < most else f"arg{index}"
        if not isinstance(spec, tuple):
            arguments.append(spec)
            continue
        tensor = _input(spec, index, name)
        annotation = annotations.get(name)
        if _is_mutable(annotation):
            tensor = _mutable(tensor, name, session)
        arguments.append(tensor)
    return arguments


def _is_mutable(annotation: Any) -> bool:
    # Under `from __future__ import annotations` an annotation is text.
    if isinstance(annotation, str):
        return "mutable" in annotation
    return isinstance(annotation, TensorAnnotation) and annotation.mutable


def _input(spec: tuple[tuple[int, ...], str], index: int, name: str) -> Tile:
    shape, dtype = spec
    # By name: NumPy knows `bfloat16` only after `ml_dtypes` was imported.
    return new_tensor(
        tuple(shape), code_of(dtype), Space.HBM, role=TensorRole.INPUT, index=index, name=name
    )


def _mutable(source: Tile, name: str, session: Session) -> Tile:
    """A parameter that may be written: an output that starts with the argument's contents.

    On the device it is the same memory, so the copy in the trace takes no time there.
    """
    target = new_tensor(tuple(source.shape), source.dtype_code, Space.HBM, name=name)
    grid = source.shape if source.ndim >= 2 else (*source.shape, 1)
    session.emit(
        "dma_copy",
        [("dst", target.access(tuple(grid))), ("src", source.access(tuple(grid)))],
        attrs={"in_place_argument": True},
    )
    session.mutable.append(target.tensor)
    return target


def declare_outputs(results: Any, session: Session) -> None:
    """Mark the returned tensors as the kernel's outputs.

    Raises:
        KernelFault: something else than whole HBM tensors is returned, or a mutable parameter is
            not.
    """
    values = list(results) if isinstance(results, (list, tuple)) else [results]
    if not values or any(not isinstance(v, Tile) for v in values):
        raise KernelFault(
            "err_tensor_output_not_written_to",
            "the kernel does not return a tensor",
            hint="return the shared_hbm tensor that holds the result",
        )
    seen: set[int] = set()
    for index, tile in enumerate(values):
        row = session.builder.tensors[tile.tensor]
        if tile.space is not Space.HBM:
            raise KernelFault(
                "err_unsupported_memory",
                f"the kernel returns a tensor in {tile.space.name.lower()}",
                limit="hbm",
                hint="store it to a shared_hbm tensor and return that",
            )
        if row.role is not TensorRole.LOCAL or tile.tensor in seen:
            raise KernelFault("bad_result", "the kernel returns an input, or the same tensor twice")
        if row.alias >= 0 or tile.index != whole_index(row.shape):
            raise KernelFault("bad_result", "the kernel returns a view; return the whole tensor")
        row.role, row.index = TensorRole.OUTPUT, index
        seen.add(tile.tensor)
    for tensor in session.mutable:
        if tensor not in seen:
            raise KernelFault(
                "err_mutable_parameter_not_returned",
                f"parameter {session.builder.tensors[tensor].name!r} is mutable but not returned",
                hint="return it",
            )
