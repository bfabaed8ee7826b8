"""Small kernels for the rewrites to work on."""

from __future__ import annotations

from accelopt_rewriter.analysis import Kernel
from accelopt_rewriter.catalog import REWRITES

HEADER = """import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa


@nki.jit
def kernel(x, y, g):
    out = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        a = nl.load(x[0:128, 512 * i:512 * i + 512])
        b = nl.load(y[0:128, 512 * i:512 * i + 512])
        c = nl.load(g[0:128, 0:1])
"""
FOOTER = """
        nl.store(out[0:128, 512 * i:512 * i + 512], value=r)
    return out
"""
ARGUMENTS = ((128, 2048), (128, 2048), (128, 1))


def elementwise(*lines: str) -> str:
    """A kernel that computes `r` from tiles `a`, `b` (128 x 512) and a column `c`."""
    return HEADER + "\n".join(f"        {line}" for line in lines) + FOOTER


def body(text: str) -> list[str]:
    """Stripped lines of a kernel, imports left out."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class Applied:
    """A rewrite, carried out everywhere in a kernel."""

    def __init__(self, name: str, text: str, arguments: tuple[object, ...] = ARGUMENTS) -> None:
        self.before = text
        self.sites = REWRITES[name].sites(Kernel(text, arguments))
        self.text = REWRITES[name].apply_everywhere(text, arguments)
        self.lines = body(self.text)

    @property
    def changed(self) -> bool:
        return self.text != self.before
