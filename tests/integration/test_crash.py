"""Killed at any moment and resumed, a run loses nothing it has paid for and ends the same.

The chat server and the log of the backend outlive the killed processes, so they say what was really
asked and judged; the journal is read right after each kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scripted_answers import LOG_VARIABLE, VOICES, outcome

from accelopt.config import RunConfig
from accelopt.evaluation_key import evaluation_key
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, dummy_task
from accelopt.testing.chat_server_process import ChatServerProcess

HERE = Path(__file__).parent
SCRIPT = f"{HERE / 'scripted_answers.py'}:answer"
SEED = 20250
WORKERS = 2

pytestmark = pytest.mark.timeout(600)


class Launcher:
    """Starts processes that run a run folder, and kills them."""

    def __init__(self, home):
        ours = ("ACCELOPT_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "crash_run.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean | {"ACCELOPT_HOME": str(home)},
        )
        assert self._line() == "ready"
        self._child = 0

    def _line(self):
        return self._process.stdout.readline().strip()

    def start(self, **what):
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        self._child = int(self._line())

    def running(self):
        """Whether the last process still runs: a dead one is a zombie until it is waited for."""
        try:
            return (
                Path(f"/proc/{self._child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
            )
        except OSError:
            return False

    def kill(self):
        """The exit status of the last process, which may have ended by itself before."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        return self.wait()

    def wait(self):
        return int(self._line())

    def close(self):
        self._process.communicate()


@dataclass
class Snapshot:
    """What a journal held when a process died.

    Attributes:
        answers: (slot, prompt hash) -> model.
        evaluations: content key -> seeds that were compared.
        verified: candidates that were traced a second time.
    """

    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    evaluations: dict[str, set[int]] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)

    def contents(self):
        """(model, prompt hash) -> journalled answers."""
        return Counter((model, prompt) for (_, prompt), model in self.answers.items())


@dataclass
class Session:
    """One process: what the journal held before it, and what it did."""

    before: Snapshot
    after: Snapshot
    events: list[dict]
    calls: list[dict]
    killed: bool


def read_journal(path, folder):
    """What the file holds; a copy is read, since opening it would already repair it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for suffix in ("", "-wal"):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", folder / f"journal.sqlite{suffix}")
    connection = sqlite3.connect(folder / "journal.sqlite")
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        snapshot = Snapshot()
        if "answers" in tables:
            rows = connection.execute("SELECT slot, prompt_hash, data FROM answers")
            for slot, prompt, data in rows:
                label = json.loads(data)["label"]
                snapshot.answers[slot, prompt] = label.removeprefix("openai:")
        if "evaluations" in tables:
            for key, data in connection.execute("SELECT key, data FROM evaluations"):
                snapshot.evaluations[key] = {seed["seed"] for seed in json.loads(data)["seeds"]}
        if "records" in tables:
            rows = connection.execute("SELECT id FROM records WHERE kind = 'verification'")
            snapshot.verified = {id_ for (id_,) in rows}
        return snapshot
    finally:
        connection.close()


class Tail:
    """Reads what a file has grown by; a line that a crash cut off is left out."""

    def __init__(self, path):
        self._path, self._offset = path, 0

    def read(self):
        if not self._path.exists():
            return []
        data = self._path.read_bytes()
        new, self._offset = data[self._offset :], len(data)
        lines = []
        for line in new.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines


class History:
    """One run, from its first process to its last."""

    def __init__(self, launcher, folder):
        self.launcher, self.folder, self.task = launcher, folder, dummy_task()
        folder.mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(LOG_VARIABLE, str(folder / "script.log"))
            self.server = ChatServerProcess(SCRIPT)
        config = RunConfig.load(
            None,
            preset="quick",
            task=self.task.name,
            backend="dummy",
            model="openai:scripted",
            planner_model=",".join(f"openai:{voice}" for voice in VOICES),
            base_url=self.server.base_url,
            memory="none",
            evaluation_cache="none",
            patience=0,
            model_timeout_s=1.0,
            model_retries=6,
            workers=WORKERS,
        )
        with RunStore.create(folder / "runs", config, self.task.name) as store:
            self.path = store.path
        self.best, self.events = self.path / "best.py", self.path / "events.jsonl"
        self._events, self._calls = Tail(self.events), Tail(folder / "backend.log")
        self.sessions = []

    def start(self):
        number = len(self.sessions)
        self.launcher.start(
            folder=str(self.path), log=str(self.folder / "backend.log"), key=f"session-{number}"
        )

    def note(self, status):
        """Write down what the process that has just ended left behind; whether it was killed."""
        assert status in (0, -signal.SIGKILL)
        after = read_journal(self.path / "journal.sqlite", self.folder / "copy")
        before = self.sessions[-1].after if self.sessions else Snapshot()
        killed = status != 0
        self.sessions.append(
            Session(before, after, self._events.read(), self._calls.read(), killed)
        )
        return killed

    def let_end(self):
        self.start()
        self.note(self.launcher.wait())

    def close(self):
        self.server.close()

    def log_of(self, number):
        """What the server noted of one process' requests, whenever they got through to it."""
        lines = (self.folder / "script.log").read_text().splitlines()
        requests = [json.loads(line) for line in lines]
        return [r for r in requests if r["session"] == f"Bearer session-{number}"]


