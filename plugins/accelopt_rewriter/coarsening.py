"""Makes a loop over column tiles coarser: what changes, and whether it may."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

from accelopt_rewriter.analysis import CREATORS, Kernel
from accelopt_rewriter.edit import Edits
from accelopt_rewriter.forms import Reduce
from accelopt_rewriter.indexing import Affine, Element, Point, Span
from accelopt_rewriter.parts import Buffer, Loop, Op, Ref
from accelopt_rewriter.reading import form_of
from accelopt_rewriter.source import renamed

SBUF_BUDGET_BYTES = 150 * 1024
"""Per partition, for all live tiles twice (double buffering). Above it real kernels spill."""

PSUM_BANK_BYTES = 2048


class _UnfitError(Exception):
    """The loop can't be widened."""


class Coarsening:
    """One loop over column tiles, to be made `factor` times coarser."""

    def __init__(self, kernel: Kernel, loop: Loop, factor: int) -> None:
        self.kernel, self.loop, self.factor = kernel, loop, factor
        self.body = [op for op in kernel.ops if loop in op.loops and _does_something(op)]
        self.widened: dict[str, int] = {}
        self.changed: dict[int, str] = {}

    @property
    def whole(self) -> bool:
        """Whether the loop disappears."""
        return self.factor == self.loop.extent

    def edits(self) -> Edits | None:
        """The edits, or None when the loop can't be widened."""
        try:
            return self._edits()
        except _UnfitError:
            return None

    def _edits(self) -> Edits:
        if not self.body or any(op.loops[-1] is not self.loop for op in self.body):
            raise _UnfitError
        if any(op.block != self.body[0].block for op in self.body):
            raise _UnfitError
        edits = Edits()
        self._check_statements()
        for _ in range(2):  # the second pass sees which names are wide
            for op in self.body:
                self._references(op)
        for op in self.body:
            self._check_result(op)
            text = renamed(op.node, self.changed)
            if text != ast.unparse(op.node):
                edits.replace[op.line] = [text]
        for name in self.widened:
            self._declaration(name, edits)
        if self.whole:
            edits.unwrap.add(self.loop.line)
        else:
            iterable = self.loop.node.iter
            assert isinstance(iterable, ast.Call)  # noqa: S101 - it has an extent
            count = (self.loop.extent or 0) // self.factor
            edits.loop_iter[self.loop.line] = f"{ast.unparse(iterable.func)}({count})"
            return edits
        return edits

    def _check_statements(self) -> None:
        names = self.kernel.names
        for op in self.body:
            callee = names.callee(op.call) if op.call is not None else ""
            if callee in ("nl.load", "nl.store") or callee in CREATORS:
                pass
            elif form_of(self.kernel, op) is None and callee != "nisa.scalar_tensor_tensor":
                raise _UnfitError
            if isinstance(form_of(self.kernel, op), Reduce):
                raise _UnfitError
            mask = names.keyword(op.call, "mask")
            if mask is not None and self._mask_matters(mask):
                raise _UnfitError

    def _mask_matters(self, mask: ast.expr) -> bool:
        """Whether a mask depends on the loop or on columns."""
        if self.loop.var in self.kernel.loop_vars(mask):
            return True
        for node in ast.walk(self.kernel.inline(mask)):
            if isinstance(node, ast.Subscript):
                element = self.kernel.reader.element(node, None)
                if isinstance(element, Span) and element.axis != 0:
                    return True
        return False

    def _references(self, op: Op) -> None:
        seen = [*op.reads, *op.writes]
        for ref in seen:
            self._reference(ref)
        if op.binds and op.target is not None and not self._is_creation(op):
            shape = op.target.shape
            if shape is not None and shape[-1] > 1:
                self.widened.setdefault(op.binds, shape[-1])
        elif op.binds and self._is_creation(op):
            buffer = self.kernel.buffers.get(op.binds)
            if buffer is None:
                raise _UnfitError
            self.widened.setdefault(op.binds, buffer.shape[-1])

    def _is_creation(self, op: Op) -> bool:
        return op.call is not None and self.kernel.names.callee(op.call) in CREATORS

    def _reference(self, ref: Ref) -> None:
        """Work out the new subscripts of one mention."""
        if ref.elements is None:
            if ref.name in self.widened or ref.is_column:
                return
            if ref.name in self.kernel.parameters or ref.name in self.kernel.buffers:
                raise _UnfitError
            return
        var, factor = self.loop.var, self.factor
        using = [i for i, e in enumerate(ref.elements) if var in e.names]
        last = ref.elements[-1]
        if not using:
            if ref.is_column:
                return
            local = any(o.binds == ref.name and self.loop in o.loops for o in self.kernel.ops)
            if not local or not isinstance(last, Span) or last.start != Affine():
                raise _UnfitError
            self._rewrite(ref, [*ref.elements[:-1], last.resized(last.size * factor)])
            return
        at = using[0]
        element = ref.elements[at]
        if len(using) > 1:
            raise _UnfitError
        if isinstance(element, Span):
            if at != len(ref.elements) - 1 or element.start.coefficient(var) != element.size:
                raise _UnfitError
            wide = self._step(element.start, element.size * factor)
            made = replace(element, start=wide, size=element.size * factor)
            self._rewrite(ref, [*ref.elements[:-1], made])
            return
        buffer = self.kernel.buffers.get(ref.name)
        if buffer is None or not isinstance(element, Point) or at >= buffer.partition_axis:
            raise _UnfitError
        if element.at != Affine(0, ((var, 1),)) or not isinstance(last, Span):
            raise _UnfitError
        if last.start != Affine() or last.size != buffer.shape[-1]:
            raise _UnfitError
        elements: list[Element] = [*ref.elements[:-1], last.resized(last.size * factor)]
        if self.whole:
            del elements[at]
        self._rewrite(ref, elements)
        self.widened[ref.name] = last.size

    def _step(self, start: Affine, step: int) -> Affine:
        return start.with_coefficient(self.loop.var, 0 if self.whole else step)

    def _rewrite(self, ref: Ref, elements: list[Element]) -> None:
        inside = ", ".join(self.kernel.reader.text(e) for e in elements)
        self.changed[id(ref.node)] = f"{ref.name}[{inside}]"

    def _check_result(self, op: Op) -> None:
        """Every statement must make a wide tile: a column of it would mean something else now."""
        target = op.target
        if target is not None and target.is_column and all(r.is_column for r in op.reads):
            return
        if target is None or op.binds:
            if op.binds and op.binds not in self.widened:
                raise _UnfitError
            return
        if id(target.node) not in self.changed and target.name not in self.widened:
            raise _UnfitError

    def _declaration(self, name: str, edits: Edits) -> None:
        buffer = self.kernel.buffers.get(name)
        if buffer is None:
            return
        uses = [*self.kernel.readers.get(name, []), *self.kernel.writers.get(name, [])]
        if any(self.loop not in op.loops for op in uses):
            raise _UnfitError
        if buffer.memory == "psum" and buffer.tile_bytes * self.factor > PSUM_BANK_BYTES:
            raise _UnfitError
        if buffer.memory not in ("sbuf", "psum"):
            raise _UnfitError
        edits.replace[buffer.op.line] = [self._redeclared(buffer)]

    def _redeclared(self, buffer: Buffer) -> str:
        node = copy.deepcopy(buffer.op.node)
        assert isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)  # noqa: S101, PT018
        shape = self.kernel.names.argument(node.value, "shape")
        assert isinstance(shape, ast.Tuple | ast.List)  # noqa: S101 - it was evaluated
        shape.elts[-1] = ast.Constant(buffer.shape[-1] * self.factor)
        axis = self._block_axis(buffer)
        if axis is not None:
            if self.whole:
                del shape.elts[axis]
            else:
                shape.elts[axis] = ast.Constant(buffer.shape[axis] // self.factor)
        return ast.unparse(node)

    def _block_axis(self, buffer: Buffer) -> int | None:
        axes = {
            position
            for op in self.body
            for ref in (*op.reads, *op.writes)
            if ref.name == buffer.name and ref.elements is not None
            for position, element in enumerate(ref.elements)
            if isinstance(element, Point) and self.loop.var in element.names
        }
        if len(axes) > 1:
            raise _UnfitError
        for axis in axes:
            if buffer.shape[axis] != self.loop.extent:
                raise _UnfitError
            return axis
        return None

    def live_bytes(self) -> int:
        """Most bytes per partition that are alive at once in the widened body, twice."""
        spans: dict[str, tuple[int, int, int]] = {}
        for op in self.body:
            for ref in (*op.reads, *op.writes):
                if self.kernel.memory_of(ref.name) != "sbuf" or ref.shape is None:
                    continue
                size = 4 * ref.shape[-1] * (1 if ref.is_column else self.factor)
                first, _, most = spans.get(ref.name, (op.order, op.order, 0))
                spans[ref.name] = (first, op.order, max(most, size))
        peak = max(
            (
                sum(size for first, last, size in spans.values() if first <= op.order <= last)
                for op in self.body
            ),
            default=0,
        )
        return 2 * peak


def _does_something(op: Op) -> bool:
    return not (isinstance(op.node, ast.Expr) and isinstance(op.node.value, ast.Constant))
