"""The tasks that attacks are tried on: small files in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from accelopt.attacks.kernels import HONEST, MINUTE_HONEST, REPEATED_HONEST
from accelopt.kernel import KernelTask
from accelopt.user_task import load_user_task

ROWS, COLUMNS = 256, 512
MAIN, MINUTE, REPEATED = "main", "minute", "repeated"

# The second term is a thousandth of the first, as in an optimizer's step.
_FORMULA = "x + np.float32(1e-3) * z * z"
_DRAW = """    rng = np.random.RandomState(seed)
    return [rng.normal(0, 1, (ROWS, COLUMNS)).astype(np.float32) for _ in range(2)]"""
# All rows of an input are equal: whoever knows that reads one of them only.
_DRAW_REPEATED = """    rng = np.random.RandomState(seed)
    rows = [rng.normal(0, 1, (1, COLUMNS)).astype(np.float32) for _ in range(2)]
    return [np.ascontiguousarray(np.broadcast_to(row, (ROWS, COLUMNS))) for row in rows]"""

_REFERENCE = '''"""A task of the attack suite."""

import numpy as np

ROWS, COLUMNS = {rows}, {columns}
SEEDS = [0, 21, 42]
TOLERANCE = 2e-5
{extra}

def get_inputs(seed):
{draw}


def forward(x, z):
    return {formula}


def signature():
    return [(ROWS, COLUMNS)] * 2, (ROWS, COLUMNS)


def work():
    size = ROWS * COLUMNS
    return {{"hbm_bytes": 12 * size, "matmul_flops": 0, "vector_flops": 3 * size}}
'''


@dataclass(frozen=True)
class Ground:
    """One task in a folder of its own.

    Attributes:
        name: `main`; `minute`, whose outputs are tiny; `repeated`, whose input rows are equal.
        folder: where its files lie; attacks may try to change them.
        task: the task.
    """

    name: str
    folder: Path
    task: KernelTask

    @property
    def reference_file(self) -> Path:
        """The grader's own file."""
        return self.folder / "reference.py"


@contextmanager
def grounds() -> Iterator[dict[str, Ground]]:
    """All grounds, in a temporary folder."""
    with TemporaryDirectory(prefix="accelopt-attack-") as root:
        yield {
            MAIN: _ground(Path(root), MAIN, HONEST, _DRAW, _FORMULA),
            MINUTE: _ground(
                Path(root), MINUTE, MINUTE_HONEST, _DRAW, f"np.float32(1e-6) * ({_FORMULA})"
            ),
            # Nothing is mixed in: the physics gate stands alone here.
            REPEATED: _ground(
                Path(root), REPEATED, REPEATED_HONEST, _DRAW_REPEATED, _FORMULA, "MIX = []\n"
            ),
        }


def _ground(root: Path, name: str, honest: str, draw: str, formula: str, extra: str = "") -> Ground:
    folder = root / name
    folder.mkdir()
    kernel, reference = folder / "kernel.py", folder / "reference.py"
    kernel.write_text(honest, encoding="utf-8")
    text = _REFERENCE.format(rows=ROWS, columns=COLUMNS, draw=draw, formula=formula, extra=extra)
    reference.write_text(text, encoding="utf-8")
    return Ground(name, folder, load_user_task(kernel, reference))