def kill_somewhere(history, rng, duration_s):
    """Kill the run's process: while it starts, at any time, in its work, or at the very end.

    Returns whether it was killed: it may have ended before.
    """
    moment = rng.choices(("start", "time", "work", "end"), (2, 3, 5, 2))[0]
    result, said = inode(history.best), size(history.events)
    enough = said + rng.randrange(12_000)
    history.start()
    match moment:
        case "start":
            time.sleep(rng.uniform(0, 0.15))
        case "time":
            time.sleep(rng.uniform(0, duration_s))
        case "work":
            while history.launcher.running() and size(history.events) < enough:
                time.sleep(0.0005)
        case _:
            while history.launcher.running() and inode(history.best) == result:
                time.sleep(0.0005)
            time.sleep(rng.choice((0.0, 0.001, 0.005)))
    return history.note(history.launcher.kill())


def inode(path):
    return path.stat().st_ino if path.exists() else None


def size(path):
    return path.stat().st_size if path.exists() else 0


def check_asked(history):
    """Each answer was asked for once, and again only if a kill took it while it was under way."""
    final = history.sessions[-1].after
    good = lost = 0
    for number, session in enumerate(history.sessions):
        requests = history.log_of(number)
        of_kind = {
            kind: [event for event in session.events if event["kind"] == kind]
            for kind in ("model_call_started", "model_call_finished", "model_call_failed")
        }
        started = [event["slot"] for event in of_kind["model_call_started"]]
        paid = {slot for slot, _ in session.before.answers}
        # A question is asked again in a slot of its own, so a slot has one answer.
        assert paid.isdisjoint(started)
        assert len(started) == len(set(started))
        # Nothing reaches the server that the run did not say it would ask.
        assert len(requests) <= len(started) + len(of_kind["model_call_failed"])

        # An answer that came too late was asked for again for a reason.
        bad = sum(not request["good"] for request in requests)
        late = max(0, len(of_kind["model_call_failed"]) - bad)
        answered = Counter((r["model"], r["prompt"]) for r in requests if r["good"])
        open_before = final.contents() - session.before.contents()
        assert (answered - open_before).total() <= late

        ended = {e["slot"] for e in of_kind["model_call_finished"] if not e.get("cached")}
        new = len(session.after.answers) - len(session.before.answers)
        in_flight = set(started) - ended
        assert answered.total() - new <= len(in_flight) + late
        if not session.killed:
            assert not in_flight
        good, lost = good + answered.total(), lost + len(in_flight) + late
    assert good <= len(final.answers) + lost


def check_judged(history, candidates):
    """What was judged is journalled, and was not judged again by a later process."""
    backend = DummyBackend()
    key_of = {c.id: evaluation_key(history.task, c.source, backend) for c in candidates}
    for session in history.sessions:
        known = session.before.evaluations
        verified = {key_of[id_] for id_ in session.before.verified}
        for call in session.calls:
            if call["what"] == "estimate":
                assert call["key"] not in known
            elif call["what"] == "numbers":
                assert known.get(call["key"], set()).isdisjoint(call["seeds"])
            else:
                assert call["key"] not in verified
        starts = Counter(
            (c["key"], c["what"], tuple(c["seeds"])) for c in session.calls if c["at"] == "start"
        )
        assert max(starts.values(), default=1) == 1
        ended = [c for c in session.calls if c["at"] == "end" and c["what"] != "screen"]
        after = session.after.evaluations
        # The first seed that fails ends a comparison.
        unsaved = [
            c
            for c in ended
            if c["key"] not in after or not after[c["key"]].issuperset(c["seeds"][:1])
        ]
        assert len(unsaved) <= (WORKERS if session.killed else 0)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("needs fork and /proc")
    made = Launcher(tmp_path_factory.mktemp("home"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def uninterrupted(launcher, tmp_path_factory):
    """A run that nothing kills: what it decides, what it pays, and how long it takes."""
    history = History(launcher, tmp_path_factory.mktemp("uninterrupted") / "run")
    try:
        began_s = time.monotonic()
        history.let_end()
        duration_s = time.monotonic() - began_s
    finally:
        history.close()
    with RunStore.open(history.path) as store:
        check_asked(history)
        check_judged(history, store.candidates())
        return outcome(store), store.journal.counts(), duration_s


def kill_and_resume(launcher, uninterrupted, folder, kills, seed):
    decided, paid, duration_s = uninterrupted
    rng = random.Random(seed)
    histories, left = 0, kills
    while left:
        history = History(launcher, folder / f"run{histories}")
        histories += 1
        try:
            ended = False
            while left and not ended:
                ended = not kill_somewhere(history, rng, duration_s)
                left -= not ended
            if not ended:
                history.let_end()
        finally:
            history.close()
        assert not history.sessions[-1].killed
        with RunStore.open(history.path) as store:
            assert store.status == "finished"
            assert outcome(store) == decided
            assert store.journal.counts() == paid
            check_asked(history)
            check_judged(history, store.candidates())


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_pays_for_nothing_twice_and_ends_the_same(
    launcher, uninterrupted, tmp_path, kills
):
    kill_and_resume(launcher, uninterrupted, tmp_path, kills=kills, seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_a_hundred_kills(launcher, uninterrupted, tmp_path):
    kill_and_resume(launcher, uninterrupted, tmp_path, kills=100, seed=SEED + 1)
