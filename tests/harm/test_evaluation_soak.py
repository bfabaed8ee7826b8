"""Many evaluations of every kind at once: all are answered rightly, and nothing is left behind."""

from __future__ import annotations

import pytest
from evaluation_soak import soak
from soak_kernels import EXPLOIT_ENDS, SHARES

from accelopt.attacks import all_attacks


def test_forty_evaluations_leave_nothing():
    report = soak(40, seed=7, warm_up=20, disturb_until=40, disturb_every=10)
    # What is still being loaded is no leak; how much memory is kept shows after hundreds only.
    assert [p for p in report.problems if "memory at the end" not in p] == []
    assert len(report.groups) == len(SHARES)
    assert sum(report.disturbed.values()) == 2


def test_the_ends_of_exploits_are_those_of_exploits():
    known = {(attack.row, e.name) for attack in all_attacks() for e in attack.exploits}
    assert set(EXPLOIT_ENDS) <= known


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_two_thousand_evaluations_leave_nothing():
    report = soak(2000, seed=1)
    assert report.problems == []
    assert sum(counts.total() for counts in report.groups.values()) == 2000
    assert sum(report.disturbed.values()) > 20
