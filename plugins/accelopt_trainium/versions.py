"""Which parts of the Neuron SDK belong together.

Each release has one number; its parts count on their own, but in step. The steps below hold for the
releases 2.26.1, 2.27.1, 2.29.0 and 2.30.0 (release content pages of the AWS Neuron documentation),
and for what is publicly reported of 2.31 and 2.32.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEPS = {"neuronx-cc": 5, "runtime": -2, "driver": 2, "tools": 0}
"""Release minor = part's minor + step; the major is 2 throughout."""

NKI_RELEASES = {(0, 2): (27, 28), (0, 3): (29,), (0, 4): (30,), (0, 5): (31,), (0, 6): (32,)}
"""Version of the `nki` package -> minor numbers of the releases that carry it."""

_FAR_DRIVER = 6
"""Releases by which a driver may be newer or older; the others must be of one release."""


@dataclass(frozen=True)
class Part:
    """One part of the SDK.

    Attributes:
        name: `neuronx-cc`, `nki`, `runtime`, `driver` or `tools`.
        version: as installed; empty when it is not.
    """

    name: str
    version: str

    @property
    def numbers(self) -> tuple[int, int] | None:
        """Major and minor; None when there is no such version."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def releases(self) -> tuple[int, ...]:
        """Minor numbers of the 2.x releases it belongs to; empty when that is not known."""
        numbers = self.numbers
        if numbers is None:
            return ()
        if self.name == "nki":
            return NKI_RELEASES.get(numbers, ())
        return (numbers[1] + _STEPS[self.name],) if numbers[0] == 2 else ()


def mismatches(parts: list[Part]) -> list[str]:
    """What does not belong together, one line each, what to do about it included."""
    known = [part for part in parts if part.releases]
    strict = [part for part in known if part.name != "driver"]
    problems = []
    if strict:
        common = set.intersection(*(set(part.releases) for part in strict))
        if not common:
            said = ", ".join(f"{p.name} {p.version} (SDK {_named(p)})" for p in strict)
            problems.append(f"parts of different SDK releases: {said}")
        for driver in (part for part in known if part.name == "driver"):
            newest = max(release for part in strict for release in part.releases)
            if abs(driver.releases[0] - newest) > _FAR_DRIVER:
                problems.append(
                    f"driver {driver.version} (SDK {_named(driver)}) is far from SDK 2.{newest}"
                )
    return problems


def _named(part: Part) -> str:
    return " or ".join(f"2.{release}" for release in part.releases)
