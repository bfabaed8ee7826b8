"""The tracing session: where instructions go while a kernel runs, and which line it is at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelopt_simulator.frontend.faults import KernelFault, unsupported
from accelopt_simulator.frontend.index import Index, as_index
from accelopt_simulator.trace.builder import (
    Access,
    Affine,
    Instruction,
    Operand,
    Predicate,
    TraceBuilder,
)
from accelopt_simulator.trace.schema import Engine, LoopKind

MAX_WARNINGS = 10
"""Warnings that are reported in all."""

MAX_WARNINGS_PER_RULE = 3
"""Of more, the lines are listed."""

MAX_KEPT_WARNINGS = 200

MAX_INSTRUCTIONS = 4_000_000
"""More than any real kernel; a runaway unrolled loop ends here instead of filling memory."""

KERNEL_FILENAME = "<kernel>"
"""File name the kernel is compiled under, so that its frames can be told from ours."""


class Session:
    """One kernel being traced.

    Attributes:
        builder: what has been recorded.
        predicates: conditions of the enclosing symbolic `if` branches.
        closed_loops: loops that have been left; tiles made in them are out of scope.
        open_branches: numbers of the symbolic `if` branches that are being traced.
        placed: tensors whose addresses the kernel chose itself.
        mutable: tensors of the parameters that may be written.
        grid: SPMD grid the kernel is launched with; empty for none.
        grid_loops: the loops that stand for its axes: instances run one after the other.
        ramps: constant tensors that index expressions are read from, by range.
        registers: accumulator registers by engine, since they were last reset.
        random_seed: tile with the last random seed, or None.
        seed_loops: loops that it was set in.
        draws: random draws since then.
        warnings: what published kernels do although the compiler advises against it; plain
            dictionaries with the fields of `accelopt.Diagnostic`.
    """

    def __init__(self, dialect: str, entry: str) -> None:
        self.builder = TraceBuilder(dialect=dialect, entry=entry)
        self.predicates: list[Predicate] = []
        self.closed_loops: set[int] = set()
        self.open_branches: list[int] = []
        self._branches = 0
        self.placed: set[int] = set()
        self.mutable: list[int] = []
        self.grid: tuple[int, ...] = ()
        self.grid_loops: list[int] = []
        self.ramps: dict[tuple[int, int], int] = {}
        self.registers: dict[Engine, object] = {}
        self.random_seed: object = None
        self.seed_loops: tuple[int, ...] = ()
        self.draws = 0
        self.warnings: list[dict[str, Any]] = []

    def warn(self, rule: str, message: str, *, hint: str = "") -> None:
        """Report something that does not reject the kernel, once per rule and line."""
        line = self.line() or None
        if any((w["rule"], w["line"]) == (rule, line) for w in self.warnings):
            return
        if len(self.warnings) < MAX_KEPT_WARNINGS:
            self.warnings.append(_warning(rule, message, line, hint))

    def reported_warnings(self) -> list[dict[str, Any]]:
        """The warnings, but no flood of them: of one kind a few, the rest in one line."""
        result: list[dict[str, Any]] = []
        for rule in dict.fromkeys(w["rule"] for w in self.warnings):
            same = [w for w in self.warnings if w["rule"] == rule]
            result += same[:MAX_WARNINGS_PER_RULE]
            rest = same[MAX_WARNINGS_PER_RULE:]
            if rest:
                listed = ", ".join(str(w["line"]) for w in rest[:20] if w["line"])
                more = ", ..." if len(rest) > 20 else ""
                message = f"{len(rest)} more of this kind, in line(s) {listed}{more}"
                result.append(_warning(rule, message, None, ""))
        return result[:MAX_WARNINGS]

    def line(self) -> int:
        """Line of the kernel file that is being executed; 0 when there is none."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == KERNEL_FILENAME:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def emit(
        self,
        op: str,
        operands: list[Operand],
        *,
        engine: Engine = Engine.UNKNOWN,
        attrs: dict[str, Any] | None = None,
        predicate: Predicate = (),
    ) -> Instruction:
        """Record an instruction under the current conditions."""
        if len(self.builder.instructions) >= MAX_INSTRUCTIONS:
            raise KernelFault(
                "too_many_instructions",
                "the kernel unrolls into too many instructions",
                limit=MAX_INSTRUCTIONS,
                hint="use nl.affine_range instead of nl.static_range",
            )
        from accelopt_simulator.frontend.indirect import index_operands

        operands = [*operands, *index_operands(op, operands, self.builder.tensors)]
        for _, value in operands:
            if isinstance(value, Access):
                for affine in value.index:
                    self._check_loops(affine)
        for clause in predicate:
            for affine, _ in clause:
                self._check_loops(affine)
        conditions = tuple(clause for outer in self.predicates for clause in outer)
        return self.builder.emit(
            Instruction(op, engine, attrs or {}, conditions + predicate, operands, self.line())
        )

    def _check_loops(self, affine: Affine) -> None:
        """Refuse an index of a loop that has ended.

        Raises:
            KernelFault: it uses one.
        """
        for key, _ in affine.terms:
            if key[0] == "loop" and key[1] in self.closed_loops:
                raise KernelFault(
                    "loop_index_out_of_scope",
                    "a loop index is used after its loop",
                    hint="a traced loop's index has no last value",
                )
            if key[0] in ("floordiv", "mod"):
                self._check_loops(key[1])

    def enter_branch(self, predicate: Predicate) -> None:
        """Record what follows under a condition."""
        self.predicates.append(predicate)
        self.open_branches.append(self._branches)
        self._branches += 1

    def leave_branch(self) -> None:
        """End the innermost condition; tiles made under it are out of scope."""
        self.predicates.pop()
        self.open_branches.pop()

    @property
    def branch(self) -> int:
        """Number of the innermost symbolic branch; -1 for none."""
        return self.open_branches[-1] if self.open_branches else -1

    def branch_open(self, branch: int) -> bool:
        """Whether a tile made in a branch may still be used."""
        return branch < 0 or branch in self.open_branches

    def loop(self, kind: LoopKind, args: tuple[Any, ...]) -> Iterator[Index]:
        """The iterator behind `nl.affine_range` and its kin: yields one symbolic index."""
        start, stop, step = _bounds(args)
        for bound in (start, stop):
            self._check_loops(bound)
        difference = stop - start
        if difference.is_constant and difference.const <= 0:
            return
        loop = self.builder.open_loop(kind, start, stop, step, self.line())
        yield Index(Affine.var(("loop", loop)))
        # Not reached after break, return or an exception: then the loop stays open and
        # `check_finished` refuses the kernel.
        self.builder.close_loop(loop)
        self.closed_loops.add(loop)

    def open_grid(self, grid: tuple[int, ...]) -> None:
        """Start the kernel's body for every program instance.

        An instance may not see another's tiles and must write its own part of the results: just
        what the iterations of nested affine loops may do.
        """
        self.grid = grid
        for extent in grid:
            loop = self.builder.open_loop(LoopKind.AFFINE, Affine(0), Affine(extent), 1, 0)
            self.grid_loops.append(loop)

    def close_grid(self) -> None:
        """End the body of all program instances."""
        for loop in reversed(self.grid_loops):
            self.builder.close_loop(loop)

    @property
    def at_kernel_level(self) -> bool:
        """Whether no loop or condition of the kernel is open."""
        return len(self.builder.open_loops) == len(self.grid_loops) and not self.predicates

    def check_finished(self) -> None:
        """Refuse a kernel that left a traced loop early.

        Raises:
            KernelFault: a loop is still open.
        """
        if len(self.builder.open_loops) > len(self.grid_loops):
            line = self.builder.loops[self.builder.open_loops[-1]].line
            raise KernelFault(
                "loop_left_early",
                f"the loop in line {line} is left by break or return; its body is traced once",
                hint="use a mask or an `if` on the loop index, or nl.static_range",
            )

    def in_scope(self, scope: int) -> bool:
        """Whether a tile made in loop `scope` may still be used."""
        return scope not in self.closed_loops


