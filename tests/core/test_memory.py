from __future__ import annotations

import json
import sqlite3
import threading

import pytest

from accelopt.candidate import Experience
from accelopt.embedders import HashedTokenEmbedder
from accelopt.errors import SchemaVersionError, StoreError
from accelopt.memory import SCHEMA_VERSION, OptimizationMemory, relevance_text

EXP = "def kernel(x):\n    return nl.exp(nl.load(x))\n"
MATMUL = "def kernel(a, b):\n    return nisa.nc_matmul(stationary=a, moving=b)\n"


def lesson(id_, slow=EXP, *, device="trn1", dialect="nki", title="t"):
    return Experience(
        id=id_,
        title=title,
        strategy="s",
        slow_source=slow,
        fast_source="f",
        speedup=2.0,
        sign="positive",
        task="task",
        device=device,
        dialect=dialect,
        features={"bytes": 1.5},
    )


@pytest.fixture
def memory(tmp_path):
    with OptimizationMemory(tmp_path / "memory", HashedTokenEmbedder()) as opened:
        yield opened


def ids(lessons):
    return [found.id for found in lessons]


def test_a_lesson_comes_back_as_it_was(memory):
    memory.add(lesson("a"))
    assert memory.get("a") == lesson("a")
    assert memory.get("b") is None


def test_adding_again_replaces(memory):
    memory.add(lesson("a"))
    memory.add(lesson("a", title="new"))
    assert memory.count() == 1
    assert memory.all() == [lesson("a", title="new")]


def test_the_most_relevant_lesson_comes_first(memory):
    memory.add(lesson("exp", EXP))
    memory.add(lesson("matmul", MATMUL))
    assert ids(memory.retrieve(relevance_text(EXP), "trn1", "nki", 2)) == ["exp", "matmul"]
    assert ids(memory.retrieve(relevance_text(MATMUL), "trn1", "nki", 2)) == ["matmul", "exp"]
    assert ids(memory.retrieve(relevance_text(MATMUL), "trn1", "nki", 1)) == ["matmul"]


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_equal_relevance_goes_by_id_whatever_was_added_first(memory, order):
    for id_ in order:
        memory.add(lesson(id_))
    assert ids(memory.retrieve(EXP, "trn1", "nki", 2)) == ["a", "b"]


def test_other_devices_and_dialects_are_left_out(memory):
    memory.add(lesson("a"))
    memory.add(lesson("b", device="trn2"))
    memory.add(lesson("c", dialect="neuronxcc.nki"))
    assert ids(memory.retrieve(EXP, "trn1", "nki", 9)) == ["a"]
    assert ids(memory.all()) == ["a", "b", "c"]


def test_an_empty_memory_and_no_places_give_nothing(memory):
    assert memory.retrieve(EXP, "trn1", "nki", 5) == []
    memory.add(lesson("a"))
    assert memory.retrieve(EXP, "trn1", "nki", 0) == []


def test_lessons_survive_closing(tmp_path):
    with OptimizationMemory(tmp_path, HashedTokenEmbedder()) as memory:
        memory.add(lesson("a"))
    memory.close()
    with OptimizationMemory(tmp_path, HashedTokenEmbedder()) as again:
        assert ids(again.retrieve(EXP, "trn1", "nki", 5)) == ["a"]


def test_another_embedder_is_refused_by_name_and_by_dimension(tmp_path):
    OptimizationMemory(tmp_path, HashedTokenEmbedder()).close()

    class Other(HashedTokenEmbedder):
        @property
        def name(self):
            return "other"

    with pytest.raises(StoreError, match=r"hashed-tokens.*other"):
        OptimizationMemory(tmp_path, Other())
    with pytest.raises(StoreError, match="512 dimensions"):
        OptimizationMemory(tmp_path, HashedTokenEmbedder(64))


def test_a_newer_schema_is_refused(tmp_path):
    OptimizationMemory(tmp_path, HashedTokenEmbedder()).close()
    with sqlite3.connect(tmp_path / "chroma.sqlite3") as connection:
        changed = connection.execute(
            "UPDATE collection_metadata SET int_value = ? WHERE key = 'schema_version'",
            (SCHEMA_VERSION + 1,),
        ).rowcount
    connection.close()
    assert changed == 1
    with pytest.raises(SchemaVersionError) as caught:
        OptimizationMemory(tmp_path, HashedTokenEmbedder())
    assert caught.value.found == SCHEMA_VERSION + 1


def test_a_damaged_store_is_one_line(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database" * 500)
    with pytest.raises(StoreError, match="can't open"):
        OptimizationMemory(tmp_path, HashedTokenEmbedder())


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="memory folder"):
        OptimizationMemory(tmp_path / "file" / "memory", HashedTokenEmbedder())


def test_threads_may_add_at_once(memory):
    threads = [threading.Thread(target=memory.add, args=(lesson(f"{n:02}"),)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(memory.all()) == [f"{n:02}" for n in range(12)]


def test_a_second_reader_sees_what_the_first_added(memory):
    with OptimizationMemory(memory.path, HashedTokenEmbedder()) as other:
        memory.add(lesson("a"))
        assert ids(other.retrieve(EXP, "trn1", "nki", 5)) == ["a"]


def test_another_process_adds_and_this_one_sees_it(memory):
    import subprocess
    import sys

    memory.add(lesson("a"))
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from accelopt.candidate import Experience\n"
        "from accelopt.embedders import HashedTokenEmbedder\n"
        "from accelopt.memory import OptimizationMemory\n"
        "with OptimizationMemory(Path(sys.argv[1]), HashedTokenEmbedder()) as memory:\n"
        "    memory.add(Experience.model_validate_json(sys.argv[2]))\n"
    )
    text = json.dumps(lesson("b").model_dump(mode="json"))
    subprocess.run([sys.executable, "-c", code, str(memory.path), text], check=True)
    assert ids(memory.all()) == ["a", "b"]
    assert ids(memory.retrieve(EXP, "trn1", "nki", 5)) == ["a", "b"]
