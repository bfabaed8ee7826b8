"""What the soak evaluates: kernels of every kind, each with the statuses it may end with.

No two texts are equal: a number goes into constants, names or a comment, so that nothing that was
kept of one kernel answers for another.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harmful_kernels import ENDED, HARMFUL, LOAD, MEMORY, OK, Harm

from accelopt.attacks import all_attacks
from accelopt.attacks.ground import MAIN, Ground
from accelopt.attacks.kernels import IMPORTS, elementwise
from accelopt.kernel import KernelSource

CONSTRAINT, INCORRECT, REJECTED = "constraint_violation", "incorrect", "rejected"
UNSUPPORTED = "unsupported_op"
SHORT_WALL_S, WALL_S = 1.0, 20.0
"""For kernels that take the whole time, and for all others."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One evaluation to make.

    Attributes:
        group: `honest`, `incorrect`, `load error` and so on.
        name: which of the group.
        source: the kernel.
        ends: statuses it may end with.
        ground: task it is for.
        bypass: neither the screen nor the sandbox of the front end looks at it.
        wall_s: time limit of tracing.
    """

    group: str
    name: str
    source: KernelSource
    ends: frozenset[str]
    ground: str = MAIN
    bypass: bool = False
    wall_s: float = WALL_S


Maker = Callable[[int], Attempt]

_HELPER = f"""{IMPORTS}
def step(a, b):
    return nl.add(a, nl.multiply(nl.multiply(b, SCALE), nl.multiply(b, REST)))

@nki.jit
def kernel(x, z):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    BODY
    return out
