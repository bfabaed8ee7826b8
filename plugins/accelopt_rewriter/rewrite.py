"""What a rewrite is, and how one is carried out."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock

from accelopt.parsing import parse_python
from accelopt_rewriter.analysis import Kernel, read_kernel
from accelopt_rewriter.edit import Edits, apply_edits
from accelopt_rewriter.static import Value

REWRITING = RLock()
"""Held while kernels are rewritten: the work is pure Python, so threads would only repeat it."""

_REPEATS = 200
"""No kernel has this many sites; it only ends a rewrite that would feed itself."""


@dataclass(frozen=True)
class Site:
    """One place a rewrite applies to.

    Attributes:
        line: where, for people and for plans.
        what: what is done there, half a sentence.
        edits: how.
    """

    line: int
    what: str
    edits: Edits


class Rewrite(ABC):
    """One pattern and its replacement, right for every kernel it matches.

    Attributes:
        name: as plans write it.
        title: one line.
        why: what it is good for.
        relieves: engines that have less to do afterwards (`dma`, `vector`, `scalar`, `tensor`).
        priority: order between rewrites that relieve equally busy engines; small comes first.
    """

    name: str
    title: str
    why: str
    relieves: frozenset[str]
    priority: int

    @abstractmethod
    def sites(self, kernel: Kernel) -> list[Site]:
        """Work out every place it applies to, in the order of the file."""

    def find(self, kernel: Kernel) -> list[Site]:
        """Every place it applies to, in the order of the file; worked out once per kernel."""
        if self.name not in kernel.found:
            kernel.release_names()
            kernel.found[self.name] = self.sites(kernel)
        found: list[Site] = kernel.found[self.name]
        return found

    def apply(self, kernel: Kernel, site: Site) -> str:
        """The kernel's text with the rewrite carried out at `site`."""
        return self._carry_out(kernel, site.edits)

    def _carry_out(self, kernel: Kernel, edits: Edits) -> str:
        text = apply_edits(kernel.text, edits)
        text = _with_isa_import(kernel, text)
        return _without_unused(text, kernel)

    def apply_everywhere(self, text: str, arguments: Sequence[Value | None]) -> str:
        """The text with the rewrite carried out until it applies nowhere."""
        # Many threads ask the same at once; under the lock the first one works for all.
        with REWRITING:
            return _everywhere(self, text, tuple(arguments))

    def repeat(self, text: str, arguments: Sequence[Value | None]) -> str:
        """`apply_everywhere`, computed."""
        for _ in range(_REPEATS):
            kernel = read_kernel(text, tuple(arguments))
            found = self.find(kernel)
            if not found:
                break
            # Sites that touch different statements don't disturb each other: one pass for all.
            edits = Edits()
            for site in found:
                if not edits.lines & site.edits.lines:
                    edits.merge(site.edits)
            text = self._carry_out(kernel, edits)
        return text


@lru_cache(maxsize=256)
def _everywhere(rewrite: Rewrite, text: str, arguments: tuple[Value | None, ...]) -> str:
    # A planner looks at what an executor is about to do, and at prefixes of the same chains.
    return rewrite.repeat(text, arguments)


def _with_isa_import(kernel: Kernel, text: str) -> str:
    """Import `nki.isa` where the rewritten kernel uses it for the first time."""
    if not kernel.names.needs_isa:
        return text
    tree = parse_python(text)
    if not any(isinstance(n, ast.Name) and n.id == "nisa" for n in ast.walk(tree)):
        return text
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    line = f"import {kernel_root(text)}.isa as nisa\n"
    lines = text.splitlines(keepends=True)
    at = imports[-1].end_lineno if imports and imports[-1].end_lineno else 0
    return "".join([*lines[:at], line, *lines[at:]])


def kernel_root(text: str) -> str:
    """Import path of the kernel language in a file."""
    return "neuronxcc.nki" if "neuronxcc" in text or "import nki" not in text else "nki"


def _without_unused(text: str, before: Kernel) -> str:
    """Drop tensors that the rewrite left without a reader: declarations and what only fills them.

    Tensors nobody read before the rewrite either are the author's business and stay.
    """
    while True:
        kernel = read_kernel(text, tuple(before.arguments))
        edits = Edits()
        for name in sorted(kernel.tensors):
            if name in kernel.parameters or kernel.readers.get(name):
                continue
            if name not in before.readers:
                continue
            writers = [op for op in kernel.ops if any(r.name == name for r in op.writes)]
            removable = [
                op.target is not None
                and op.target.name == name
                and len(op.writes) == 1
                and op.call is not None
                and kernel.names.callee(op.call).startswith(("nl.", "nisa."))
                for op in writers
            ]
            if writers and all(removable):
                edits.delete(*(op.line for op in writers))
        if not edits.lines:
            return text
        text = apply_edits(text, edits)
