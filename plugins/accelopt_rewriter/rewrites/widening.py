"""Wider tiles: fewer, larger instructions and longer contiguous DMA runs."""

from __future__ import annotations

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.coarsening import SBUF_BUDGET_BYTES, Coarsening
from accelopt_rewriter.parts import Loop
from accelopt_rewriter.rewrite import Rewrite, Site


def _divisors(number: int) -> list[int]:
    return [n for n in range(number, 1, -1) if number % n == 0]


def _candidates(kernel: Kernel) -> list[Loop]:
    return [loop for loop in kernel.loops if loop.kind == "affine_range" and (loop.extent or 0) > 1]


class MergeSubtileLoop(Rewrite):
    """A loop over column sub-tiles of element-wise work -> full-width operations."""

    name = "merge-subtile-loop"
    title = "replace a loop over column sub-tiles by full-width operations"
    why = "the fixed cost of every instruction is paid once per tile instead of once per sub-tile"
    relieves = frozenset({"vector", "scalar", "latency"})
    priority = 20

    def sites(self, kernel: Kernel) -> list[Site]:
        """Innermost loops without loads and stores whose widened tiles fit."""
        found = []
        for loop in _candidates(kernel):
            body = [op for op in kernel.ops if loop in op.loops]
            callees = {kernel.names.callee(op.call) for op in body if op.call is not None}
            if {"nl.load", "nl.store"} & callees:
                continue
            coarser = Coarsening(kernel, loop, loop.extent or 0)
            edits = coarser.edits()
            if edits is not None and coarser.live_bytes() <= SBUF_BUDGET_BYTES:
                found.append(Site(loop.line, f"{loop.extent} sub-tiles become one tile", edits))
        return found


class WidenFreeTile(Rewrite):
    """A loop over column tiles with their loads and stores -> fewer, wider tiles."""

    name = "widen-free-tile"
    title = "load, compute and store wider tiles"
    why = "longer contiguous DMA runs and fewer fixed instruction costs"
    relieves = frozenset({"dma", "latency"})
    priority = 21

    def sites(self, kernel: Kernel) -> list[Site]:
        """Innermost loops with loads or stores; the widest tile that fits."""
        found = []
        for loop in _candidates(kernel):
            body = [op for op in kernel.ops if loop in op.loops]
            callees = {kernel.names.callee(op.call) for op in body if op.call is not None}
            if not {"nl.load", "nl.store"} & callees:
                continue
            for factor in _divisors(loop.extent or 0):
                coarser = Coarsening(kernel, loop, factor)
                edits = coarser.edits()
                if edits is not None and coarser.live_bytes() <= SBUF_BUDGET_BYTES:
                    found.append(Site(loop.line, f"tiles become {factor} times as wide", edits))
                    break
        return found
