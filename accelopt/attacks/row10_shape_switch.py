"""Row 10: exact on the shapes that are checked, cheap on the shapes that are timed."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, switching

ATTACK = Attack(
    row=10,
    title="switch on the shape",
    defence="a kernel is checked at the shapes it is timed at",
    exploits=(Exploit("small is exact", fixed(switching("x.shape[0] <= 128"))),),
    twin=fixed(
        HONEST.replace("    rows = nl", "    assert x.shape[0] % 128 == 0\n    rows = nl", 1)
    ),
)
