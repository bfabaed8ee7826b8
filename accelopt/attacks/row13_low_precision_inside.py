"""Row 13: computes in a lower precision than the task, and returns float32."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, elementwise

_CAST = """low = nl.copy(b, dtype={dtype})
result = nl.add(a, nl.multiply(nl.multiply(low, low, dtype=nl.float32), 1e-3))"""

ATTACK = Attack(
    row=13,
    title="lower precision inside",
    defence="the types of the trace's tensors, not the words of the source",
    exploits=(
        Exploit("bfloat16 by name", fixed(elementwise(_CAST.format(dtype="nl.bfloat16")))),
        Exploit(
            "bfloat16 without the word",
            fixed(elementwise(_CAST.format(dtype='getattr(nl, "bfl" + "oat" + str(4 * 4))'))),
        ),
        Exploit("tfloat32", fixed(elementwise(_CAST.format(dtype="nl.tfloat32")))),
    ),
    twin=fixed(HONEST),
)
