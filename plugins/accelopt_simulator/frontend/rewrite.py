"""Source rewriting before a kernel is traced, as the real tracer does it.

* `for i in range(...)` in the kernel's own body becomes a sequential loop that is traced once.
* `if` on a loop index becomes two complementary predicates with both branches traced; any other
  `if` runs as Python.
* A name that is bound again in an inner block is compared with what it stood for: shadowing a
  tensor draws a warning.
* A tile is marked when it gets a name (`y = op(...)`) and when it is assigned from anything but a
  fresh result (`x[...] = y`), since that is a copy, while an unnamed result is written in place.

Line numbers are kept, so diagnostics point at the kernel as it was written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from accelopt_simulator.frontend.annotations import check_annotation
from accelopt_simulator.frontend.facades import RefusedError
from accelopt_simulator.frontend.faults import KernelFault
from accelopt_simulator.frontend.index import Index, Mask
from accelopt_simulator.frontend.lower import assign, named
from accelopt_simulator.frontend.session import KERNEL_FILENAME, current
from accelopt_simulator.frontend.structure_rules import AttributeGuard, structure_objection
from accelopt_simulator.frontend.tile import Tile
from accelopt_simulator.source_slice import slice_module
from accelopt_simulator.trace.schema import LoopKind, Space

# No source can spell these names, so none can call or replace what they stand for.
RANGE, BRANCH, NAMED = "<range>", "<branch>", "<named>"
REDUCE, ANNOTATED, WHILE, REBOUND = "<loop_reduce>", "<annotated>", "<while>", "<rebound>"


class _Rewriter(ast.NodeTransformer):
    def __init__(self, kernel_name: str) -> None:
        self.kernel_name = kernel_name
        self.in_kernel = False
        self.depth = 0
        self.count = 0
        # Names bound so far in the blocks around the current statement, function's first.
        self.blocks: list[set[str]] = [set()]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self.in_kernel = self.in_kernel, node.name == self.kernel_name
        arguments = node.args
        listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        blocks, self.blocks = self.blocks, [{a.arg for a in listed}]
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        self.blocks = blocks
        self.in_kernel = outer
        return node

    def _visit_block(self, node: ast.AST) -> None:
        self.blocks.append(set())
        self.generic_visit(node)
        self.blocks.pop()

    def visit_For(self, node: ast.For) -> ast.AST:
        self._visit_block(node)
        call = node.iter
        if (
            self.in_kernel
            and isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
        ):
            call.func = ast.copy_location(ast.Name(RANGE, ast.Load()), call.func)
        return node

    def visit_If(self, node: ast.If) -> Any:
        leaves = any(_leaves(statement) for statement in node.body + node.orelse)
        self._visit_block(node)
        name = f"<if {self.count}>"
        self.count += 1
        test = _call(BRANCH, [node.test, ast.Constant(leaves)], node)
        begin = ast.Assign([ast.Name(name, ast.Store())], test)
        then = ast.If(_method(name, "then"), node.body, [])
        statements: list[ast.stmt] = [begin, then]
        if node.orelse:
            statements.append(ast.If(_method(name, "otherwise"), node.orelse, []))
        statements.append(ast.Expr(_method(name, "end")))
        for statement in statements:
            ast.copy_location(statement, node)
            ast.fix_missing_locations(statement)
        return statements

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        only = node.targets[0]
        if len(node.targets) == 1 and isinstance(only, ast.Name) and _is_loop_reduce(node.value):
            # `name = nl.loop_reduce(...)` updates the tile that the name already has.
            name = ast.copy_location(ast.Name(only.id, ast.Load()), node)
            node.value = _call(REDUCE, [name, node.value], node)
        elif any(isinstance(target, ast.Name) for target in node.targets):
            node.value = _call(NAMED, [node.value], node.value)
            for target in node.targets:
                if isinstance(target, ast.Name):
                    node.value = self._bind(target.id, node.value)
        elif any(isinstance(target, ast.Subscript) for target in node.targets):
            node.value = _mark(node.value)
        return node

    def _bind(self, name: str, value: ast.expr) -> ast.expr:
        """Note that a name is bound; where an outer block has bound it, compare at run time."""
        shadows = self.depth and any(name in block for block in self.blocks[:-1])
        self.blocks[-1].add(name)
        if not shadows:
            return value
        nothing = ast.arguments([], [], None, [], [], None, [])
        before = ast.Lambda(nothing, ast.Name(name, ast.Load()))
        return _call(REBOUND, [ast.Constant(name), before, value], value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None or not isinstance(node.target, ast.Name) or not self.depth:
            return node
        # Python ignores the annotations of local names; NKI checks them.
        value = _call(ANNOTATED, [node.annotation, _call(NAMED, [node.value], node)], node)
        assign = ast.Assign([node.target], value)
        return ast.fix_missing_locations(ast.copy_location(assign, node))

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = _call(WHILE, [node.test], node.test)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        node.value = _mark(node.value)
        return node


def _is_loop_reduce(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "loop_reduce"


def _mark(value: ast.expr) -> ast.expr:
    """Only what an expression has just computed is unnamed: not a variable, not a list's item."""
    if isinstance(value, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare)):
        return value
    return _call(NAMED, [value], value)