"""

# SCALE * REST is the factor of the task.
HONEST = {
    "in whole rows": """
    rows = nl.arange(128)[:, None]
    columns = nl.arange(512)[None, :]
    for block in nl.affine_range(2):
        a, b = (nl.load(t[block * 128 + rows, columns]) for t in (x, z))
        nl.store(out[block * 128 + rows, columns], value=step(a, b))""",
    "in column tiles": """
    for block in nl.affine_range(2):
        for tile in nl.affine_range(TILES):
            rows, columns = nl.ds(block * 128, 128), nl.ds(tile * (512 // TILES), 512 // TILES)
            nl.store(out[rows, columns], step(nl.load(x[rows, columns]), nl.load(z[rows, columns])))
    """,
    "one after the other": """
    for block in nl.sequential_range(2):
        for tile in nl.sequential_range(TILES):
            rows, columns = nl.ds(block * 128, 128), nl.ds(tile * (512 // TILES), 512 // TILES)
            b = nl.load(z[rows, columns])
            nl.store(out[rows, columns], step(nl.load(x[rows, columns]), b))""",
    "unrolled by Python": """
    width = 512 // TILES
    for top in range(0, 256, 128):
        for left in range(0, 512, width):
            a = nl.load(x[top:top + 128, left:left + width])
            b = nl.load(z[top:top + 128, left:left + width])
            nl.store(out[top:top + 128, left:left + width], step(a, b))""",
    "by instructions": """
    for block in nl.affine_range(2):
        rows = nl.ds(block * 128, 128)
        a, b = nl.load(x[rows, 0:512]), nl.load(z[rows, 0:512])
        square = nisa.tensor_tensor(b, b, op=np.multiply)
        scaled = nisa.tensor_scalar(square, op0=np.multiply, operand0=SCALE,
                                    op1=np.multiply, operand1=REST)
        nl.store(out[rows, 0:512], nisa.tensor_tensor(a, scaled, op=np.add))""",
    "on a grid": """
    rows = nl.ds(nl.program_id(0) * 128, 128)
    nl.store(out[rows, 0:512], step(nl.load(x[rows, 0:512]), nl.load(z[rows, 0:512])))""",
}

INCORRECT_BODIES = {
    "another factor": "result = nl.add(a, nl.multiply(nl.multiply(b, b), 2e-3 + NUMBER * 1e-6))",
    "another sign": "result = nl.subtract(a, nl.multiply(nl.multiply(b, b), 1e-3))  # NUMBER",
    "a missing square": "result = nl.add(a, nl.multiply(b, 1e-3))  # NUMBER",
    "a constant added": "result = nl.add(nl.add(a, nl.multiply(nl.multiply(b, b), 1e-3)), "
    "0.1 + NUMBER)",
    "not a number": "result = nl.sqrt(nl.subtract(nl.multiply(a, 0.0), 1.0 + NUMBER))",
}

LOAD_ERRORS = {
    "syntax": "def kernel(x, z:\n    return NUMBER\n",
    "indentation": "def kernel(x, z):\nreturn NUMBER\n",
    "a null byte": "def kernel(x, z):\n    return '\0 NUMBER'\n",
    "parentheses": f"def kernel(x, z):\n    return {'(' * 500}NUMBER{')' * 500}\n",
    "raises": elementwise("raise ValueError('NUMBER')\nresult = a"),
    "an unknown name": elementwise("result = name_NUMBER"),
    "leaves": elementwise("raise SystemExit(NUMBER)\nresult = a"),
    "endless recursion": elementwise("def down(n):\n    return down(n + NUMBER)\nresult = down(1)"),
}
NO_KERNEL = "constant_NUMBER = 1\n"

MISFITS = {
    "other parameters": "def kernel(x):\n    return x  # NUMBER\n",
    "not the kernel asked for": "def other_NUMBER(x, z):\n    return x\n",
}
"""Refused by the rules for calls, not as load errors."""

CONSTRAINTS = {
    "too many partitions": "nl.zeros((256, 16 + NUMBER % 50), dtype=nl.float32)\nresult = a",
    "an input changed": "nl.store(x[block * 128 + rows, columns], value=nl.add(a, NUMBER))\n"
    "result = a",
    "lower precision": "result = nl.add(nl.copy(b, dtype=nl.bfloat16), 1.0 + NUMBER)",
    "out of bounds": "result = nl.load(x[block * 128 + rows + 1 + NUMBER % 100, columns])",
    "a tile of another shape": "result = nl.zeros((128, 513 + NUMBER), dtype=nl.float32)",
    "too much on-chip memory": """big = nl.zeros((128, 90000 + NUMBER), dtype=nl.float32)
result = nl.add(a, big[rows, columns])""",
}

UNSUPPORTED_BODIES = {
    "a custom instruction": "nisa.builtin_custom_op('f_NUMBER')\nresult = a",
    "a mask as an index": "result = nl.exp(a[columns < 3 + NUMBER % 100])",
}

SCREENED = {
    "imports os": "import os\nos._exit(NUMBER)\nresult = a",
    "imports a framework": "import torch\nresult = torch.relu(a)  # NUMBER",
    "opens a file": "open('/tmp/NUMBER', 'w')\nresult = a",
    "evaluates text": "eval('NUMBER')\nresult = a",
    "reaches for subclasses": "().__class__.__base__.__subclasses__()[NUMBER]\nresult = a",
    "writes an array": "np.save('NUMBER', np.zeros(1))\nresult = a",
    "reads a frame": "(i for i in [NUMBER]).gi_frame.f_back\nresult = a",
}

# All others are rejected.
EXPLOIT_ENDS = {
    (2, "print and go on"): {INCORRECT},
    (2, "print and leave"): {LOAD},
    (4, "an output hardly written"): {INCORRECT},
    (6, "zeros"): {INCORRECT},
    (6, "a constant"): {INCORRECT},
    (7, "keyed on the shape"): {OK},  # the same work as its twin
    (9, "count the calls"): {OK},  # the same work as its twin
    (9, "by chance"): {OK, INCORRECT, REJECTED},  # it draws a number
    (10, "small is exact"): {INCORRECT},
    (12, "no value of a normal draw is beyond 6"): {INCORRECT},
    (13, "bfloat16 by name"): {CONSTRAINT},
    (13, "bfloat16 without the word"): {CONSTRAINT},
    (13, "tfloat32"): {CONSTRAINT},
    (18, "zeros in place of both"): {CONSTRAINT},
    (19, "the first call's buffer"): {OK},  # the same work as its twin
}

# The table of harmful kernels allows either way for those that do nothing that is refused.
RETURNS = {"giant print", "hangs at exit"}

SHARES = {
    "honest": 30, "incorrect": 8, "load error": 8, "constraint": 8, "unsupported": 4,
    "screened": 6, "exploit": 16, "harmful": 14, "harmful, waits": 6,
}  # fmt: skip
"""Per cent of all evaluations."""


def attempts(
    fields: dict[str, Ground], names: dict[str, object], rng: random.Random
) -> Iterator[Attempt]:
    """Endless attempts in the shares above; in each group every kernel has its turn.

    Args:
        fields: the tasks.
        names: what stands in for the names in harmful kernels.
        rng: decides on the order.
    """
    turns = {group: _turns(makers, rng) for group, makers in _groups(fields, names).items()}
    numbers = itertools.count(1)
    while True:
        # Each group spread over the hundred, so that a few have met them all.
        places = [
            ((turn + rng.random()) / share, group)
            for group, share in SHARES.items()
            for turn in range(share)
        ]
        for _, group in sorted(places):
            yield next(turns[group])(next(numbers))


def _turns(makers: list[Maker], rng: random.Random) -> Iterator[Maker]:
    while True:
        yield from rng.sample(makers, len(makers))


def _groups(fields: dict[str, Ground], names: dict[str, object]) -> dict[str, list[Maker]]:
    return {
        "honest": [_honest(name, body) for name, body in HONEST.items()],
        "incorrect": _bodies("incorrect", INCORRECT_BODIES, INCORRECT),
        "load error": [
            *(_simple("load error", name, text, LOAD) for name, text in LOAD_ERRORS.items()),
            _simple("load error", "no kernel", NO_KERNEL, LOAD, entry=""),
        ],
        "constraint": [
            *_bodies("constraint", CONSTRAINTS, CONSTRAINT),
            *(_simple("constraint", name, text, CONSTRAINT) for name, text in MISFITS.items()),
        ],
        "unsupported": _bodies("unsupported", UNSUPPORTED_BODIES, UNSUPPORTED),
        "screened": _bodies("screened", SCREENED, REJECTED),
        "exploit": _exploits(fields),
        "harmful": [_harmful(harm, names) for harm in HARMFUL if not harm.waits],
        "harmful, waits": [_harmful(harm, names) for harm in HARMFUL if harm.waits],
    }


def _honest(name: str, body: str) -> Maker:
    def make(number: int) -> Attempt:
        scale = 0.5 + number % 1000 / 2000
        text = _HELPER.replace("BODY", body.strip())
        text = text.replace("TILES", str(1 << number % 4))
        text = text.replace("SCALE", repr(scale)).replace("REST", repr(1e-3 / scale))
        grid = (2,) if name == "on a grid" else ()
        source = KernelSource(
            text=f"import numpy as np\n{text}# {number}\n", entry="kernel", grid=grid
        )
        return Attempt(group="honest", name=name, source=source, ends=frozenset({OK}))

    return make


def _bodies(group: str, bodies: dict[str, str], end: str) -> list[Maker]:
    start = "\nimport numpy as np\n"
    return [_simple(group, name, elementwise(body, start), end) for name, body in bodies.items()]


def _simple(group: str, name: str, text: str, end: str, entry: str = "kernel") -> Maker:
    def make(number: int) -> Attempt:
        source = KernelSource(text=text.replace("NUMBER", str(number)), entry=entry)
        return Attempt(group=group, name=name, source=source, ends=frozenset({end}))

    return make


def _exploits(fields: dict[str, Ground]) -> list[Maker]:
    def maker(row: int, name: str, text: str, ground: str) -> Maker:
        ends = frozenset(EXPLOIT_ENDS.get((row, name), {REJECTED}))
        return lambda number: Attempt(
            group="exploit",
            name=f"row {row}, {name}",
            source=KernelSource(text=f"{text}\n# {number}\n", entry="kernel"),
            ends=ends,
            ground=ground,
        )

    return [
        maker(attack.row, exploit.name, exploit.text(fields[attack.ground]), attack.ground)
        for attack in all_attacks()
        for exploit in attack.exploits
    ]


def _harmful(harm: Harm, names: dict[str, object]) -> Maker:
    text = harm.source(**names).replace("def kernel(x):", "def kernel(x, z):")
    ends = harm.ends
    if ends == ENDED:
        ends = frozenset({CONSTRAINT if harm.name in RETURNS else LOAD})
    fills = harm.name == "memory bomb"
    if fills:  # with time enough it meets the other limit
        ends = frozenset({MEMORY})
    return lambda number: Attempt(
        group="harmful, waits" if harm.waits else "harmful",
        name=harm.name,
        source=KernelSource(text=f"{text}\n# {number}\n", entry="kernel"),
        ends=ends,
        bypass=True,
        wall_s=SHORT_WALL_S if harm.waits and not fills else WALL_S,
    )
