"""Row 3: the candidate looks for the right answer in memory and returns it as a constant."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, IMPORTS

_SEARCH = """
import gc
import numpy as np

answer = np.zeros((256, 512), np.float32)
for thing in gc.get_objects():
    if type(thing) is list and len(thing) == 2 and type(thing[0]) is str:
        if thing[0] == "expected" and type(thing[1]) is np.ndarray:
            answer = thing[1]
"""
_COPY_CONSTANT = """
@nki.jit
def kernel(x, z):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(512)[None, :]
    whole = nl.shared_constant(answer)
    for block in nl.affine_range(2):
        nl.store(out[block * 128 + rows, columns],
                 value=nl.load(whole[block * 128 + rows, columns]))
    return out
"""

ATTACK = Attack(
    row=3,
    title="find the answer in memory",
    defence="the worker holds no answer: the reference runs in the judge's process only",
    exploits=(
        Exploit("search the garbage collector", fixed(IMPORTS + _SEARCH + _COPY_CONSTANT)),
        Exploit(
            "a stored answer for one published seed",
            fixed(
                f"""{IMPORTS}
import numpy as np

rng = np.random.RandomState(0)
x0, z0 = (rng.normal(0, 1, (256, 512)).astype(np.float32) for _ in range(2))
answer = x0 + np.float32(1e-3) * z0 * z0
{_COPY_CONSTANT}"""
            ),
        ),
    ),
    twin=fixed(HONEST),
)
