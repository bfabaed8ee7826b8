"""What one entry of the attack suite consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelopt.attacks.ground import MAIN, Ground
from accelopt.backend import Capability


@dataclass(frozen=True)
class Exploit:
    """One way to carry a hack out.

    Attributes:
        name: how this way differs from the others.
        text: kernel file for a ground.
    """

    name: str
    text: Callable[[Ground], str]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A known reward hack.

    Attributes:
        row: its number in docs/security.md; 0 for one that is not on the published list.
        title: what it does.
        defence: what stops it, for the documentation.
        exploits: ways to carry it out.
        twin: an honest kernel beside it, which must be accepted.
        ground: which task it is tried on.
        needs: capabilities without which it can't be tried.
    """

    row: int
    title: str
    defence: str
    exploits: tuple[Exploit, ...]
    twin: Callable[[Ground], str]
    ground: str = MAIN
    needs: frozenset[Capability] = frozenset()


def fixed(text: str) -> Callable[[Ground], str]:
    """A kernel text that is the same everywhere."""
    return lambda ground: text
