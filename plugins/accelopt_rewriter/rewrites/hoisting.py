"""Work that a loop repeats without need."""

from __future__ import annotations

import ast
from math import prod

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.edit import Edits
from accelopt_rewriter.indexing import Affine, Span
from accelopt_rewriter.parts import Loop, Op, Ref
from accelopt_rewriter.rewrite import Rewrite, Site
from accelopt_rewriter.source import indented, renamed, substituted, substituted_text

RESIDENT_BUDGET_BYTES = 96 * 1024
"""Per partition, for what a hoisted load keeps in SBUF."""


def resident_bytes(kernel: Kernel) -> int:
    """Bytes per partition of the SBUF tensors that outlive the loops they are filled in."""
    total = 0
    for buffer in kernel.buffers.values():
        fillers, users = kernel.writers.get(buffer.name, []), kernel.readers.get(buffer.name, [])
        shared = any(set(w.loops) & set(r.loops) for w in fillers for r in users)
        if buffer.memory == "sbuf" and users and not shared:
            blocks = prod(buffer.shape[: buffer.partition_axis])
            total += blocks * buffer.tile_bytes
    return total


class HoistLoad(Rewrite):
    """A load that an outer loop repeats -> loaded once, kept in SBUF."""

    name = "hoist-load"
    title = "load what a loop does not change once and keep it in SBUF"
    why = "the same bytes are not fetched again in every iteration"
    relieves = frozenset({"dma"})
    priority = 22

    def sites(self, kernel: Kernel) -> list[Site]:
        """Loads of arguments that do not depend on one of their loops and fit SBUF."""
        found = []
        for op in kernel.ops:
            if op.call is None or kernel.names.callee(op.call) != "nl.load" or not op.loops:
                continue
            made = self._site(kernel, op)
            if made is not None:
                found.append(made)
        return found

    def _site(self, kernel: Kernel, op: Op) -> Site | None:
        call, target = op.call, op.target
        if call is None or target is None or target.shape is None or len(target.shape) != 2:
            return None
        source = kernel.names.argument(call, "src")
        if source is None or any(r.name not in kernel.parameters for r in kernel.refs(call)):
            return None
        if any(kernel.writers.get(r.name) for r in kernel.refs(call)):
            return None
        used = kernel.loop_vars(call)
        free = [loop for loop in op.loops if loop.var not in used and (loop.extent or 0) > 1]
        if not free or kernel.mask_of(op) is not None:
            return None
        outermost = free[0]
        inside = op.loops[op.loops.index(outermost) + 1 :]
        kept = [loop for loop in inside if loop.var in used]
        rows, columns = target.shape
        size = 4 * columns
        for loop in kept:
            if loop.extent is None:
                return None
            size *= loop.extent
        if size + resident_bytes(kernel) > RESIDENT_BUDGET_BYTES:
            return None
        readers = self._readers(kernel, op, target)
        if readers is None:
            return None
        return self._build(kernel, op, call, outermost, kept, readers, (rows, columns))

    def _readers(self, kernel: Kernel, op: Op, target: Ref) -> list[tuple[Op, Ref]] | None:
        """Every mention of the loaded tile; None when one of them is not the whole tile."""
        if len(kernel.writers.get(target.name, [])) != 1:
            return None
        found = []
        for reader in kernel.readers.get(target.name, []):
            if reader.loops[: len(op.loops)] != op.loops:
                return None
            for ref in reader.reads:
                if ref.name == target.name:
                    if ref.key != target.key:
                        return None
                    found.append((reader, ref))
        return found or None

    def _build(
        self,
        kernel: Kernel,
        op: Op,
        call: ast.Call,
        outermost: Loop,
        kept: list[Loop],
        readers: list[tuple[Op, Ref]],
        shape: tuple[int, int],
    ) -> Site:
        nl = kernel.names.nl
        rows, columns = shape
        assert op.target is not None  # noqa: S101 - checked by the caller
        name = kernel.fresh(f"{op.target.name}_all")
        indices = [kernel.fresh(f"{loop.var}_load") for loop in kept]
        renames = {loop.var: index for loop, index in zip(kept, indices, strict=True)}
        extents = "".join(f"{loop.count}, " for loop in kept)
        grid = f"{nl}.arange({rows})[:, None], {nl}.arange({columns})[None, :]"

        def at(names: list[str]) -> str:
            return f"{name}[{''.join(f'{n}, ' for n in names)}{grid}]"

        inlined = kernel.inline(call)
        body = f"{at(indices)} = {substituted(inlined, renames)}"
        for loop, index in reversed(list(zip(kept, indices, strict=True))):
            body = indented(f"for {index} in {nl}.affine_range({loop.count}):", body)
        declaration = (
            f"{name} = {nl}.ndarray(({extents}{nl}.par_dim({rows}), {columns}), "
            f"dtype={self._dtype(kernel, call)}, buffer={nl}.sbuf)"
        )
        edits = Edits()
        edits.insert(outermost.line, declaration, body)
        edits.delete(op.line)
        changes: dict[int, dict[int, str]] = {}
        for reader, ref in readers:
            place = at([loop.var for loop in kept])
            changes.setdefault(reader.line, {})[id(ref.node)] = place
        for reader, _ in readers:
            edits.replace[reader.line] = [renamed(reader.node, changes[reader.line])]
        return Site(op.line, f"out of the loop over {outermost.var}", edits)

    def _dtype(self, kernel: Kernel, call: ast.Call) -> str:
        given = kernel.names.keyword(call, "dtype")
        if given is not None:
            return ast.unparse(given)
        source = next(kernel.refs(call), None)
        return f"{kernel.names.nl}.float32" if source is None else f"{source.name}.dtype"


