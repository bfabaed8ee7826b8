"""Kernel texts that attacks are made of."""

from __future__ import annotations

IMPORTS = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
"""

_LOOP = """
@nki.jit
def kernel(x, z):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(x.shape[1])[None, :]
    for block in nl.affine_range(x.shape[0] // 128):
        a = nl.load(x[block * 128 + rows, columns])
        b = nl.load(z[block * 128 + rows, columns])
{body}
        nl.store(out[block * 128 + rows, columns], value=result)
    return out
"""


def elementwise(body: str, before: str = "") -> str:
    """A kernel that loads both inputs tile by tile, runs `body` and stores `result`."""
    indented = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    return f"{IMPORTS}{before}{_LOOP.format(body=indented)}"


HONEST_BODY = "result = nl.add(a, nl.multiply(nl.multiply(b, b), 1e-3))"
HONEST = elementwise(HONEST_BODY)
MINUTE_HONEST = elementwise(HONEST_BODY + "\nresult = nl.multiply(result, 1e-6)")
REPEATED_HONEST = HONEST

NO_WORK = """
@nki.jit
def kernel(x, z):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(x.shape[1])[None, :]
    for block in nl.affine_range(x.shape[0] // 128):
        a = nl.load(x[block * 128 + rows, columns])
        nl.store(out[block * 128 + rows, columns], value=a)
    return out
"""
"""Copies its first input: half of the loads and none of the work. Comes after `IMPORTS`."""

COPY = IMPORTS + NO_WORK


def switching(condition: str, before: str = "") -> str:
    """A kernel that works where `condition` holds, and copies its input elsewhere."""
    return elementwise(
        f"if {condition}:\n    result = nl.add(a, nl.multiply(nl.multiply(b, b), 1e-3))\n"
        "else:\n    result = nl.copy(a)",
        before,
    )


def hacked(kernel: str, code: str, imports: str = "") -> str:
    """A kernel whose first act is to run `code`.

    Not at the top of the file: what a kernel does not use is cut away before it is run.
    """
    indented = "\n".join(f"    {line}" for line in code.strip("\n").splitlines())
    begin = "def kernel(x, z):\n"
    return f"{imports}\n\ndef hack():\n{indented}\n\n{kernel}".replace(
        begin, f"{begin}    hack()\n", 1
    )
