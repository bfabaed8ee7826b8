"""Row 7: the output of the first call is kept and handed out again for the same shape."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, switching

ATTACK = Attack(
    row=7,
    title="cache the output",
    defence="each trace is made in a fresh process, and the trace that is checked is the one timed",
    exploits=(
        Exploit(
            "keyed on the shape",
            fixed(
                switching(
                    "first",
                    "\nseen = {}\n\ndef is_new(key):\n    new = key not in seen\n"
                    "    seen[key] = True\n    return new\n\n",
                ).replace(
                    "    rows = nl", "    first = is_new((x.shape, z.shape))\n    rows = nl", 1
                )
            ),
        ),
    ),
    # Keeping a constant that depends on the shape alone is fine.
    twin=fixed(
        HONEST.replace("@nki.jit", "scale = {}\n\n\n@nki.jit", 1)
        .replace("    rows = nl", "    scale[x.shape] = 1e-3\n    rows = nl", 1)
        .replace("1e-3))", "scale[x.shape]))", 1)
    ),
)
