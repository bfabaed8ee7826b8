"""One evaluation per core: cores are lent out, within this process and between processes.

A lent core is a locked file, and the lock belongs to the process: however that ends, the core is
free again.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from accelopt.errors import AcceloptError, ConfigError

CORES_VARIABLE = "ACCELOPT_NEURON_CORES"
"""Cores that accelopt may use, for example `0-3,8`; all by default."""
VISIBLE_VARIABLE = "NEURON_RT_VISIBLE_CORES"
"""What the runtime calls the same."""
POLL_S = 0.05


def lock_folder() -> Path:
    """Folder of the lock files, shared by all users of a machine."""
    return Path(tempfile.gettempdir()) / "accelopt-neuron-cores"


class CorePool:
    """Lends cores.

    Args:
        cores: indices of the cores.
        folder: of the lock files; `lock_folder()` by default.
    """

    def __init__(self, cores: Sequence[int], folder: Path | None = None) -> None:
        self.cores = tuple(cores)
        self._folder = folder or lock_folder()
        self._free = set(self.cores)
        self._changed = threading.Condition()

    @contextmanager
    def lease(self, *, wait_s: float, avoid: Collection[int] = ()) -> Iterator[int]:
        """Lend a core until the block ends.

        Args:
            wait_s: how long to wait for one.
            avoid: cores that are only taken when there is no other at all.

        Raises:
            AcceloptError: all stay in use.
        """
        deadline = time.monotonic() + wait_s
        core, descriptor = self._take(deadline, avoid)
        try:
            yield core
        finally:
            os.close(descriptor)
            with self._changed:
                self._free.add(core)
                self._changed.notify_all()

    def _take(self, deadline: float, avoid: Collection[int]) -> tuple[int, int]:
        with self._changed:
            while True:
                for core in sorted(self._free, key=lambda core: (core in avoid, core)):
                    descriptor = self._lock(core)
                    if descriptor is not None:
                        self._free.discard(core)
                        return core, descriptor
                left = deadline - time.monotonic()
                if left <= 0:
                    named = ", ".join(map(str, self.cores))
                    raise AcceloptError(
                        f"no NeuronCore became free: {named} are in use by other evaluations",
                        hint=f"wait for the other run, or name other cores in {CORES_VARIABLE}",
                    )
                # Another process tells nobody when it gives a core back.
                self._changed.wait(min(left, POLL_S if self._free else 1.0))

    def _lock(self, core: int) -> int | None:
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # a machine's users share it
                self._folder.chmod(0o1777)
        path = self._folder / f"core{core}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def allowed_cores(present: Sequence[int]) -> tuple[int, ...]:
    """The cores of this machine that accelopt may use.

    Raises:
        ConfigError: the environment names others, or nothing that can be read.
    """
    for variable in (CORES_VARIABLE, VISIBLE_VARIABLE):
        text = os.environ.get(variable, "").strip()
        if text:
            chosen = _parse(variable, text)
            missing = sorted(set(chosen) - set(present))
            if missing:
                raise ConfigError(
                    f"{variable} names core {missing[0]}, which this machine does not have",
                    hint=f"it has {', '.join(map(str, present))}",
                )
            return chosen
    return tuple(present)


def _parse(variable: str, text: str) -> tuple[int, ...]:
    cores: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            cores += range(int(first), int(last or first) + 1)
    except ValueError:
        raise ConfigError(
            f"{variable} is {text!r}", hint="write core numbers, for example 0-3,8"
        ) from None
    return tuple(dict.fromkeys(cores))
