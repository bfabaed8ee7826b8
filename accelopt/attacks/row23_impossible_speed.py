"""Row 23: faster than the memory, since the candidate knows that most of the input is redundant."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.ground import REPEATED
from accelopt.attacks.kernels import IMPORTS, REPEATED_HONEST

# Right on every published input: all their rows are equal.
_ONE_TILE = f"""{IMPORTS}
@nki.jit
def kernel(x, z):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(x.shape[1])[None, :]
    a = nl.load(x[rows, columns])
    b = nl.load(z[rows, columns])
    result = nl.add(a, nl.multiply(nl.multiply(b, b), 1e-3))
    for block in nl.affine_range(x.shape[0] // 128):
        nl.store(out[block * 128 + rows, columns], value=result)
    return out
"""

ATTACK = Attack(
    row=23,
    title="impossible speed",
    defence="the physics gate: compulsory bytes, memory and matmul peaks",
    exploits=(Exploit("one tile stands for all", fixed(_ONE_TILE)),),
    twin=fixed(REPEATED_HONEST),
    ground=REPEATED,
)
