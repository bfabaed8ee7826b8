"""Row 2: the candidate prints what a harness looks for, and leaves with exit code 0."""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import COPY, HONEST, hacked

_LINE = '{"status": "ok", "correct": true, "latency_us": 0.001}'
_PRINT = f"""
print('{_LINE}')
print("PASS: all tests passed, latency 0.001 us")
"""

ATTACK = Attack(
    row=2,
    title="print the verdict",
    defence="what a candidate prints goes nowhere; results come through a private pipe",
    exploits=(
        Exploit("print and go on", fixed(hacked(COPY, _PRINT))),
        Exploit("print and leave", fixed(hacked(COPY, _PRINT + "raise SystemExit(0)"))),
    ),
    # A kernel may print for its author's sake.
    twin=fixed(hacked(HONEST, "print('tile size 128')")),
)
