"""What this process and everything it started hold: processes, descriptors, files and memory."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

JUDGE, SERVER, WRAPPER = "judge_main", "worker_main", "wrapper"
ENDED = "ended, not collected"
MEBI = 1 << 20


class Memory(NamedTuple):
    """Resident memory in bytes.

    Attributes:
        resident: all of it.
        own: without what is mapped from files and may be shared.
    """

    resident: int
    own: int


@dataclass(frozen=True)
class Process:
    """A process we started, or one that it started."""

    pid: int
    role: str
    memory: Memory


@dataclass(frozen=True)
class Holdings:
    """Everything held at one moment, between evaluations.

    Attributes:
        done: evaluations so far.
        descriptors: ours by kind: `pipe`, `socket`, `file` and so on.
        processes: all of them but ourselves.
        threads: ours.
        files: entries of the folder for temporary files, at any depth.
        here: memory of this process.
    """

    done: int
    descriptors: Counter[str]
    processes: tuple[Process, ...]
    threads: int
    files: tuple[str, ...]
    here: Memory

    def of(self, role: str) -> list[Process]:
        """The processes of a role, the largest first."""
        return sorted((p for p in self.processes if p.role == role), key=lambda p: -p.memory.own)

    @property
    def memory(self) -> Memory:
        """Of all processes together."""
        return _sum([self.here, *(p.memory for p in self.processes)])

    def with_judges(self, count: int) -> Memory:
        """As if so many judges ran, each of the mean size of those that do."""
        judges = _sum([p.memory for p in self.of(JUDGE)])
        rest = _sum([self.here, *(p.memory for p in self.processes if p.role != JUDGE)])
        share = count / max(1, len(self.of(JUDGE)))
        return Memory(*(int(r + j * share) for r, j in zip(rest, judges, strict=True)))

    def line(self) -> str:
        """A row of the table."""
        judges = " ".join(f"{p.memory.own / MEBI:.1f}" for p in self.of(JUDGE))
        servers = " ".join(f"{p.memory.own / MEBI:.1f}" for p in self.of(SERVER))
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.descriptors.items()))
        return (
            f"{self.done:5d}: {self.descriptors.total()} descriptors ({kinds}), "
            f"{len(self.processes)} processes, {self.threads} threads, {len(self.files)} files, "
            f"{self.memory.resident / MEBI:.1f} MiB resident, {self.memory.own / MEBI:.1f} own "
            f"(here {self.here.own / MEBI:.1f}, server {servers or '-'}, judges {judges or '-'})"
        )


def _sum(parts: list[Memory]) -> Memory:
    return Memory(sum(m.resident for m in parts), sum(m.own for m in parts))


class Observer:
    """Takes stock of one soak.

    Args:
        folder: where all temporary files of the soak go.
        marker: text that is only on the command lines of the soak's own servers.
    """

    def __init__(self, folder: Path, marker: str) -> None:
        self._folder = folder
        self._marker = marker.encode()
        self._sessions: set[int] = set()

    def holdings(self, done: int) -> Holdings:
        """Everything held now; garbage is collected first."""
        gc.collect()
        return Holdings(
            done=done,
            descriptors=descriptors(),
            processes=tuple(
                Process(pid, _role(pid), memory_of(pid)) for pid in sorted(self.processes())
            ),
            threads=threading.active_count(),
            files=tuple(sorted(str(p.relative_to(self._folder)) for p in self._folder.rglob("*"))),
            here=memory_of(os.getpid()),
        )

    def processes(self) -> set[int]:
        """Processes that came of ours, whoever their parent is now: zombies as well.

        Known by descent, by a session that one of them was seen to lead, by their command line, or
        by working in our folder.
        """
        parents: dict[int, int] = {}
        sessions: dict[int, int] = {}
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[pid], sessions[pid] = int(fields[1]), int(fields[3])
                if self._marker in (entry / "cmdline").read_bytes():
                    found.add(pid)
                if Path(os.readlink(entry / "cwd")).is_relative_to(self._folder):
                    found.add(pid)
        here = os.getpid()
        more = True
        while more:
            heads = found | {here}
            self._sessions |= {sessions[pid] for pid in found if pid in sessions}
            self._sessions.discard(sessions[here])
            more = {
                pid
                for pid, parent in parents.items()
                if parent in heads or sessions[pid] in self._sessions
            } - heads
            found |= more
        return found - {here}

    def of_role(self, role: str) -> list[int]:
        """Living processes of a role that are certainly ours, the oldest first.

        A number that a session of ours had may be that of somebody else's by now.
        """
        found = [pid for pid in self.processes() if _role(pid) == role and self._certain(pid)]
        return sorted(found, key=_started)

    def _certain(self, pid: int) -> bool:
        with suppress(OSError):
            parent = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1]
            command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
            return int(parent) == os.getpid() or self._marker in command
        return False


def descriptors() -> Counter[str]:
    """Open descriptors of this process by kind."""
    found: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            found[target.partition(":")[0] if not target.startswith("/") else "file"] += 1
    return found


def memory_of(pid: int) -> Memory:
    """Memory of a process; nothing when it is gone.

    Not proportional sizes: these rise when somebody else's process ends that had a library open.
    """
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        page = os.sysconf("SC_PAGE_SIZE")
        return Memory(int(fields[1]) * page, (int(fields[1]) - int(fields[2])) * page)
    return Memory(0, 0)


def _role(pid: int) -> str:
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        for role in (JUDGE, SERVER):
            if role in command:
                # Inside bubblewrap the server is a grandchild: the wrapper is not it.
                wraps = command.partition("\0")[0].endswith("bwrap")
                return WRAPPER if wraps else role
        return command.replace("\0", " ").strip()[:60] or ENDED
    return "gone"


def _started(pid: int) -> int:
    """When a process was started; numbers of processes are used again."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 1 << 62
