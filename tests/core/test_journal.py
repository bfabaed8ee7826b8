from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from accelopt.errors import SchemaVersionError, StoreError
from accelopt.evaluation import Evaluation, EvaluationStatus
from accelopt.journal import SCHEMA_VERSION, Answer, Journal, JournalCounts


def evaluation(latency_us):
    return Evaluation(
        status=EvaluationStatus.OK,
        task="t",
        backend="b",
        source_sha256="s",
        latency_us=latency_us,
        line_facts={3: "fact"},
    )


@pytest.fixture
def journal(tmp_path):
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def test_an_answer_is_found_by_slot_and_prompt(journal):
    answer = Answer(reply="r", reasoning="why", model="m", input_tokens=3, output_tokens=4)
    assert journal.answer("i1-c0-p0", "hash") is None
    assert journal.record_answer("i1-c0-p0", "hash", answer) == answer
    assert journal.answer("i1-c0-p0", "hash") == answer
    assert journal.answer("i1-c0-p1", "hash") is None
    assert journal.answer("i1-c0-p0", "other") is None


def test_the_first_answer_stays_and_is_what_everyone_gets(journal):
    journal.record_answer("s", "h", Answer(reply="first"))
    assert journal.record_answer("s", "h", Answer(reply="second")).reply == "first"


def test_an_evaluation_keeps_its_text(journal):
    journal.record_evaluation("key", "text", evaluation(1.5))
    found = journal.evaluation("key")
    assert found is not None
    assert (found.source, found.evaluation) == ("text", evaluation(1.5))
    assert journal.evaluation("other") is None


def test_the_first_retrieval_stays_even_when_it_was_empty(journal):
    assert journal.retrieval("slot") is None
    assert journal.record_retrieval("slot", []) == []
    assert journal.record_retrieval("slot", [{"id": "a"}]) == []
    assert journal.retrieval("slot") == []


def test_a_record_may_be_replaced(journal):
    journal.put_record("plan", "a", "1")
    journal.put_record("plan", "a", "2")
    journal.put_record("other", "a", "3")
    assert journal.record("plan", "a") == "2"
    assert journal.records("plan") == {"a": "2"}
    assert journal.record("plan", "b") is None


def test_counts_add_up_and_count_each_thing_once(journal):
    assert journal.counts() == JournalCounts()
    for slot in ("a", "b", "a"):
        journal.record_answer(slot, "h", Answer(reply="r", input_tokens=10, output_tokens=2))
    for key in ("k", "k"):
        journal.record_evaluation(key, "", evaluation(1.0))
    assert journal.counts() == JournalCounts(
        model_calls=2, evaluations=1, input_tokens=20, output_tokens=4, unpriced_calls=2
    )


def test_it_survives_being_reopened(tmp_path):
    first = Journal(tmp_path / "j")
    first.record_answer("s", "h", Answer(reply="kept"))
    first.close()
    first.close()
    second = Journal(tmp_path / "j")
    found = second.answer("s", "h")
    second.close()
    assert found == Answer(reply="kept")


def test_it_is_in_wal_mode_with_normal_synchronous(journal):
    assert journal._file.one("PRAGMA journal_mode") == ("wal",)
    assert journal._file.one("PRAGMA synchronous") == (1,)


def test_kill_9_right_after_recording_loses_nothing(tmp_path):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from accelopt.journal import Answer, Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "journal.record_answer('s', 'h', Answer(reply='paid for'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "j")], check=False)
    assert done.returncode == -signal.SIGKILL
    journal = Journal(tmp_path / "j")
    found = journal.answer("s", "h")
    journal.close()
    assert found == Answer(reply="paid for")


def test_a_newer_schema_is_refused(tmp_path):
    Journal(tmp_path / "j").close()
    with sqlite3.connect(tmp_path / "j") as connection:
        connection.execute("UPDATE meta SET value = ?", (str(SCHEMA_VERSION + 1),))
    connection.close()
    with pytest.raises(SchemaVersionError, match="upgrade"):
        Journal(tmp_path / "j")


def test_a_file_that_is_no_journal_is_a_store_error(tmp_path):
    (tmp_path / "j").write_bytes(os.urandom(8192))
    with pytest.raises(StoreError, match="not a journal"):
        Journal(tmp_path / "j")
    with pytest.raises(StoreError, match="can't open"):
        Journal(tmp_path / "missing" / "j")


def test_many_threads_share_one_connection(journal):
    def work(number):
        for step in range(25):
            journal.record_answer(f"{number}-{step}", "h", Answer(reply=str(step)))
            found = journal.answer(f"{number}-{step}", "h")
            assert found == Answer(reply=str(step))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.counts().model_calls == 200
