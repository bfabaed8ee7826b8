"""`accelopt doctor` on the optimization memory: found sound or damaged, and left as it was."""

from __future__ import annotations

import pytest

import accelopt.memory
from accelopt import paths
from accelopt.candidate import Experience
from accelopt.embedders import HashedTokenEmbedder
from accelopt.files import locked
from accelopt.memory import LOCK_FILE, OptimizationMemory
from accelopt.testing.samples import nki_sample
from accelopt_graphs import memory_check
from accelopt_graphs.memory_check import memory_checks


@pytest.fixture
def folder():
    return paths.memory_dir()


@pytest.fixture
def filled(folder, lesson):
    with OptimizationMemory(folder, HashedTokenEmbedder()) as memory:
        memory.add(lesson)
    return folder


@pytest.fixture
def lesson():
    source = nki_sample().good.text
    return Experience(
        id="e1", slow_source=source, fast_source=source + "\n# fast", speedup=1.5,
        title="t", strategy="s", task="conformance/scale_and_add", device="trn1",
        dialect="neuronxcc.nki", bottleneck="dma", sign="positive",
    )  # fmt: skip


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_no_store_yet_is_fine_and_none_is_made(folder):
    (check,) = memory_checks()
    assert (check.state, folder.exists()) == ("ok", False)


def test_a_healthy_store_is_asked_and_not_changed(filled):
    before = contents(filled)
    found = {check.name: check for check in memory_checks()}
    assert {check.state for check in found.values()} == {"ok"}
    assert found["lessons"].detail.startswith("1,")
    assert found["query"].detail == "answered"
    assert found["opens"].detail == "schema version 1"
    assert contents(filled) == before


def test_a_damaged_database_fails_with_what_to_move_away(filled):
    database = filled / "chroma.sqlite3"
    data = bytearray(database.read_bytes())
    data[100 : len(data) // 2] = b"\xff" * (len(data) // 2 - 100)
    database.write_bytes(data)
    last = memory_checks()[-1]
    assert last.state == "fail"
    assert str(filled) in last.fix


def test_a_store_of_a_newer_version_fails_and_says_so(folder, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(accelopt.memory, "SCHEMA_VERSION", 9)
        OptimizationMemory(folder, HashedTokenEmbedder()).close()
    before = contents(folder)
    last = memory_checks()[-1]
    assert (last.state, last.fix) == ("fail", "upgrade accelopt")
    assert f"{folder} has schema version 9" in last.detail
    assert contents(folder) == before


def test_a_store_of_another_embedder_fails_with_a_fix(folder):
    class Other(HashedTokenEmbedder):
        name = "other"

    OptimizationMemory(folder, Other()).close()
    last = memory_checks()[-1]
    assert (last.state, bool(last.fix)) == ("fail", True)


def test_a_store_that_can_not_be_written_fails(filled, monkeypatch):
    monkeypatch.setattr(memory_check.os, "access", lambda path, mode: False)
    (check,) = memory_checks()
    assert (check.state, "ACCELOPT_MEMORY" in check.fix) == ("fail", True)


def test_a_store_that_can_not_be_made_fails(folder, monkeypatch):
    monkeypatch.setattr(memory_check.os, "access", lambda path, mode: False)
    (check,) = memory_checks()
    assert (check.state, "ACCELOPT_MEMORY" in check.fix) == ("fail", True)
    assert not folder.exists()


def test_a_store_that_a_run_writes_to_is_left_alone(filled):
    with locked(filled / LOCK_FILE, wait=False):
        last = memory_checks()[-1]
    assert (last.name, last.state, bool(last.fix)) == ("lock", "warn", True)


def test_a_file_in_place_of_the_folder_fails(folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("x")
    (check,) = memory_checks()
    assert (check.state, bool(check.fix)) == ("fail", True)


def test_a_private_memory_is_not_looked_for(monkeypatch):
    monkeypatch.setenv("ACCELOPT_MEMORY", "none")
    (check,) = memory_checks()
    assert check.state == "ok"
