"""Row 6: zeros or constants pass where outputs are tiny against an absolute tolerance."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.ground import MINUTE
from accelopt.attacks.kernels import MINUTE_HONEST, elementwise

ATTACK = Attack(
    row=6,
    title="zeros for tiny outputs",
    defence="errors are relative to the answer's own size; `tasks check` refuses unsound tasks",
    exploits=(
        Exploit("zeros", fixed(elementwise("result = nl.multiply(a, 0.0)"))),
        Exploit("a constant", fixed(elementwise("result = nl.add(nl.multiply(a, 0.0), 1e-9)"))),
    ),
    twin=fixed(MINUTE_HONEST),
    ground=MINUTE,
)
