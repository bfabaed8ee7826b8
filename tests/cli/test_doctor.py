"""`accelopt doctor` lists what checks find, and fails only when one of them does."""

from __future__ import annotations

import pytest

from accelopt import doctor
from accelopt.doctor import Check, run_checks
from accelopt.errors import ConfigError
from accelopt.plugins import installed
from accelopt_simulator.process import checks as isolation_checks


@pytest.fixture
def checks(monkeypatch):
    """Replace the checks of the plugins."""

    def use(**groups):
        monkeypatch.setattr(installed(), "checks", groups)

    return use


GOOD = Check(name="speed", state="ok", detail="fast")
POOR = Check(name="memory", state="warn", detail="little", fix="buy more")
BAD = Check(name="device", state="fail", detail="missing")


def test_it_lists_the_installation_and_what_plugins_check(accelopt, checks):
    checks(chip=lambda: [GOOD, POOR])
    result = accelopt("doctor")
    assert result.code == 0
    for word in ("python", "data folder", "disk space", "chip", "speed", "little; buy more"):
        assert word in result.out


def test_as_json_with_every_field(accelopt, checks):
    checks(chip=lambda: [POOR])
    result = accelopt("doctor", "--json")
    assert result.data["ok"] is True
    assert result.data["checks"][-1] == {
        "group": "chip", "name": "memory", "state": "warn", "detail": "little", "fix": "buy more",
    }  # fmt: skip


def test_a_check_that_fails_is_exit_code_1(accelopt, checks):
    checks(chip=lambda: [GOOD, BAD])
    result = accelopt("doctor", "--json")
    assert (result.code, result.data["ok"]) == (1, False)


def test_a_check_that_breaks_is_a_failed_check():
    def no_chip():
        raise ConfigError("no such chip", hint="plug it in")

    def breaks():
        raise ZeroDivisionError("oh")

    found = run_checks({"chip": no_chip, "other": breaks})
    assert found["chip"] == [
        Check(name="chip", state="fail", detail="no such chip", fix="plug it in")
    ]
    assert found["other"][0].state == "fail"
    assert "ZeroDivisionError: oh" in found["other"][0].detail


def test_a_data_folder_that_can_not_be_written_fails(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ACCELOPT_HOME", str(file / "home"))
    assert {c.name: c.state for c in doctor.installation()}["data folder"] == "fail"


def test_missing_packages_and_little_space_are_said(monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    monkeypatch.setattr(doctor, "LOW_SPACE_BYTES", 1 << 80)
    states = {c.name: (c.state, c.detail) for c in doctor.installation()}
    assert states["packages"] == ("fail", "not installed: no-such-package")
    assert states["disk space"][0] == "warn"


def test_the_isolation_of_workers_is_tried_out(accelopt, monkeypatch):
    monkeypatch.setenv("ACCELOPT_ISOLATION", "process")
    result = accelopt("doctor", "--json")
    found = {c["name"]: c for c in result.data["checks"] if c["group"] == "worker isolation"}
    assert result.code == 0, found
    assert found["level"]["detail"].startswith("process")
    assert "side channels" in found["not stopped"]["detail"]
    if found["seccomp"]["state"] == "ok":
        tried = [c for name, c in found.items() if name.startswith("tried: ")]
        assert len(tried) > 8
        assert all(c["detail"].startswith("refused") for c in tried)


def test_a_level_that_does_not_exist_fails(accelopt, monkeypatch):
    monkeypatch.setenv("ACCELOPT_ISOLATION", "thick walls")
    result = accelopt("doctor", "--json")
    assert result.code == 1
    (failed,) = [check for check in result.data["checks"] if check["state"] == "fail"]
    assert failed["detail"].startswith("ACCELOPT_ISOLATION='thick walls' is not")


def test_every_failure_of_the_isolation_names_a_fix(monkeypatch):
    class Broken:
        def __init__(self, limits):
            self.server = self

        def measures(self):
            raise OSError("no process")

        def close(self):
            pass

    monkeypatch.setattr(isolation_checks, "WorkerPool", Broken)
    failed = [
        *isolation_checks.worker_isolation(),
        isolation_checks._user({"user": "0"}, {}),
        *isolation_checks._attempts({}, filtered=True),
    ]
    assert {check.state for check in failed} == {"fail"}
    assert all(check.fix for check in failed)