class HoistBroadcast(Rewrite):
    """A broadcast of a tile that a loop does not change -> made once before the loop."""

    name = "hoist-broadcast"
    title = "broadcast what a loop does not change once, before the loop"
    why = "a broadcast over partitions is a matmul and a copy in every iteration"
    relieves = frozenset({"tensor", "scalar", "latency"})
    priority = 23

    def sites(self, kernel: Kernel) -> list[Site]:
        """Named broadcasts whose source is made outside the loop."""
        found = []
        for op in kernel.ops:
            call = op.call
            if call is None or not op.binds or not op.loops:
                continue
            callee = kernel.names.callee(call)
            if callee not in (".broadcast_to", "nl.broadcast_to") or kernel.loop_vars(call):
                continue
            if len(kernel.writers.get(op.binds, [])) != 1:
                continue
            sources = {r.name for r in op.reads}
            if isinstance(call.func, ast.Attribute):
                sources |= {r.name for r in kernel.refs(call.func.value)}
            writers = [w for name in sources for w in kernel.writers.get(name, [])]
            outside = [loop for loop in op.loops if all(loop not in w.loops for w in writers)]
            if not outside or any(w.order > op.order for w in writers):
                continue
            edits = Edits()
            edits.delete(op.line)
            nl = kernel.names.nl
            edits.insert(outside[0].line, f"{op.binds} = {nl}.copy({ast.unparse(call)})")
            found.append(Site(op.line, f"out of the loop over {outside[0].var}", edits))
        return found


class HoistTranspose(Rewrite):
    """nl.matmul transposes its left operand in every column block -> transposed once."""

    name = "hoist-transpose"
    title = "transpose the left operand once per row block, not in every column block"
    why = "an implicit transpose (and its copy) is paid per matmul; explicit ones can be shared"
    relieves = frozenset({"tensor", "scalar"})
    priority = 19

    def sites(self, kernel: Kernel) -> list[Site]:
        """Matmuls whose left operand does not depend on one of their loops."""
        found = []
        for op in kernel.ops:
            call = op.call
            if call is None or kernel.names.callee(call) != "nl.matmul" or op.target is None:
                continue
            flag = kernel.names.keyword(call, "transpose_x")
            if flag is not None and not (isinstance(flag, ast.Constant) and flag.value is False):
                continue
            if kernel.names.keyword(call, "mask") is not None:
                continue
            made = self._site(kernel, op, call)
            if made is not None:
                found.append(made)
        return found

    def _site(self, kernel: Kernel, op: Op, call: ast.Call) -> Site | None:
        left, right = kernel.names.argument(call, "x"), kernel.names.argument(call, "y")
        x = None if left is None else kernel.ref(left)
        if x is None or left is None or right is None or x.shape is None or len(x.shape) != 2:
            return None
        rows, columns = x.shape
        writers = kernel.writers.get(x.name, [])
        if rows > 128 or columns > 128 or not writers or kernel.memory_of(x.name) != "sbuf":
            return None
        used = kernel.loop_vars(left)
        free = [
            loop
            for loop in op.loops
            if loop.var not in used
            and (loop.extent or 0) > 1
            and all(loop not in w.loops and w.order < op.order for w in writers)
        ]
        if not free:
            return None
        outermost = free[0]
        inside = op.loops[op.loops.index(outermost) + 1 :]
        kept = [loop for loop in inside if loop.var in used]
        if any(loop.extent is None for loop in kept):
            return None
        return self._build(kernel, op, x, ast.unparse(right), outermost, kept)

    def _build(
        self, kernel: Kernel, op: Op, x: Ref, right: str, outermost: Loop, kept: list[Loop]
    ) -> Site:
        nl, nisa = kernel.names.nl, kernel.names.nisa
        rows, columns = x.shape or (0, 0)
        name = kernel.fresh(f"{x.name}_transposed")
        indices = [kernel.fresh(f"{loop.var}_t") for loop in kept]
        renames = {loop.var: index for loop, index in zip(kept, indices, strict=True)}
        offset = Affine()
        for loop in kept:
            offset = offset.times(loop.extent or 1).plus(Affine(0, ((loop.var, 1),)))
        width = " * ".join([*(f"({loop.count})" for loop in kept), str(rows)])
        span = Span(offset.times(rows), rows)
        slot = kernel.reader.text(span)
        here = slot
        for loop in kept:
            here = substituted_text(here, {loop.var: renames[loop.var]})
        source = substituted(kernel.inline(x.node), renames)
        body = f"{name}[0:{columns}, {here}] = {nl}.copy({nisa}.nc_transpose({source}))"
        for loop, index in reversed(list(zip(kept, indices, strict=True))):
            body = indented(f"for {index} in {nl}.affine_range({loop.count}):", body)
        declaration = (
            f"{name} = {nl}.ndarray(({nl}.par_dim({columns}), {width}), "
            f"dtype={x.name}.dtype, buffer={nl}.sbuf)"
        )
        edits = Edits()
        edits.insert(outermost.line, declaration, body)
        assign = "+=" if op.augmented else "="
        assert op.target is not None  # noqa: S101 - checked by the caller
        product = f"{nisa}.nc_matmul({name}[0:{columns}, {slot}], {right})"
        edits.replace[op.line] = [f"{op.binds or op.target.text} {assign} {product}"]
        return Site(op.line, f"out of the loop over {outermost.var}", edits)
