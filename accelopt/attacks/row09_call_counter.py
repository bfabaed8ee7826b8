"""Row 9: the candidate works while it is checked, and not while it is timed."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST, switching

_COUNTER = "\ncalls = [0]\n\ndef count():\n    calls[0] += 1\n    return calls[0]\n\n"
_STACK = """
import sys

def checked():
    frame = sys._getframe()
    while frame is not None:
        if "check_it" in frame.f_code.co_name:
            return True
        frame = frame.f_back
    return False

"""

ATTACK = Attack(
    row=9,
    title="tell checking from timing",
    defence="one trace is both checked and timed; a second one in a fresh process must be equal",
    exploits=(
        Exploit(
            "count the calls",
            fixed(
                switching("number == 1", _COUNTER).replace(
                    "    rows = nl", "    number = count()\n    rows = nl", 1
                )
            ),
        ),
        Exploit(
            "look at the stack",
            fixed(
                switching("honest", _STACK).replace(
                    "    rows = nl", "    honest = checked()\n    rows = nl", 1
                )
            ),
        ),
        Exploit(
            "by chance",
            fixed(
                switching("honest", "\nimport numpy as np\n\n").replace(
                    "    rows = nl",
                    "    honest = np.random.default_rng().random() < 0.5\n    rows = nl",
                    1,
                )
            ),
        ),
    ),
    twin=fixed(HONEST),
)
