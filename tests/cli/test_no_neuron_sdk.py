"""On a machine without the Neuron SDK the real backends say in one line what is missing."""

from __future__ import annotations

from accelopt.plugins import installed
from accelopt_trainium.sdk_checks import installed_parts, sdk_checks


def test_without_any_sdk_one_line_says_what_is_missing(accelopt):
    found = {row["backend"]: row for row in accelopt("backends", "--json").data}
    for name in ("trn1", "trn2"):
        reason = found[name]["unavailable"]
        assert reason.startswith("no Neuron SDK: ")
        assert "ACCELOPT_NEURON_PYTHON" in reason
        assert "\n" not in reason
    assert [check.state for check in installed_parts()] == ["ok"]


def test_versions_that_were_not_compared_are_not_called_a_pair():
    found = {check.name: check for check in sdk_checks(installed().backend("trn1"))}
    pairing = found["version pairing"]
    assert (pairing.state, bool(pairing.fix)) == ("warn", True)
    assert "not compared" in pairing.detail


def test_a_run_without_any_sdk_is_refused_in_one_line(accelopt):
    result = accelopt("optimize", "silu@small", "--backend", "trn1")
    assert result.code == 2
    assert "no Neuron SDK" in result.err