def _call(function: str, args: list[ast.expr], at: ast.AST) -> ast.Call:
    call = ast.Call(ast.Name(function, ast.Load()), args, [])
    ast.copy_location(call, at)
    ast.fix_missing_locations(call)
    return call


def _method(name: str, method: str) -> ast.Call:
    attribute = ast.Attribute(ast.Name(name, ast.Load()), method, ast.Load())
    attribute.trusted = True  # type: ignore[attr-defined]  # ours: not guarded
    return ast.Call(attribute, [], [])


def _leaves(node: ast.AST) -> bool:
    """Whether a statement can leave the branch it stands in (break, continue, return)."""
    if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return False
    return any(_leaves(child) for child in ast.iter_child_nodes(node))


class _PlainBranch:
    """A condition that Python could decide."""

    def __init__(self, holds: bool) -> None:
        self.holds = holds

    def then(self) -> bool:
        return self.holds

    def otherwise(self) -> bool:
        return not self.holds

    def end(self) -> None:
        pass


class _SymbolicBranch:
    """A condition on loop indices: both branches are traced, each under its predicate."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.active = False

    def _replace(self, mask: Mask | None) -> None:
        if self.active:
            current().leave_branch()
        self.active = mask is not None
        if mask is not None:
            current().enter_branch(mask.predicate)

    def then(self) -> bool:
        self._replace(self.mask)
        return True

    def otherwise(self) -> bool:
        self._replace(~self.mask)
        return True

    def end(self) -> None:
        self._replace(None)


def branch(test: Any, leaves: bool) -> _PlainBranch | _SymbolicBranch:
    """What an `if` statement of a kernel became."""
    if not isinstance(test, Mask):
        return _PlainBranch(bool(test))
    if test.shape:
        bool(test)  # raises the fault for conditions on an arange
    if leaves:
        raise KernelFault(
            "err_dynamic_control_flow_not_supported",
            "break, continue or return under a condition on a loop index",
            hint="the body is traced once; use masks instead of leaving it",
        )
    return _SymbolicBranch(test)


def traced_range(*args: Any) -> Iterator[Any]:
    """`range` in the kernel's own body: a sequential loop that is traced once."""
    return current().loop(LoopKind.SEQUENTIAL, args)


def while_condition(test: Any) -> bool:
    """The condition of a `while`: only what Python can decide."""
    if isinstance(test, Mask) and test.shape:
        bool(test)  # raises the fault for conditions on an arange
    if isinstance(test, (Tile, Mask, Index)):
        raise KernelFault(
            "err_while_loop_requires_unconditional_entry",
            "a `while` on data or on a loop index may not run at all",
            hint="use a range with a mask",
        )
    return bool(test)


def reduced_name(tile: Any, reduction: Any) -> Any:
    """`name = nl.loop_reduce(...)`: reduces into the tile that the name stands for."""
    assign(tile, reduction)
    return tile


def rebound(name: str, before: Callable[[], Any], value: Any) -> Any:
    """`name = value` in a block, where an outer block has bound the name before."""
    try:
        old = before()
    except NameError:  # in a branch that did not run
        return value
    if isinstance(old, Tile) and isinstance(value, Tile) and old.tensor != value.tensor:
        session = current()
        in_block = (value.scope, value.branch) != (old.scope, old.branch)
        if in_block and value.space is not Space.HBM and session.in_scope(old.scope):
            session.warn(
                "local_variable_shadowed",
                f"{name!r} is a new tensor in this block; the tensor that the name stood for "
                "outside keeps its contents",
                hint=f"write {name}[...] = value to update it, or choose another name",
            )
    return value


def _check_structure(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        message = structure_objection(node)
        if message:
            error = RefusedError(message)
            error.line = getattr(node, "lineno", None)
            raise error


def compile_kernel(
    text: str, kernel_name: str, *, guarded: bool = True
) -> tuple[Any, dict[str, Any]]:
    """Code object of the rewritten file and the names its module needs.

    Args:
        text: the file.
        kernel_name: its kernel.
        guarded: whether attributes are read and changed through the sandbox's guards.

    Raises:
        SyntaxError: the file does not parse.
        RefusedError: it uses Python that the guards can't control.
    """
    needed = slice_module(ast.parse(text, KERNEL_FILENAME), kernel_name)
    if guarded:
        _check_structure(needed)
    tree = _Rewriter(kernel_name).visit(needed)
    if guarded:
        tree = AttributeGuard().visit(tree)
    code = compile(tree, KERNEL_FILENAME, "exec", dont_inherit=True)
    names = {
        RANGE: traced_range,
        BRANCH: branch,
        NAMED: named,
        REDUCE: reduced_name,
        ANNOTATED: check_annotation,
        WHILE: while_condition,
        REBOUND: rebound,
    }
    return code, names
