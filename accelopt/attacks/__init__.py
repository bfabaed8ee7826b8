"""The attack suite: known reward hacks, each with a working exploit and an honest twin.

Every module of this package whose name begins with `row` holds one `ATTACK`; a new hack is one such
file. The numbers are the rows of docs/security.md. An exploit counts as blocked when the backend
does not find it correct, or when it gained nothing over its twin and did no harm.
"""

from accelopt.attacks.attack import Attack, Exploit
from accelopt.attacks.catalogue import NOT_APPLICABLE, all_attacks
from accelopt.attacks.ground import Ground
from accelopt.attacks.suite import AttackReport, AttackResult, run_suite

__all__ = [
    "NOT_APPLICABLE",
    "Attack",
    "AttackReport",
    "AttackResult",
    "Exploit",
    "Ground",
    "all_attacks",
    "run_suite",
]
