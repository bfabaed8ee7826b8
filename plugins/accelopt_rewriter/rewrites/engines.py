"""Work that another engine can do, and copies that nobody needs."""

from __future__ import annotations

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.flow import producer_of
from accelopt_rewriter.forms import (
    ONE,
    Activation,
    Const,
    Copy,
    Reciprocal,
    Scalar,
    Step,
)
from accelopt_rewriter.parts import Op, Ref
from accelopt_rewriter.reading import form_of
from accelopt_rewriter.rewrite import Rewrite, Site
from accelopt_rewriter.rewrites.activation_chains import fold


class ReciprocalToScalar(Rewrite):
    """nisa.reciprocal (Vector) -> activation(reciprocal) (Scalar).

    Not of an exponential: the Scalar engine's reciprocal has a limited range, which large inputs
    leave (NKI documentation), while the Vector engine's gives 0 there.
    """

    name = "reciprocal-to-scalar"
    title = "compute reciprocals on the Scalar engine"
    why = "a reciprocal takes the Vector engine several cycles per element, the Scalar engine one"
    relieves = frozenset({"vector"})
    priority = 30

    def sites(self, kernel: Kernel) -> list[Site]:
        """Reciprocals on the Vector engine."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if isinstance(form, Reciprocal) and not _is_exponential(kernel, form.x, op):
                made = Activation("reciprocal", form.x)
                found.append(fold(kernel, op, [], made, "from Vector to Scalar"))
        return found


def _is_exponential(kernel: Kernel, x: Ref, reader: Op) -> bool:
    """Whether a tile holds an exponential, or one with constants added or multiplied."""
    producer = producer_of(kernel, x, reader)
    form = None if producer is None else form_of(kernel, producer)
    if isinstance(form, Activation):
        return form.fn == "exp"
    if isinstance(form, Scalar) and producer is not None:
        return _is_exponential(kernel, form.x, producer)
    return False


class ScaleToScalar(Rewrite):
    """tensor_scalar(multiply by a constant) -> activation(copy, scale)."""

    name = "scale-to-scalar"
    title = "scale tiles on the Scalar engine"
    why = "it evens out two engines when the Vector engine is the busier one"
    relieves = frozenset({"vector"})
    priority = 40

    def sites(self, kernel: Kernel) -> list[Site]:
        """Multiplications by one constant that are not already tied to the Scalar engine."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Scalar) or len(form.steps) != 1:
                continue
            step = form.steps[0]
            if step.op != "multiply" or not isinstance(step.operand, Const):
                continue
            made = Activation("copy", form.x, step.operand)
            found.append(fold(kernel, op, [], made, "from Vector to Scalar"))
        return found


class ScaleToVector(Rewrite):
    """activation(copy, scale) -> tensor_scalar on the Vector engine."""

    name = "scale-to-vector"
    title = "scale tiles on the Vector engine"
    why = "it evens out two engines when the Scalar engine is the busier one"
    relieves = frozenset({"scalar"})
    priority = 41

    def sites(self, kernel: Kernel) -> list[Site]:
        """Scaled copies on the Scalar engine, and steps that may run on either engine."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            made: Scalar | None = None
            if isinstance(form, Activation) and form.fn == "copy" and form.scale != ONE:
                if form.bias is None:
                    made = Scalar(form.x, (Step("multiply", form.scale),), "vector_engine")
            elif isinstance(form, Scalar) and form.engine in ("", "unknown_engine"):
                made = Scalar(form.x, form.steps, "vector_engine")
            if made is not None:
                found.append(fold(kernel, op, [], made, "to Vector"))
        return found


class DropCopy(Rewrite):
    """op into a tile, copy of the tile -> op into the copy."""

    name = "drop-copy"
    title = "drop a copy between two on-chip tiles"
    why = "a whole pass over the tile disappears"
    relieves = frozenset({"vector", "scalar"})
    priority = 18

    def sites(self, kernel: Kernel) -> list[Site]:
        """Copies from SBUF to SBUF of a tile that an element-wise statement has just made."""
        found = []
        for op in kernel.ops:
            form = form_of(kernel, op)
            if not isinstance(form, Copy) or op.target is None:
                continue
            producer = producer_of(kernel, form.x, op)
            if producer is None or producer.call is None:
                continue
            places = {kernel.memory_of(form.x.name), kernel.memory_of(op.target.name)}
            inner = form_of(kernel, producer)
            if places != {"sbuf"} or inner is None or form.x.shape != op.target.shape:
                continue
            found.append(fold(kernel, op, [producer], inner, f"line {producer.line} writes there"))
        return found
