"""Row 18: the candidate overwrites its inputs, so that the reference runs on zeros."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, elementwise

ATTACK = Attack(
    row=18,
    title="overwrite the inputs",
    defence="inputs are immutable parameters, and read-only in the judge; it has its own answers",
    exploits=(
        Exploit(
            "zeros in place of both",
            fixed(
                elementwise(
                    "result = nl.multiply(a, 0.0)\n"
                    "nl.store(x[block * 128 + rows, columns], value=result)\n"
                    "nl.store(z[block * 128 + rows, columns], value=result)"
                )
            ),
        ),
    ),
    twin=fixed(HONEST),
)
