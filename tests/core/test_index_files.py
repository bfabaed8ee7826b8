"""What a process once had in memory does not stay in the index files of the memory."""

from __future__ import annotations

import struct

from test_memory import lesson

from accelopt.embedders import HashedTokenEmbedder
from accelopt.index_files import scrub_index_files
from accelopt.memory import OptimizationMemory

SECRET = b"sk-left-over-in-freed-memory"


def index(folder, elements, reserved=10, version=1):
    """An index with something left over in all its places."""
    made = folder / "segment"
    made.mkdir()
    (made / "header.bin").write_bytes(struct.pack("<iQQQQ", version, 0, reserved, elements, 40))
    (made / "data_level0.bin").write_bytes((SECRET * 20)[: 40 * reserved])
    (made / "length.bin").write_bytes((SECRET * 20)[: 4 * reserved])
    return made


def test_places_of_elements_stay_and_all_others_are_zeroed(tmp_path):
    made = index(tmp_path, elements=3)
    scrub_index_files(tmp_path)
    data, length = (made / "data_level0.bin").read_bytes(), (made / "length.bin").read_bytes()
    assert data == (SECRET * 20)[:120] + bytes(280)
    assert length == SECRET[:12] + bytes(28)


def test_an_index_of_another_layout_is_left_alone(tmp_path):
    made = index(tmp_path, elements=3, version=2)
    before = (made / "data_level0.bin").read_bytes()
    scrub_index_files(tmp_path)
    assert (made / "data_level0.bin").read_bytes() == before


def test_chromas_own_files_have_the_layout_and_nothing_unused_in_them(tmp_path):
    embedder = HashedTokenEmbedder()
    with OptimizationMemory(tmp_path, embedder) as memory:
        memory.add(lesson("a"))
    [header] = tmp_path.glob("*/header.bin")
    version, offset, reserved, elements, _ = struct.unpack("<iQQQQ", header.read_bytes()[:36])
    assert (version, offset, elements) == (1, 0, 0)
    length = header.with_name("length.bin").read_bytes()
    assert len(length) == 4 * reserved
    assert not any(length)
    assert not any(header.with_name("data_level0.bin").read_bytes())


def test_a_large_memory_is_whole_after_its_index_was_written_and_scrubbed(tmp_path):
    # Chroma writes its index after a thousand lessons.
    embedder = HashedTokenEmbedder(dimension=8)
    many = [lesson(f"e{number:04d}", slow=f"x = {number}") for number in range(1100)]
    with OptimizationMemory(tmp_path, embedder) as memory:
        for start in range(0, len(many), 100):
            memory.add(*many[start : start + 100])
        before = memory.retrieve("x = 7", "trn1", "nki", 20)
    with OptimizationMemory(tmp_path, embedder) as again:
        assert again.count() == 1100
        assert again.retrieve("x = 7", "trn1", "nki", 20) == before
        again.add(lesson("more", slow="x = 7"))
        assert again.count() == 1101
    [header] = tmp_path.glob("*/header.bin")
    assert struct.unpack("<iQQQQ", header.read_bytes()[:36])[3] > 0
