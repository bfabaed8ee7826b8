"""Row 19: the output is a buffer that a later call changes."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST

_KEPT = HONEST.replace("@nki.jit", "kept = []\n\n\n@nki.jit", 1).replace(
    "    rows = nl",
    "    if kept:\n        return kept[0]\n    kept.append(out)\n    rows = nl",
    1,
)

ATTACK = Attack(
    row=19,
    title="alias the output",
    defence="a kernel returns a new HBM tensor; results are the judge's own arrays",
    exploits=(Exploit("the first call's buffer", fixed(_KEPT)),),
    twin=fixed(HONEST),
)
