"""Type annotations of tensors: `nt.tensor[128, 512]`, `nt.mutable_tensor` (spec 1.12, 1.17)."""

from __future__ import annotations

from typing import Any

from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.tile import Tile, normalize_shape

MUTABLE = object()
"""`nt.mutable`."""


class TensorAnnotation:
    """What an annotation says.

    Args:
        shape: the shape it asserts; None for any.
        mutable: whether the parameter may be written to.
    """

    def __init__(self, shape: tuple[int, ...] | None = None, *, mutable: bool = False) -> None:
        self.shape = shape
        self.mutable = mutable

    def __getitem__(self, item: Any) -> TensorAnnotation:
        if item is MUTABLE:
            return TensorAnnotation(mutable=True)
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (list, tuple)):
            item = item[0]  # `nt.tensor[[8192, 4096], nl.bfloat16]`: a dummy input's shape and type
        return TensorAnnotation(normalize_shape(item), mutable=self.mutable)


def check_annotation(annotation: Any, value: Any) -> Any:
    """`name: nt.tensor[shape] = value`: the value, when its shape is as annotated.

    Raises:
        KernelFault: it is not.
    """
    if isinstance(annotation, TensorAnnotation) and annotation.shape is not None:
        found = tuple(value.shape) if isinstance(value, Tile) else None
        if found != annotation.shape:
            raise KernelFault(
                "err_annotation_shape_mismatch",
                f"annotated {annotation.shape}, the value has shape {found}",
                required=found,
                limit=annotation.shape,
            )
    return value
