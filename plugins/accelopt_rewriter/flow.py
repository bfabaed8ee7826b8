"""The flow of data between statements: which one can be folded into which."""

from __future__ import annotations

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.parts import Op, Ref


def producer_of(
    kernel: Kernel, ref: Ref, consumer: Op, *, uses: int = 1, until: Op | None = None
) -> Op | None:
    """The statement whose result `consumer` reads as `ref`, when it may be folded into it.

    It may when both are in the same block under the same mask, nobody else sees the result,
    and nothing the producer reads changes in between.

    Args:
        ref: what is read.
        consumer: who reads it.
        uses: how often the consumer may mention it.
        until: where the folded statement will stand, if that is not the consumer's place.
    """
    before = [
        op
        for op in kernel.writers.get(ref.name, [])
        if op.order < consumer.order and op.block == consumer.block
    ]
    if not before:
        return None
    found = before[-1]
    if found.target is None or found.augmented or found.target.key != ref.key:
        return None
    if kernel.mask_of(found) != kernel.mask_of(consumer):
        return None
    if sum(r.name == ref.name for r in consumer.reads) > uses:
        return None
    between = range(found.order + 1, consumer.order)
    if any(op.order in between for op in kernel.writers[ref.name]):
        return None
    others = [op for op in kernel.readers.get(ref.name, []) if op is not consumer]
    overwrites = (
        consumer.target is not None
        and consumer.target.key == ref.key
        and not consumer.augmented
        and not any(op.order in between for op in others)
    )
    if others and not overwrites:
        return None
    moved = range(found.order + 1, (until or consumer).order)
    inputs = {r.name for r in found.reads}
    if any(op.order in moved for name in inputs for op in kernel.writers.get(name, [])):
        return None
    return found


def is_touched_between(kernel: Kernel, name: str, first: Op, last: Op) -> bool:
    """Whether any statement strictly between two others mentions a tensor."""
    between = range(first.order + 1, last.order)
    mentions = [*kernel.readers.get(name, []), *kernel.writers.get(name, [])]
    return any(op.order in between for op in mentions)


def target_text(consumer: Op, producer: Op | None = None) -> str:
    """What to assign a folded statement to.

    Where the producer created the name that the consumer then updates in place, the name must
    be created by the folded statement.
    """
    assert consumer.target is not None  # noqa: S101 - callers match assignments only
    if consumer.binds:
        return consumer.binds
    if producer is not None and producer.binds == consumer.target.name:
        return producer.binds
    return consumer.target.text
