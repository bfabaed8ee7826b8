"""Finds all attacks, and says of each hack on the list that is not among them why."""

from __future__ import annotations

import importlib
import pkgutil

from accelopt.attacks.attack import Attack

NOT_APPLICABLE: dict[int, str] = {
    5: "reads past a limit: the constraints refuse an index out of bounds, and unwritten memory "
    "reads as NaN; the executor is deterministic",
    8: "work batched into one call: an evaluation is one launch, judged and timed as one trace",
    11: "accurate on stress inputs only: fresh inputs mix them with nominal values in one array "
    "(row 12 tries the reverse)",
    14: "global precision state: the candidate shares no process with the reference (row 1)",
    15: "work on another stream: a trace has no other stream; latency ends with its last "
    "instruction; threads are refused in the worker",
    16: "lazy outputs: outputs are arrays that the judge computed itself",
    17: "data kept on chip across calls: every predicted launch starts cold, and fewer HBM bytes "
    "than the task must move are rejected (row 23)",
    20: "vendor library or inherited reference: nothing but NKI, NumPy and a few standard modules "
    "can be imported, and neither computes in a trace",
    22: "gaming the aggregate: `bench` takes a geometric mean over all tasks; an impossible item "
    "is rejected (row 23)",
    25: "contamination by other runs: the worker can open no file (tests/harm)",
    26: "re-measuring until lucky: the winner is compared by fresh measurements in turns, or under "
    "all calibrations (accelopt.faster)",
    27: "inflated proxies: the score is useful work over latency, never the kernel's own FLOPs",
    28: "sabotage through the memory: lessons come from kernels found correct, with provenance",
    29: "fake profiler on the path: the simulator has none; on real devices the tools are held to "
    "path and hash, and candidates can write neither (tests/trainium/test_fake_profiler.py)",
}
"""Row -> why it is not attempted on a backend that judges traces."""


def all_attacks() -> list[Attack]:
    """All attacks of this package, in the order of their rows; the unlisted ones last."""
    import accelopt.attacks as package

    found = [
        importlib.import_module(f"{package.__name__}.{module.name}").ATTACK
        for module in pkgutil.iter_modules(package.__path__)
        if module.name.startswith("row")
    ]
    return sorted(found, key=lambda attack: (attack.row or 1000, attack.title))
