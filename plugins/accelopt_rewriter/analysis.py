"""What a kernel does, statement by statement: loops, buffers and the flow of data between them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from accelopt.entry_point import find_entry
from accelopt.errors import TaskError
from accelopt.parsing import parse_python
from accelopt_rewriter.indexing import Element, Opaque, Reader, Span, grid_shape
from accelopt_rewriter.names import Names, tail
from accelopt_rewriter.parts import Buffer, Loop, Op, Ref
from accelopt_rewriter.shapes import result_shape
from accelopt_rewriter.static import Value, evaluate

CREATORS = frozenset({"nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.empty_like"})
_SIDE_OUTPUTS = frozenset({"reduce_res", "dst", "dst_idx"})
_PURE_METHODS = frozenset(
    {".broadcast_to", ".reshape", ".astype", ".view", ".expand_dims", ".type", ".dtype"}
)
_PSUM_RESULTS = frozenset({"nl.matmul", "nl.transpose", "nisa.nc_matmul", "nisa.nc_transpose"})


@dataclass
class Kernel:
    """A parsed kernel.

    Args:
        text: the file.
        arguments: shape or value of each kernel argument, None where unknown.
    """

    text: str
    arguments: Sequence[Value | None] = ()
    env: dict[str, Value] = field(init=False, default_factory=dict)
    aliases: dict[str, ast.expr] = field(init=False, default_factory=dict)
    ops: list[Op] = field(init=False, default_factory=list)
    loops: list[Loop] = field(init=False, default_factory=list)
    buffers: dict[str, Buffer] = field(init=False, default_factory=dict)
    forms: dict[int, Any] = field(init=False, default_factory=dict)
    """Normal forms by statement, kept by `reading.form_of`."""
    found: dict[str, Any] = field(init=False, default_factory=dict)
    """Sites by rewrite, kept by `Rewrite.find`."""

    def __post_init__(self) -> None:
        tree = parse_python(self.text)
        entry = find_entry(self.text)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        if entry not in functions:
            raise TaskError(f"{entry} is not a plain function")
        self.function = functions[entry]
        self.names = Names.of(tree)
        self.parameters = [a.arg for a in self.function.args.args]
        for name, value in zip(self.parameters, self.arguments, strict=False):
            if value is not None:
                self.env[name] = value
        nodes = list(ast.walk(self.function))
        self._used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        self._reserved: set[str] = set()
        self._shapes: dict[str, tuple[int, ...] | None] = {}
        self._masks: dict[int, str | None] = {}
        loop_names = {
            node.target.id
            for node in nodes
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
        }
        self.loop_names = frozenset(loop_names)
        self.reader = Reader(self.env, self.loop_names, self.names.nl, self.inline)
        self._learn_names(nodes)
        self._walk(self.function.body, (), ())

    # --- reading -------------------------------------------------------------------------------

    def _learn_names(self, nodes: Sequence[ast.AST]) -> None:
        """Sort assigned names into values, index aliases and tensors."""
        assigned: dict[str, list[ast.expr]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(value)
                elif isinstance(target, ast.Tuple):
                    self._unpack(target, value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                assigned.setdefault(node.target.id, []).extend([node.value] if node.value else [])
        self.tensors = {p for p in self.parameters if not isinstance(self.env.get(p), int | float)}
        self._values = assigned
        for name, values in assigned.items():
            known = evaluate(values[0], self.env) if len(values) == 1 else None
            if known is not None:
                self.env[name] = known
            elif len(values) == 1 and self._is_index(values[0]):
                self.aliases[name] = values[0]
            else:
                self.tensors.add(name)
        # Names that are bound in any other way: nothing is known about them.
        bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.tensors |= bound - set(self.env) - set(self.aliases) - self.loop_names

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> None:
        known = evaluate(value, self.env)
        if isinstance(known, tuple) and len(known) == len(target.elts):
            for item, extent in zip(target.elts, known, strict=True):
                if isinstance(item, ast.Name):
                    self.env[item.id] = extent

    def _is_index(self, value: ast.expr) -> bool:
        """Whether a value is an index or a mask: arithmetic of loop indices and `arange`."""
        if isinstance(value, ast.Compare):
            return any(tail(n) == "arange" for n in ast.walk(value) if isinstance(n, ast.Call))
        return not isinstance(self.reader.element(value, None), Opaque)

    def inline(self, node: ast.expr) -> ast.expr:
        """`node` with index aliases replaced by what they stand for."""
        aliases = self.aliases
        if not aliases:
            return node
        if not any(isinstance(n, ast.Name) and n.id in aliases for n in ast.walk(node)):
            return node

        class Substitute(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.expr:
                if name.id in aliases:
                    inner: ast.expr = self.visit(copy.deepcopy(aliases[name.id]))
                    return inner
                return name

        result: ast.expr = Substitute().visit(copy.deepcopy(node))
        return result

    def _walk(
        self, body: Sequence[ast.stmt], loops: tuple[Loop, ...], block: tuple[int, ...]
    ) -> None:
        for statement in body:
            if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
                loop = self._loop(statement)
                self.loops.append(loop)
                self._walk(statement.body, (*loops, loop), (*block, statement.lineno))
            elif isinstance(statement, ast.If | ast.With | ast.While | ast.For):
                self._header(statement, loops, block)
                for part in ("body", "orelse"):
                    inner = getattr(statement, part, [])
                    where = (*block, statement.lineno, 0 if part == "body" else 1)
                    self._walk(inner, loops, where)
            else:
                self._add(statement, loops, block)

    def _header(self, node: ast.stmt, loops: tuple[Loop, ...], block: tuple[int, ...]) -> None:
        """Record what the condition of an `if` or `while`, or the head of a `with`, mentions."""
        heads = [getattr(node, name, None) for name in ("test", "iter")]
        heads += [item.context_expr for item in getattr(node, "items", [])]
        mentioned = tuple(r for head in heads if head is not None for r in self._mentioned(head))
        if mentioned:
            op = Op(len(self.ops), node.lineno, node, loops, block, reads=mentioned)
            self.ops.append(op)

    def _loop(self, node: ast.For) -> Loop:
        kind, extent = "", None
        if isinstance(node.iter, ast.Call):
            kind = tail(node.iter)
            if len(node.iter.args) == 1:
                value = evaluate(node.iter.args[0], self.env)
                extent = value if isinstance(value, int) else None
        var = node.target.id if isinstance(node.target, ast.Name) else ""
        return Loop(var, node.lineno, kind, extent, node)

    def _add(self, node: ast.stmt, loops: tuple[Loop, ...], block: tuple[int, ...]) -> None:
        order, line = len(self.ops), node.lineno
        target: Ref | None = None
        binds = ""
        value: ast.expr | None = None
        place: ast.expr | None = None
        augmented = isinstance(node, ast.AugAssign)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            value, place = node.value, node.targets[0]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            value, place = node.value, node.target
        elif isinstance(node, ast.Expr | ast.Return):
            value = node.value
        if not isinstance(place, ast.Name | ast.Subscript | None):
            value = None
        if value is None:
            # Something rare: whatever it mentions may be read and, unless it only asserts, written.
            reads = list(self._mentioned(node))
            writes = [] if isinstance(node, ast.Assert) else reads
            rare = Op(order, line, node, loops, block, reads=tuple(reads), writes=tuple(writes))
            self.ops.append(rare)
            return
        if isinstance(place, ast.Name) and place.id in self.tensors:
            binds = "" if augmented else place.id
            if binds:
                self._declare(place.id, Op(order, line, node, loops, block, value=value))
            target = self.ref(place)
        elif isinstance(place, ast.Subscript):
            target = self.ref(place)
        reads = list(self.refs(value))
        writes = ([target] if target is not None else []) + self._written(value)
        if augmented and target is not None:
            reads.append(target)
        if isinstance(place, ast.Subscript):
            reads += self.refs(place.slice)
        self.ops.append(
            Op(
                order, line, node, loops, block, target, binds, augmented, value,
                tuple(reads), tuple(writes),
            )
        )  # fmt: skip

    def _mentioned(self, node: ast.AST) -> Iterator[Ref]:
        for child in ast.walk(node):
            found = self.ref(child) if isinstance(child, ast.Name) else None
            if found is not None:
                yield found

    def _written(self, value: ast.expr) -> list[Ref]:
        """Tensors that an expression's calls write beside returning something."""
        writes: list[Ref] = []
        for call in (n for n in ast.walk(value) if isinstance(n, ast.Call)):
            callee = self.names.callee(call)
            for keyword in call.keywords:
                if keyword.arg in _SIDE_OUTPUTS:
                    writes += self.refs(keyword.value)
            if callee == "nl.store" and call.args:
                writes += self.refs(call.args[0])
            if not callee or (callee.startswith(".") and callee not in _PURE_METHODS):
                # A helper of the file: it may write what it is given.
                for argument in (*call.args, *(k.value for k in call.keywords)):
                    writes += self.refs(argument)
        return writes

    def _declare(self, name: str, op: Op) -> None:
        call = op.call
        if call is None or self.names.callee(call) not in CREATORS or name in self.buffers:
            return
        shape_node = self.names.argument(call, "shape")
        shape = evaluate(shape_node, self.env) if shape_node is not None else None
        if not isinstance(shape, tuple) or not isinstance(shape_node, ast.Tuple | ast.List):
            return
        marks = [
            i
            for i, item in enumerate(shape_node.elts)
            if isinstance(item, ast.Call) and tail(item) == "par_dim"
        ]
        memory = self.names.argument(call, "buffer")
        dtype = self.names.argument(call, "dtype")
        self.buffers[name] = Buffer(
            name,
            op,
            shape,
            marks[0] if marks else 0,
            "sbuf" if memory is None else ast.unparse(memory).split(".")[-1],
            None if dtype is None else ast.unparse(dtype),
        )

    # --- tensors -------------------------------------------------------------------------------

    def ref(self, node: ast.expr) -> Ref | None:
        """The mention of a tensor that `node` is, or None."""
        if isinstance(node, ast.Name) and node.id in self.tensors:
            return Ref(node.id, node, None, self.shape_of(node.id))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name not in self.tensors:
                return None
            declared = self.declared_shape(name)
            elements = self.reader.elements(node.slice, declared)
            if elements is not None and _covers(elements, declared):
                elements = None
            shape = self.shape_of(name) if elements is None else grid_shape(elements)
            return Ref(name, node, elements, shape)
        return None

    def refs(self, node: ast.expr) -> Iterator[Ref]:
        """All mentions of tensors in an expression, outermost first."""
        found = self.ref(node)
        if found is not None:
            yield found
            if isinstance(node, ast.Subscript):
                yield from self.refs(node.slice)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                yield from self.refs(child.value)
            elif isinstance(child, ast.expr):
                yield from self.refs(child)

    def declared_shape(self, name: str) -> tuple[int, ...] | None:
        """Full shape of a tensor, block axes included; None when unknown."""
        if name in self.buffers:
            return self.buffers[name].shape
        value = self.env.get(name)
        return value if isinstance(value, tuple) else self.shape_of(name)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Shape of a tensor mentioned without subscripts; None when unknown."""
        if name not in self._shapes:
            self._shapes[name] = None  # ends recursion of a name defined through itself
            self._shapes[name] = self._infer(name)
        return self._shapes[name]

    def _infer(self, name: str) -> tuple[int, ...] | None:
        if name in self.buffers:
            return self.buffers[name].shape
        value = self.env.get(name)
        if isinstance(value, tuple):
            return value
        shapes = {result_shape(self, value) for value in self._values.get(name, [])}
        # A name that stands for tiles of different shapes says nothing about either.
        return shapes.pop() if len(shapes) == 1 else None

    def memory_of(self, name: str) -> str:
        """`hbm`, `sbuf` or `psum`."""
        if name in self.buffers:
            memory = self.buffers[name].memory
            return "hbm" if memory.endswith("hbm") else memory
        if name in self.parameters:
            return "hbm"
        for op in self.ops:
            if op.binds == name and op.call is not None:
                return "psum" if self.names.callee(op.call) in _PSUM_RESULTS else "sbuf"
        return "sbuf"

    def loop_vars(self, node: ast.AST | None) -> frozenset[str]:
        """Loop indices an expression depends on, through aliases too."""
        if node is None:
            return frozenset()
        full = self.inline(node) if isinstance(node, ast.expr) else node
        return frozenset(
            n.id for n in ast.walk(full) if isinstance(n, ast.Name) and n.id in self.loop_names
        )

    def fresh(self, base: str) -> str:
        """A name the file does not use; reserved until `release_names`."""
        name, number = base, 1
        while name in self._used or name in self._reserved:
            number += 1
            name = f"{base}_{number}"
        self._reserved.add(name)
        return name

    def release_names(self) -> None:
        """Forget reserved names, so that what one rewrite looked at does not change another's."""
        self._reserved.clear()

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """Tensor name -> statements that read it."""
        table: dict[str, list[Op]] = {}
        for op in self.ops:
            for name in {r.name for r in op.reads}:
                table.setdefault(name, []).append(op)
        return table

    @cached_property
    def writers(self) -> dict[str, list[Op]]:
        """Tensor name -> statements that write it, declarations left out."""
        table: dict[str, list[Op]] = {}
        for op in self.ops:
            if op.binds and op.call is not None and self.names.callee(op.call) in CREATORS:
                continue
            for name in {r.name for r in op.writes}:
                table.setdefault(name, []).append(op)
        return table

    def mask_of(self, op: Op) -> str | None:
        """Source of a statement's mask with aliases replaced; None without one."""
        if op.order not in self._masks:
            node = self.names.keyword(op.call, "mask") if op.call is not None else None
            absent = node is None or (isinstance(node, ast.Constant) and node.value is None)
            self._masks[op.order] = (
                None if node is None or absent else ast.unparse(self.inline(node))
            )
        return self._masks[op.order]


@lru_cache(maxsize=16)
def read_kernel(text: str, arguments: tuple[Value | None, ...]) -> Kernel:
    """The analysis of a kernel, kept for the next one who asks.

    Raises:
        SyntaxError: the text is not Python.
        TaskError: it has no kernel function.
    """
    return Kernel(text, arguments)


def _covers(elements: Sequence[Element], shape: tuple[int, ...] | None) -> bool:
    """Whether subscripts address the whole of a tensor without block axes."""
    return (
        shape is not None
        and len(shape) == 2
        and len(elements) == 2
        and all(
            isinstance(e, Span) and not e.start.terms and e.start.const == 0 and e.size == extent
            for e, extent in zip(elements, shape, strict=True)
        )
    )