def _warning(rule: str, message: str, line: int | None, hint: str) -> dict[str, Any]:
    return {"rule": rule, "message": message, "line": line, "hint": hint, "severity": "warning"}


def _bounds(args: tuple[Any, ...]) -> tuple[Affine, Affine, int]:
    if not 1 <= len(args) <= 3:
        raise KernelFault("bad_range", "a loop range takes one to three arguments")
    indices = [as_index(a) for a in args]
    if any(i is None or i.ndim for i in indices):
        raise KernelFault("bad_range", "a loop range needs integers or loop indices")
    affines = [i.affine for i in indices if i is not None]
    if any(key[0] != "loop" for affine in affines for key, _ in affine.terms):
        raise unsupported("a loop bound with // or % of a loop index")
    start, stop = (Affine(0), affines[0]) if len(affines) == 1 else (affines[0], affines[1])
    if len(affines) < 3:
        return start, stop, 1
    if not affines[2].is_constant or affines[2].const <= 0:
        raise KernelFault("bad_range", "the step of a loop range must be a positive constant")
    return start, stop, affines[2].const


_current: list[Session] = []


@contextmanager
def tracing(session: Session) -> Iterator[Session]:
    """Make `session` the current one."""
    _current.append(session)
    try:
        yield session
    finally:
        _current.pop()


def current() -> Session:
    """The session of the kernel being traced.

    Raises:
        KernelFault: no kernel is being traced.
    """
    if not _current:
        raise KernelFault(
            "err_nki_api_outside_of_nki_kernel",
            "an NKI call was made outside of a kernel",
            hint="call it inside the function decorated with nki.jit",
        )
    return _current[-1]
