"""Takes out of Chroma's index files what was never meant to be in them.

Chroma (seen with 1.5) writes the whole of the memory that it has reserved for an index, also the
places of elements that there are not: whatever the process had freed before, prompts and API keys
included. Those places are overwritten with zeros; they mean nothing to Chroma.

Layout of `header.bin` (hnswlib): int32 version, then four uint64: offset of level 0, reserved
elements, elements, bytes per element. `data_level0.bin` has that many bytes per reserved element,
`length.bin` four.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct("<iQQQQ")
_VERSION = 1
_LENGTH_BYTES = 4


def scrub_index_files(folder: Path) -> None:
    """Zero the unused places of every index below a folder; one of another layout is left alone."""
    for header in folder.glob("*/header.bin"):
        used = _used(header)
        if used is None:
            continue
        elements, element_bytes = used
        _zero_after(header.with_name("data_level0.bin"), elements * element_bytes)
        _zero_after(header.with_name("length.bin"), elements * _LENGTH_BYTES)


def _used(header: Path) -> tuple[int, int] | None:
    """Elements in the index, and bytes of each; None for a layout that is not known."""
    start = header.read_bytes()[: _HEADER.size]
    if len(start) < _HEADER.size:
        return None
    version, _, _, elements, element_bytes = _HEADER.unpack(start)
    return (elements, element_bytes) if version == _VERSION else None


def _zero_after(path: Path, used_bytes: int) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        file.seek(0, 2)
        unused = file.tell() - used_bytes
        if unused <= 0:
            return
        file.seek(used_bytes)
        if any(file.read(unused)):
            file.seek(used_bytes)
            file.write(bytes(unused))
