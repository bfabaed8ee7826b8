from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from accelopt import paths
from accelopt.candidate import Candidate, Plan
from accelopt.config import RunConfig
from accelopt.errors import SchemaVersionError, StoreError
from accelopt.evaluation import Evaluation, EvaluationStatus
from accelopt.files import locked, write_atomic
from accelopt.kernel import KernelSource
from accelopt.run_store import SCHEMA_VERSION, RunStore

CONFIG = RunConfig(task="nkibench/silu", beam_width=4, temperature=0.5)


@pytest.fixture
def store(tmp_path):
    with RunStore.create(tmp_path / "runs", CONFIG, "nkibench/silu") as made:
        yield made


def candidate(id_, text="def kernel(x): pass\n", rounds=0):
    source = KernelSource(text=text)
    return Candidate(
        id=id_,
        iteration=1,
        source=source,
        fixer_rounds=rounds,
        evaluation=Evaluation(
            status=EvaluationStatus.LOAD_ERROR,
            task="t",
            backend="b",
            source_sha256=source.sha256,
        ),
    )


def test_run_ids_are_readable_and_unique(tmp_path):
    stores = [RunStore.create(tmp_path, CONFIG, "nkibench/silu@x") for _ in range(20)]
    names = {store.run_id for store in stores}
    assert len(names) == 20
    assert all(re.fullmatch(r"\d{8}-\d{6}-silu-x-[0-9a-f]{4}", name) for name in names)


def test_a_name_from_hell_gives_a_short_plain_folder(tmp_path):
    store = RunStore.create(tmp_path, CONFIG, "../../" + "É$ " * 200)
    assert store.path.parent == tmp_path
    assert len(store.run_id) < 80


def test_a_run_opens_as_it_was_made_whatever_the_environment_says(store, monkeypatch):
    monkeypatch.setenv("ACCELOPT_BEAM_WIDTH", "9")
    with RunStore.open(store.path) as opened:
        assert opened.config == CONFIG
        assert (opened.run_id, opened.task_name, opened.status) == (
            store.run_id,
            "nkibench/silu",
            "created",
        )


def test_updates_are_read_back(store):
    store.update(status="stopped", iterations_done=2, baseline_latency_us=9.0, best_latency_us=3.0)
    with RunStore.open(store.path) as opened:
        summary = opened.summary()
    assert (summary.status, summary.iterations, summary.speedup) == ("stopped", 2, 3.0)
    assert summary.task == "nkibench/silu"


def test_a_field_that_does_not_exist_is_refused(store):
    with pytest.raises(ValueError, match="sttatus"):
        store.update(sttatus="stopped")


def test_running_without_a_process_is_interrupted(store):
    store.update(status="running")
    with store.exclusive():
        code = (
            "import sys\nfrom pathlib import Path\nfrom accelopt.run_store import RunStore\n"
            "print(RunStore.open(Path(sys.argv[1])).status)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(store.path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == "running"
    assert store.status == "interrupted"


def test_candidates_and_plans_come_back_in_the_order_of_their_slots(store):
    names = ["i10-c0-p0-s0", "i2-c0-p10-s0", "i2-c0-p9-s0", "baseline"]
    for name in names:
        store.save_candidate(candidate(name))
        store.save_plan(Plan(id=name, parent="baseline", text="x"))
    assert [c.id for c in store.candidates()] == names[::-1]
    assert [plan.id for plan in store.plans()] == names[::-1]
    assert store.candidate("baseline") == candidate("baseline")
    assert (store.path / "kernels" / "baseline.py").read_text() == "def kernel(x): pass\n"


def test_attempts_are_kept_by_round_the_final_one_last(store):
    for rounds in (1, 0):
        store.save_failed_attempt(candidate("i1-c0-p0-s0", rounds=rounds))
    final = candidate("i1-c0-p0-s0", rounds=2).model_copy(update={"plan": "i1-c0-p0"})
    # Neither the baseline nor an attempt without a kernel was tried.
    without_kernel = final.model_copy(update={"id": "i1-c0-p0-s1", "source": KernelSource(text="")})
    for made in (candidate("baseline"), final, without_kernel):
        store.save_candidate(made)
    tried = [(tried.id, tried.fixer_rounds) for tried in store.attempts()]
    assert tried == [("i1-c0-p0-s0", rounds) for rounds in (0, 1, 2)]


@pytest.mark.parametrize("kind", ["candidate", "plan", "experience"])
def test_what_is_not_there_is_a_store_error(store, kind):
    with pytest.raises(StoreError, match=f"no {kind} 'x'"):
        getattr(store, kind)("x")


def test_events_survive_a_torn_last_line(store):
    store.append_event({"kind": "run_started", "text": "µ\n"})
    with store.events_path.open("a") as file:
        file.write('{"kind": "run_fin')
    assert store.events() == [{"kind": "run_started", "text": "µ\n"}]


def test_list_runs_is_newest_first_and_reports_broken_folders(tmp_path):
    good = [RunStore.create(tmp_path, CONFIG, name) for name in ("a/one", "a/two")]
    good[0].update(created="2026-01-01T00:00:00+00:00")
    good[1].update(created="2026-01-02T00:00:00+00:00")
    (tmp_path / "empty").mkdir()
    damaged = RunStore.create(tmp_path, CONFIG, "a/damaged")
    (damaged.path / "run.json").write_text("{")
    newer = RunStore.create(tmp_path, CONFIG, "a/newer")
    data = json.loads((newer.path / "run.json").read_text())
    (newer.path / "run.json").write_text(json.dumps(data | {"schema_version": 99}))
    (tmp_path / "notes.txt").write_text("not a run")
    summaries, broken = RunStore.list_runs(tmp_path)
    assert [summary.run for summary in summaries] == [good[1].run_id, good[0].run_id]
    assert set(broken) == {tmp_path / "empty", damaged.path, newer.path}
    assert "no run.json" in broken[tmp_path / "empty"]


def test_listing_a_folder_that_is_not_there_gives_nothing(tmp_path):
    assert RunStore.list_runs(tmp_path / "none") == ([], {})


def test_a_newer_schema_is_refused(store):
    data = json.loads((store.path / "run.json").read_text())
    data |= {"schema_version": SCHEMA_VERSION + 1, "a new field": 1}
    (store.path / "run.json").write_text(json.dumps(data))
    with pytest.raises(SchemaVersionError):
        RunStore.open(store.path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.json", "{"),
        ("run.json", "[]"),
        ("run.json", "{}"),
        ("run.toml", "beam_width = "),
        ("run.toml", "beam_width = 0"),
        ("run.toml", "beam_with = 2"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(store, name, text):
    (store.path / name).write_text(text)
    with pytest.raises(StoreError, match=re.escape(name)) as caught:
        RunStore.open(store.path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="run folder"):
        RunStore.create(tmp_path / "file", CONFIG, "t")


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "f"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_is_had_once(tmp_path):
    with locked(tmp_path / "l", wait=False) as first, locked(tmp_path / "l", wait=False) as second:
        assert (first, second) == (True, False)
    with locked(tmp_path / "l", wait=True) as third:
        assert third


def test_the_users_data_folder_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELOPT_HOME", str(tmp_path))
    assert paths.memory_dir() == tmp_path / "memory"
    monkeypatch.delenv("ACCELOPT_HOME")
    assert paths.user_data_dir().name == "accelopt"
    assert str(paths.runs_dir()) == "runs"
