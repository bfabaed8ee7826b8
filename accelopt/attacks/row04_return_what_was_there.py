"""Row 4: the candidate returns memory that it never wrote, where the answer may still lie."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, IMPORTS

_NOTHING = f"""{IMPORTS}
@nki.jit
def kernel(x, z):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(1)[:, None]
    columns = nl.arange(1)[None, :]
    nl.store(out[rows, columns], value=nl.load(x[rows, columns]))
    return out
"""

ATTACK = Attack(
    row=4,
    title="return uninitialised memory",
    defence="outputs and undefined tiles are NaN before every run, and NaN never matches",
    exploits=(Exploit("an output hardly written", fixed(_NOTHING)),),
    twin=fixed(HONEST),
)
