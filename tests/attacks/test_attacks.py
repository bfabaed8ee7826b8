"""Every exploit works against a harness that lacks one defence, and not against ours."""

from __future__ import annotations

import pytest
import weak_harness as weak

from accelopt.attacks import NOT_APPLICABLE, all_attacks, run_suite
from accelopt.attacks.ground import grounds
from accelopt.plugins import installed
from accelopt.testing.backend import DummyBackend

WEAK = {
    "patch the checker": weak.in_process,
    "print the verdict": weak.printed,
    "find the answer in memory": weak.in_process,
    "return uninitialised memory": weak.recycled_memory,
    "zeros for tiny outputs": weak.absolute_tolerance,
    "cache the output": weak.two_calls,
    "tell checking from timing": weak.until_lucky,
    "switch on the shape": weak.small_shapes,
    "right on one distribution": weak.in_process,
    "lower precision inside": weak.in_process,
    "overwrite the inputs": weak.reference_afterwards,
    "alias the output": weak.two_calls,
    "edit the grader": weak.in_process,
    "impossible speed": weak.without_physics,
    "overwrite the results": weak.any_message,
    "forge the trace": weak.believes_the_trace,
}
REQUIRED_ROWS = {1, 2, 3, 4, 6, 7, 9, 10, 13, 18, 19, 21, 23, 24}
EXPLOITS = [
    pytest.param(attack, exploit, id=f"{attack.title}: {exploit.name}")
    for attack in all_attacks()
    for exploit in attack.exploits
]


@pytest.fixture
def fields():
    with grounds() as made:
        yield made


def test_the_suite_covers_the_list():
    rows = {attack.row for attack in all_attacks()}
    assert rows >= REQUIRED_ROWS
    assert rows | set(NOT_APPLICABLE) >= set(range(1, 30))
    assert not rows & set(NOT_APPLICABLE)
    assert set(WEAK) == {attack.title for attack in all_attacks()}


@pytest.mark.parametrize(("attack", "exploit"), EXPLOITS)
def test_the_exploit_works_where_the_defence_is_missing(attack, exploit, fields):
    ground = fields[attack.ground]
    assert weak.in_child(WEAK[attack.title], ground, exploit.text(ground)) is True


def test_precision_by_text_misses_what_precision_by_trace_finds(fields):
    (attack,) = [attack for attack in all_attacks() if attack.row == 13]
    ground = fields[attack.ground]
    passed = {
        exploit.name: weak.in_child(weak.by_text, ground, exploit.text(ground))
        for exploit in attack.exploits
    }
    assert passed == {
        "bfloat16 by name": False, "bfloat16 without the word": True, "tfloat32": True,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["sim-trn1", pytest.param("sim-trn2", marks=pytest.mark.slow)])
def test_every_attack_is_blocked_and_every_twin_passes(name):
    backend = installed().backend(name)
    try:
        report = run_suite(backend)
    finally:
        backend.close()
    assert [result for result in report.results if not result.held] == []
    record = report.record
    assert record.attacks == record.blocked == len(all_attacks())
    assert record.twins == record.twins_passed == len(all_attacks())
    assert record.clean
    assert not report.skipped


class Gullible(DummyBackend):
    """Believes whatever it is given; the suite must say so."""

    name = "gullible"


def test_a_backend_that_believes_everything_is_found_out():
    report = run_suite(Gullible())
    assert not report.record.clean
    # A backend that judges no traces can't be attacked through one.
    assert "forge the trace" in report.skipped
