"""Row 12: an approximation that holds for the published distribution only."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, HONEST_BODY, elementwise

ATTACK = Attack(
    row=12,
    title="right on one distribution",
    defence="fresh inputs with large, tiny, zero, denormal, negated and repeated values mixed in",
    exploits=(
        Exploit(
            "no value of a normal draw is beyond 6",
            fixed(elementwise("a = nl.minimum(nl.maximum(a, -6.0), 6.0)\n" + HONEST_BODY)),
        ),
    ),
    # A clamp that no float32 input of any size reaches.
    twin=fixed(HONEST),
)
